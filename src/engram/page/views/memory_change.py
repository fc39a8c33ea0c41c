"""The forms that correct a memory, or forget it, and restoring a forgotten one."""

from __future__ import annotations

from typing import Any

from engram.api.memories import ANYWHERE, memory_view
from engram.api.memory_views import MemoryView
from engram.model.memory import CATEGORIES, IMPORTANCE_NAMES, MEMORY_TYPES
from engram.model.value import Value
from engram.page.memories import find_memory, undo_correction
from engram.page.view import Act, Done, Undo, View
from engram.page.visit import Visit


class ChangePage(Value):
    """A memory before it is changed, and what its fields may be."""

    memory: MemoryView
    memory_types: tuple[str, ...] = MEMORY_TYPES
    categories: tuple[str, ...] = CATEGORIES
    importances: tuple[str, ...] = IMPORTANCE_NAMES


async def load(visit: Visit) -> ChangePage:
    """Return the memory that is about to be changed."""
    memory = (await find_memory(visit, visit.parameters["memory_id"])).memory
    return ChangePage(memory=memory_view(memory))


async def correct(visit: Visit) -> Done:
    """Change what a memory says; its version before stays in its history."""
    memory = (await find_memory(visit, visit.parameters["memory_id"])).memory
    change: dict[str, Any] = {
        "memory_type": visit.sent("memory_type"),
        "category": visit.sent("category"),
        "importance": visit.sent("importance"),
        "tags": [tag.strip() for tag in visit.sent("tags").splitlines() if tag.strip()],
    }
    if memory.document_id is None:
        content = _with_plain_lines(visit.sent("content"))
        # Forms send every line's end as two characters: what differs in nothing else was not changed.
        if content != _with_plain_lines(memory.content):
            change["content"] = content
    corrected = await visit.call("memory_correct", ANYWHERE, memory_id=memory.id, **change)
    to = f"/memories/{memory.id}"
    if corrected.version == memory.version:
        return Done(to=to, notice="Nothing was changed.")
    return Done(to=to, notice="The memory is corrected.", undo=undo_correction(memory))


def _with_plain_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


async def forget(visit: Visit) -> Done:
    """End a memory: it is recalled no more, and stays in its history."""
    memory_id = visit.parameters["memory_id"]
    await visit.call(
        "memory_forget", ANYWHERE, memory_id=memory_id, reason=visit.sent("reason").strip() or None
    )
    here = f"/memories/{memory_id}"
    undo = Undo(action=f"{here}/restore") if visit.allows("write") else None
    return Done(to=here, notice="It is forgotten: no agent is told it any more.", undo=undo)


async def restore(visit: Visit) -> Done:
    """Undo the forgetting of a memory."""
    memory_id = visit.parameters["memory_id"]
    await visit.call("memory_restore", ANYWHERE, memory_id=memory_id)
    here = f"/memories/{memory_id}"
    return Done(
        to=here,
        notice="It is remembered again.",
        undo=Undo(action=f"{here}/forget", fields={"reason": ""}),
    )


VIEWS = (
    View(
        path="/memories/{memory_id}/correct",
        template="memory_correct.html",
        load=load,
        scopes=("read", "write"),
    ),
    View(
        path="/memories/{memory_id}/forget",
        template="memory_forget.html",
        load=load,
        scopes=("read", "delete"),
    ),
)
ACTS = (
    Act(path="/memories/{memory_id}/correct", run=correct, scopes=("read", "write")),
    Act(path="/memories/{memory_id}/forget", run=forget, scopes=("delete",)),
    Act(path="/memories/{memory_id}/restore", run=restore, scopes=("write", "delete")),
)
