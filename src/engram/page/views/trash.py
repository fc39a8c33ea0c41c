"""The trash: what was deleted and can be restored, until it is removed for good."""

from __future__ import annotations

from engram.errors import NotFoundError
from engram.model.conversation import DeletionReceipt
from engram.model.fields import parse_whole_number
from engram.model.ids import CONVERSATION_PREFIX
from engram.model.trash import TrashEmptied, TrashEntry, TrashPage
from engram.model.value import Value
from engram.page.actors import key_names
from engram.page.chips import Chip, chips_of
from engram.page.view import Act, Done, Menu, Undo, View
from engram.page.visit import Visit

PAGE = 50
SCANNED = 100
FILTERS = ("kind", "project")


class TrashListed(Value):
    """One page of the trash."""

    found: TrashPage
    offset: int
    chips: tuple[Chip, ...]
    kind: str | None
    key_names: dict[str, str]


class RemovalPage(Value):
    """What is about to be removed for good: one entry, or everything."""

    entry: TrashEntry | None
    conversations: int
    memories: int


async def load(visit: Visit) -> TrashListed:
    """Return a page of the trash, what was deleted last first."""
    offset = parse_whole_number("offset", visit.given("offset") or "0")
    given = {name: visit.given(name) for name in FILTERS}
    found = await visit.call("trash_list", limit=PAGE, offset=offset, **given)
    chips = chips_of(visit, ("project",), lists=(), labels={})
    return TrashListed(
        found=found,
        offset=offset,
        chips=chips,
        kind=given["kind"],
        key_names=await key_names(visit) if found.entries else {},
    )


async def load_all(visit: Visit) -> RemovalPage:
    """Return how much would be removed."""
    totals = {
        kind: (await visit.call("trash_list", kind=kind, limit=1)).total
        for kind in ("conversation", "memory")
    }
    return RemovalPage(entry=None, conversations=totals["conversation"], memories=totals["memory"])


async def load_one(visit: Visit) -> RemovalPage:
    """Return the entry that would be removed."""
    entry = await _find(visit, visit.parameters["entry_id"])
    is_talk = entry.kind == "conversation"
    return RemovalPage(entry=entry, conversations=int(is_talk), memories=int(not is_talk))


async def _find(visit: Visit, entry_id: str) -> TrashEntry:
    offset: int | None = 0
    while offset is not None:
        page: TrashPage = await visit.call("trash_list", limit=SCANNED, offset=offset)
        for entry in page.entries:
            if entry.id == entry_id:
                return entry
        offset = page.next_offset
    raise NotFoundError("entry of the trash", entry_id)


async def put(visit: Visit) -> Done:
    """Move a conversation or memory to the trash."""
    sent = visit.sent("id")
    if sent.startswith(CONVERSATION_PREFIX):
        gone: DeletionReceipt = await visit.call(
            "delete_conversation", conversation_id=sent, undo=True
        )
        messages = "1 message" if gone.messages == 1 else f"{gone.messages:,} messages"
        to, what = "/conversations", f"conversation with its {messages}"
    else:
        await visit.call("memory_purge", memory_id=sent, undo=True)
        to, what = "/memories", "memory"
    return Done(
        to=to,
        notice=f"The {what} is in the trash.",
        undo=Undo(action="/trash/restore", fields={"id": sent}),
    )


async def restore(visit: Visit) -> Done:
    """Put back what was deleted, as it was."""
    restored = await visit.call("trash_restore", id=visit.sent("id"))
    kind = "conversations" if restored.kind == "conversation" else "memories"
    return Done(
        to=f"/{kind}/{restored.id}",
        notice=f"The {restored.kind} is back.",
        undo=Undo(action="/trash", fields={"id": restored.id}),
    )


async def remove(visit: Visit) -> Done:
    """Remove one entry for good."""
    await visit.call("trash_empty", id=visit.parameters["entry_id"])
    return Done(to="/trash", notice="It is removed for good.")


async def empty(visit: Visit) -> Done:
    """Remove everything in the trash for good."""
    emptied: TrashEmptied = await visit.call("trash_empty")
    held = f" {emptied.held:,} stay, because a legal hold is on them." if emptied.held else ""
    return Done(to="/trash", notice=f"{emptied.removed:,} removed for good.{held}")


VIEWS = (
    View(
        path="/trash",
        template="trash.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Trash", place="more"),
    ),
    View(
        path="/trash/empty",
        template="trash_removal.html",
        load=load_all,
        scopes=("read", "delete"),
    ),
    View(
        path="/trash/{entry_id}/remove",
        template="trash_removal.html",
        load=load_one,
        scopes=("read", "delete"),
    ),
)
ACTS = (
    Act(path="/trash", run=put, scopes=("delete",)),
    Act(path="/trash/restore", run=restore, scopes=("write", "delete")),
    Act(path="/trash/empty", run=empty, scopes=("delete",)),
    Act(path="/trash/{entry_id}/remove", run=remove, scopes=("delete",)),
)
