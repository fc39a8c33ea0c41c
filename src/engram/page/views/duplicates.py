"""Near-duplicates of a project: pairs side by side, to be merged and brought back."""

from __future__ import annotations

from functools import partial

from engram.api.memory_views import MemoryView
from engram.model.fields import DEFAULT_PROJECT
from engram.model.ids import MemoryId
from engram.model.maintenance import Consolidated, Merge
from engram.model.value import Value
from engram.page.comparing import Comparison, compare
from engram.page.view import Act, Done, Menu, Undo, View
from engram.page.visit import Visit
from engram.yielding import offload

PAIRS = 40
"""Pairs of one step: what fits on a page, and into the undo of their merge."""

PAIR_TOKENS = 50_000


class Pair(Value):
    """Two memories that say the same: the older would be merged into the newer."""

    merge: Merge
    older: MemoryView
    newer: MemoryView
    difference: Comparison


class DuplicatesPage(Value):
    """The near-duplicates of a project."""

    project: str
    projects: tuple[str, ...]
    pairs: tuple[Pair, ...]
    examined: int
    kept_apart: int
    """Pairs that differ in a field, or were taken apart before."""
    has_more: bool


async def load(visit: Visit) -> DuplicatesPage:
    """Return what a consolidation of the project would merge; nothing is changed."""
    project = visit.given("project") or DEFAULT_PROJECT
    planned: Consolidated = await visit.call(
        "memory_consolidate", project=project, dry_run=True, limit=PAIRS
    )
    listed = await visit.call("memory_projects")
    return DuplicatesPage(
        project=project,
        projects=tuple(sorted({project, *(each.project for each in listed.projects)})),
        pairs=await _pairs(visit, planned.merges),
        examined=planned.examined,
        kept_apart=planned.kept_apart,
        has_more=planned.truncated,
    )


async def _pairs(visit: Visit, merges: tuple[Merge, ...]) -> tuple[Pair, ...]:
    if not merges:
        return ()
    ids = list(dict.fromkeys(each for merge in merges for each in (merge.kept_id, merge.merged_id)))
    found = await visit.call(
        "memory_browse", ids=ids, limit=len(ids), validity="any", token_budget=PAIR_TOKENS
    )
    memories: dict[MemoryId, MemoryView] = {each.id: each for each in found.memories}
    return tuple(
        [
            await _pair(merge, memories[merge.merged_id], memories[merge.kept_id])
            for merge in merges
            if merge.merged_id in memories and merge.kept_id in memories
        ]
    )


async def _pair(merge: Merge, older: MemoryView, newer: MemoryView) -> Pair:
    work = partial(compare, older.content, newer.content)
    difference = await offload(work, characters=len(older.content) + len(newer.content))
    return Pair(merge=merge, older=older, newer=newer, difference=difference)


async def merge(visit: Visit) -> Done:
    """Merge the near-duplicates that the page shows, or one pair of them."""
    project = visit.sent("project")
    done: Consolidated = await visit.call(
        "memory_consolidate", project=project, limit=PAIRS, only=visit.all_sent("only") or None
    )
    merged = " ".join(each.merged_id for each in done.merges)
    undo = Undo(action="/duplicates/undo", fields={"project": project, "ids": merged})
    count = len(done.merges)
    return Done(
        to=visit.link("/duplicates", project=project),
        notice=f"{count:,} {'pair is' if count == 1 else 'pairs are'} merged."
        if count
        else "Nothing is merged: the memories were changed meanwhile.",
        undo=undo if done.merges else None,
    )


async def take_apart(visit: Visit) -> Done:
    """Bring merged memories back; the same pairs are not merged again."""
    project = visit.sent("project")
    done: Consolidated = await visit.call(
        "memory_consolidate", project=project, undo=visit.sent("ids").split()
    )
    count = len(done.restored or ())
    return Done(
        to=visit.link("/duplicates", project=project),
        notice=f"{count:,} {'memory is' if count == 1 else 'memories are'} back.",
    )


VIEWS = (
    View(
        path="/duplicates",
        template="duplicates.html",
        load=load,
        scopes=("read", "write"),
        menu=Menu(label="Duplicates", place="more"),
    ),
)
ACTS = (
    Act(path="/duplicates", run=merge, scopes=("read", "write")),
    Act(path="/duplicates/undo", run=take_apart, scopes=("read", "write")),
)
