"""Many memories at once: everything that a filter selects, or that was selected in the list."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from engram import limits
from engram.api.memories import ANYWHERE
from engram.api.memory_views import MemoriesListed, MemoryView, VersionView
from engram.clock import format_time
from engram.errors import ConflictError, NotFoundError
from engram.model.fields import check_choice, check_range, parse_whole_number
from engram.model.memory import IMPORTANCE_NAMES
from engram.model.trash import TrashEntry, TrashPage
from engram.model.value import Value
from engram.page.chips import Chip, chips_of
from engram.page.memories import FILTERS, LABELS, LISTS, memory_filters
from engram.page.view import Act, Done, Undo, View
from engram.page.visit import Visit

BATCH = 100
SHOWN = 10
CHANGE = "/memories/change"
CHANGES = ("trash", "importance")

T = TypeVar("T")


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


def _any(_: MemoryView) -> bool:
    return True


async def _matching(
    visit: Visit, is_wanted: Callable[[MemoryView], bool] = _any
) -> AsyncGenerator[MemoryView]:
    """Yield the newest memories that the address selects and that are wanted, up to the bound of one step."""
    offset: int | None = 0
    left = limits.PAGE_CHANGED_MAX
    while offset is not None and left:
        page: MemoriesListed = await visit.call(
            "memory_browse", limit=BATCH, offset=offset, **_which(visit)
        )
        for each in list(filter(is_wanted, page.memories))[:left]:
            left -= 1
            yield each
        offset = page.next_offset


async def change(visit: Visit) -> Done:
    """Change the memories that the address selects, as far as they can be."""
    kind = visit.sent("change")
    check_choice("change", kind, CHANGES)
    begun = format_time(visit.service.clock.now())
    if kind == "trash":
        done, refused = await _trash(visit)
        notice = f"{_memories(done)} in the trash."
    else:
        importance = parse_whole_number("importance", visit.sent("importance"))
        done, refused = await _rank(visit, importance)
        notice = f"{_memories(done)} of {IMPORTANCE_NAMES[importance]} importance now."
    if refused:
        notice += f" {refused:,} could not be changed."
    span = {"since": begun, "until": format_time(visit.service.clock.now())}
    undo = Undo(action=visit.link(f"{CHANGE}/undo"), fields={"change": kind, **span})
    return Done(to=_list(visit), notice=notice, undo=undo if done else None)


def _memories(count: int) -> str:
    return f"{count:,} {'memory is' if count == 1 else 'memories are'}"


def _list(visit: Visit) -> str:
    return visit.link("/memories", ids=None)


async def _trash(visit: Visit) -> tuple[int, int]:
    found = [each async for each in _matching(visit)]
    return await _do(found, lambda each: visit.call("memory_purge", memory_id=each.id, undo=True))


async def _rank(visit: Visit, importance: int) -> tuple[int, int]:
    check_range("importance", importance, minimum=0, maximum=limits.IMPORTANCE_MAX)
    found = [each async for each in _matching(visit, lambda each: each.importance != importance)]
    return await _do(
        found,
        lambda each: visit.call(
            "memory_correct", ANYWHERE, memory_id=each.id, importance=importance
        ),
    )


async def _do(memories: Iterable[T], work: Callable[[T], Awaitable[object]]) -> tuple[int, int]:
    """Return how many were changed, and how many could not be: immutable, held, or gone meanwhile."""
    done = refused = 0
    for each in memories:
        try:
            await work(each)
        except (ConflictError, NotFoundError):
            refused += 1
        else:
            done += 1
    return done, refused


async def undo_change(visit: Visit) -> Done:
    """Take back what was changed at once: everything that the same visitor changed in its time."""
    kind = visit.sent("change")
    check_choice("change", kind, CHANGES)
    done, refused = await (_restore(visit) if kind == "trash" else _rank_back(visit))
    notice = f"{_memories(done)} as before."
    if refused:
        notice += f" {refused:,} could not be brought back."
    return Done(to=_list(visit), notice=notice)


def _is_within(visit: Visit, moment: datetime) -> bool:
    return visit.sent("since") <= format_time(moment) <= visit.sent("until")


async def _restore(visit: Visit) -> tuple[int, int]:
    ids = [each.id async for each in _trashed(visit)]
    return await _do(ids, lambda each: visit.call("trash_restore", id=each))


async def _trashed(visit: Visit) -> AsyncGenerator[TrashEntry]:
    """Yield what this visitor has deleted in the time that the form names."""
    offset: int | None = 0
    while offset is not None:
        page: TrashPage = await visit.call("trash_list", kind="memory", limit=BATCH, offset=offset)
        for entry in page.entries:
            if _is_within(visit, entry.deleted_at) and entry.deleted_by == visit.principal.actor:
                yield entry
        is_past = bool(page.entries) and format_time(page.entries[-1].deleted_at) < visit.sent(
            "since"
        )
        offset = None if is_past else page.next_offset


async def _rank_back(visit: Visit) -> tuple[int, int]:
    changed = _matching(visit, lambda each: each.version > 1 and _is_within(visit, each.updated_at))
    return await _do([each async for each in changed], lambda each: _correct_back(visit, each))


async def _correct_back(visit: Visit, memory: MemoryView) -> None:
    """Give a memory the importance that it had before its last change."""
    history = await visit.call(
        "memory_history", ANYWHERE, memory_id=memory.id, offset=memory.version - 2, limit=1
    )
    before: VersionView = history.versions[0]
    if before.actor != visit.principal.actor:
        raise ConflictError(f"memory {memory.id} was changed by another")
    await visit.call("memory_correct", ANYWHERE, memory_id=memory.id, importance=before.importance)


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
