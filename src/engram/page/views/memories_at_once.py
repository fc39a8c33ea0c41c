"""Many memories at once: everything that a filter selects, or that was selected in the list."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from engram import limits
from engram.api.memory_views import MemoriesListed, MemoryView
from engram.model.changes import ManyChanged, Undone
from engram.model.fields import parse_whole_number
from engram.model.memory import IMPORTANCE_NAMES
from engram.model.value import Value
from engram.page.chips import Chip, chips_of
from engram.page.memories import FILTERS, LABELS, LISTS, memory_filters
from engram.page.view import Act, Done, Undo, View
from engram.page.visit import Visit

BATCH = 100
SHOWN = 10
CHANGE = "/memories/change"


class ChangePage(Value):
    """What would be changed: how many, and the first of them."""

    total: int
    changed: int
    """How many one step changes: the newest, up to a bound."""
    first: tuple[MemoryView, ...]
    by_project: dict[str, int]
    by_type: dict[str, int]
    immutable: int
    """How many of them cannot be changed."""
    chips: tuple[Chip, ...]
    is_selection: bool
    """True if they were selected one by one."""
    importances: tuple[str, ...] = IMPORTANCE_NAMES


async def load(visit: Visit) -> ChangePage:
    """Return how much the filters of the address select."""
    total = (await visit.call("memory_browse", limit=1, **_which(visit))).total
    found = [each async for each in _matching(visit)]
    return ChangePage(
        total=total,
        changed=len(found),
        first=tuple(found[:SHOWN]),
        by_project=_counted(each.project for each in found),
        by_type=_counted(each.memory_type for each in found),
        immutable=sum(each.immutable for each in found),
        chips=chips_of(visit, FILTERS, lists=LISTS, labels=LABELS),
        is_selection=bool(visit.all_given("ids")),
    )


def _which(visit: Visit) -> dict[str, Any]:
    """Return what the address selects, as the fields of `memory_browse`."""
    ids = visit.all_given("ids")
    return {"ids": ids, "validity": "any"} if ids else memory_filters(visit)


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


async def _matching(visit: Visit) -> AsyncGenerator[MemoryView]:
    """Yield the newest memories that the address selects, up to the bound of one step."""
    offset: int | None = 0
    left = limits.MEMORIES_CHANGED_MAX
    while offset is not None and left:
        page: MemoriesListed = await visit.call(
            "memory_browse", limit=BATCH, offset=offset, **_which(visit)
        )
        for each in page.memories[:left]:
            left -= 1
            yield each
        offset = page.next_offset


async def change(visit: Visit) -> Done:
    """Change the memories that the address selects, as far as they can be."""
    kind = visit.sent("change")
    importance = visit.sent("importance") if kind == "importance" else None
    done: ManyChanged = await visit.call(
        "memory_change", change=kind, importance=importance, **_which(visit)
    )
    if importance is None:
        notice = f"{_memories(done.changed)} in the trash."
    else:
        named = IMPORTANCE_NAMES[parse_whole_number("importance", importance)]
        notice = f"{_memories(done.changed)} of {named} importance now."
    if done.refused:
        notice += f" {done.refused:,} could not be changed."
    undo = None
    if done.change_id is not None:
        undo = Undo(action=visit.link(f"{CHANGE}/undo"), fields={"change_id": done.change_id})
    return Done(to=_list(visit), notice=notice, undo=undo)


def _memories(count: int) -> str:
    return f"{count:,} {'memory is' if count == 1 else 'memories are'}"


def _list(visit: Visit) -> str:
    return visit.link("/memories", ids=None)


async def undo_change(visit: Visit) -> Done:
    """Take back what was changed at once, and nothing else."""
    undone: Undone = await visit.call("undo_change", change_id=visit.sent("change_id"))
    notice = f"{_memories(undone.restored)} as before."
    if undone.refused:
        notice += f" {undone.refused:,} were changed since, and stay."
    return Done(to=_list(visit), notice=notice)


VIEWS = (
    View(
        path=CHANGE,
        template="memories_at_once.html",
        load=load,
        scopes=("read",),
    ),
)
ACTS = (
    Act(path=CHANGE, run=change, scopes=("read",)),
    Act(path=f"{CHANGE}/undo", run=undo_change, scopes=("read",)),
)
