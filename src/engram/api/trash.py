"""Operations on the trash."""

from __future__ import annotations

from typing import Annotated

from engram.api.lean import date_of, list_text, short_title
from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.model.request import Request
from engram.model.trash import Restored, TrashEmptied, TrashEntry, TrashPage, TrashQuery

TOOLSET = "maintenance"
GROUP = "trash"


class TrashReference(Request):
    """Names what was deleted."""

    id: Annotated[str, "Of the conversation or memory."]


class TrashSelection(Request):
    """Selects one entry of the trash, or all of them."""

    id: Annotated[
        str | None, "Of the conversation or memory. Default: everything in the trash."
    ] = None


def trash_text(page: TrashPage, token_budget: int) -> str:
    """Return a page of the trash, a line each."""
    lines = [_line(entry) for entry in page.entries]
    return list_text(lines, page.total, page.next_offset, token_budget, noun="entries of the trash")


def _line(entry: TrashEntry) -> str:
    until = date_of(entry.restorable_until)
    head = f"{entry.id} {short_title(entry.title or 'untitled')}"
    return f"{head}, deleted {date_of(entry.deleted_at)}, restorable until {until}"


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="trash_list",
        description="List what was deleted with undo and can be restored, the last deleted first.",
        request=TrashQuery,
        answer=TrashPage,
        run=lambda service, me, request: service.trash.list(me, request),
        group=GROUP,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="List the trash", hints=("reads",), lean=trash_text),
        routes=(Route(method="GET", path="/api/v1/trash"),),
        command=Command(words=("trash", "list")),
    ),
    Operation(
        name="trash_restore",
        description="Restore what was deleted with undo, as it was.",
        request=TrashReference,
        answer=Restored,
        run=lambda service, me, request: service.trash.restore(me, request.id),
        group=GROUP,
        scopes=("write", "delete"),
        toolset=TOOLSET,
        tool=Tool(title="Restore from the trash", hints=("repeatable",)),
        routes=(Route(method="POST", path="/api/v1/trash/{id}/restore"),),
        command=Command(words=("trash", "restore"), arguments=("id",)),
    ),
    Operation(
        name="trash_empty",
        description="Remove what is in the trash for good, or one entry of it.",
        request=TrashSelection,
        answer=TrashEmptied,
        run=lambda service, me, request: service.trash.empty(me, request.id),
        group=GROUP,
        scopes=("delete",),
        toolset=TOOLSET,
        routes=(
            Route(method="DELETE", path="/api/v1/trash"),
            Route(
                method="DELETE",
                path="/api/v1/trash/{id}",
                name="trash_remove",
                description="Remove an entry of the trash for good.",
            ),
        ),
        command=Command(
            words=("trash", "empty"),
            arguments=("id",),
            question="Remove what is in the trash for good?",
        ),
    ),
)
