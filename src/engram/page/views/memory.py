"""One memory: what it says, since when and from whom, its versions, its relations, and what can be done with it."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from engram import limits
from engram.api.memories import ANYWHERE, memory_view
from engram.api.memory_views import (
    DocumentProgress,
    MemoryHistoryRead,
    MemoryView,
    VersionView,
)
from engram.errors import InvalidRequestError
from engram.model.fields import parse_whole_number
from engram.model.ids import MemoryId
from engram.model.memory import IMPORTANCE_NAMES, FeedbackCounts, Memory, Relation
from engram.model.value import Value, replace
from engram.page.actors import key_names
from engram.page.comparing import Comparison, compare
from engram.page.graphs import Graph, lay_out, steps_from
from engram.page.memories import find_memory, undo_correction
from engram.page.view import Act, Done, Undo, View
from engram.page.visit import Visit
from engram.yielding import offload

SHOWN_CHARACTERS_MAX = 20_000
"""Of a longer text the beginning is shown, with a link to all of it."""

VERSIONS_SHOWN = 50
LABEL_TOKENS = 10_000
"""Token budget of the related memories, each shown as one line."""

AUDIT_WINDOW = timedelta(milliseconds=1)
AUDIT_ENTRIES = 20
"""Rows of the audit trail before the end of that window, among which a memory's own is."""


class Related(Value):
    """A relation of the memory, and the memory at its other end."""

    relation: Relation
    is_onward: bool
    """True if the relation leads from this memory to the other."""
    other: MemoryView | None


class Compared(Value):
    """Two versions side by side."""

    old: int
    new: int
    difference: Comparison
    is_cut: bool
    """True if a version is longer than what can be read at once."""


class MemoryPage(Value):
    """A memory, and everything that is known about it."""

    memory: MemoryView
    is_cut: bool
    document: DocumentProgress | None
    versions: tuple[VersionView, ...]
    compared: Compared | None
    related: tuple[Related, ...]
    is_related_cut: bool
    """True if there may be more relations than an answer has."""
    graph: Graph | None
    hops: int
    feedback: FeedbackCounts
    stored_by: str | None
    """The actor, if the audit trail still says so and the visitor may read it."""
    key_names: dict[str, str]
    importances: tuple[str, ...] = IMPORTANCE_NAMES


async def load(visit: Visit) -> MemoryPage:
    """Return a memory with its versions, relations, ratings and origin."""
    memory_id = MemoryId(visit.parameters["memory_id"])
    fetched = await find_memory(visit, memory_id)
    memory = fetched.memory
    is_cut = len(memory.content) > SHOWN_CHARACTERS_MAX and visit.given("all") is None
    history: MemoryHistoryRead = await visit.call(
        "memory_history",
        ANYWHERE,
        memory_id=memory_id,
        limit=VERSIONS_SHOWN,
        offset=max(0, memory.version - 1 - VERSIONS_SHOWN),
    )
    hops = parse_whole_number("hops", visit.given("hops") or "1")
    listed = await visit.call("memory_relations", memory_id=memory_id, hops=hops)
    relations: tuple[Relation, ...] = listed.relations
    others = await _others(visit, memory_id, relations)
    related = tuple(
        _related(memory_id, each, others)
        for each in relations
        if memory_id in (each.source_id, each.target_id)
    )
    return MemoryPage(
        memory=_beginning(memory) if is_cut else memory_view(memory),
        is_cut=is_cut,
        document=fetched.document,
        versions=history.versions,
        compared=await _compared(visit, memory),
        related=related,
        is_related_cut=len(related) >= limits.RELATED_MAX,
        graph=_graph(memory, relations, others),
        hops=hops,
        feedback=await visit.call("count_feedback", memory_id=memory_id),
        stored_by=await _stored_by(visit, memory),
        key_names=await key_names(visit),
    )


def _beginning(memory: Memory) -> MemoryView:
    beginning = memory.content[:SHOWN_CHARACTERS_MAX]
    return replace(memory_view(memory), content=beginning, truncated=True)


async def _others(
    visit: Visit, memory_id: MemoryId, relations: tuple[Relation, ...]
) -> dict[MemoryId, MemoryView]:
    """Return the memories around one, as far as they are shown."""
    ids = list(steps_from(memory_id, relations))[1 : limits.MEMORY_PAGE_MAX]
    if not ids:
        return {}
    found = await visit.call(
        "memory_browse", ids=ids, limit=len(ids), validity="any", token_budget=LABEL_TOKENS
    )
    return {each.id: each for each in found.memories}


def _related(
    memory_id: MemoryId, relation: Relation, others: dict[MemoryId, MemoryView]
) -> Related:
    is_onward = relation.source_id == memory_id
    other = relation.target_id if is_onward else relation.source_id
    return Related(relation=relation, is_onward=is_onward, other=others.get(other))


def _graph(
    memory: Memory, relations: tuple[Relation, ...], others: dict[MemoryId, MemoryView]
) -> Graph | None:
    if not relations:
        return None
    labels = {each.id: each.content for each in others.values()} | {memory.id: memory.content}
    gone = [each.id for each in (memory, *others.values()) if not each.is_searched]
    return lay_out(memory.id, relations, labels=labels, forgotten=gone)


async def _compared(visit: Visit, memory: Memory) -> Compared | None:
    """Return the versions side by side that the address names; else the last two, if there are two."""
    new = parse_whole_number("to", visit.given("to") or str(memory.version))
    old = parse_whole_number("from", visit.given("from") or str(new - 1))
    if not 1 <= old < new:
        if visit.given("from") or visit.given("to"):
            raise InvalidRequestError("must be an earlier version than to", field="from")
        return None
    before, is_before_cut = await _content_of(visit, memory, old)
    after, is_after_cut = await _content_of(visit, memory, new)
    work = partial(compare, before, after)
    return Compared(
        old=old,
        new=new,
        difference=await offload(work, characters=len(before) + len(after)),
        is_cut=is_before_cut or is_after_cut,
    )


async def _content_of(visit: Visit, memory: Memory, version: int) -> tuple[str, bool]:
    """Return the text of a version, and whether it is only the beginning."""
    if version == memory.version:
        return memory.content, False
    found = await _version(visit, memory.id, version)
    return found.content, found.truncated


async def _version(visit: Visit, memory_id: MemoryId, version: int) -> VersionView:
    if version < 1:
        raise InvalidRequestError("must be a version there is", field="version")
    history: MemoryHistoryRead = await visit.call(
        "memory_history",
        ANYWHERE,
        memory_id=memory_id,
        offset=version - 1,
        limit=1,
        token_budget=limits.TOKEN_BUDGET_MAX,
    )
    if not history.versions or history.versions[0].version != version:
        raise InvalidRequestError("must be a version there is", field="version")
    return history.versions[0]


async def _stored_by(visit: Visit, memory: Memory) -> str | None:
    """Return who stored a memory, as the audit trail says; for those who may read it."""
    if not visit.allows("admin"):
        return None
    trail = await visit.call("audit", before=memory.created_at + AUDIT_WINDOW, limit=AUDIT_ENTRIES)
    for entry in trail.entries:
        ids: Any = entry.details.get("memories", ())
        if entry.action == "memory_store" and memory.id in (entry.subject, *ids):
            return entry.actor
    return None


async def set_importance(visit: Visit) -> Done:
    """Make a memory more or less important; it is recalled sooner or later then."""
    memory = (await find_memory(visit, visit.parameters["memory_id"])).memory
    importance = parse_whole_number("importance", visit.sent("importance"))
    await visit.call("memory_correct", ANYWHERE, memory_id=memory.id, importance=importance)
    return Done(
        to=f"/memories/{memory.id}",
        notice=f"Its importance is {IMPORTANCE_NAMES[importance]} now.",
        undo=Undo(
            action=f"/memories/{memory.id}/importance",
            fields={"importance": str(memory.importance)},
        ),
    )


async def revert(visit: Visit) -> Done:
    """Correct a memory to what an earlier version said; the present one becomes an earlier one."""
    memory = (await find_memory(visit, visit.parameters["memory_id"])).memory
    number = parse_whole_number("version", visit.sent("version"))
    version = await _version(visit, memory.id, number)
    if version.truncated:
        raise InvalidRequestError(
            f"must be a version of at most {limits.TOKEN_BUDGET_MAX:,} tokens", field="version"
        )
    await visit.call(
        "memory_correct",
        ANYWHERE,
        memory_id=memory.id,
        content=version.content if memory.document_id is None else None,
        tags=version.tags,
        importance=version.importance,
        memory_type=version.memory_type,
        category=version.category,
    )
    return Done(
        to=f"/memories/{memory.id}",
        notice=f"It says what version {number} said.",
        undo=undo_correction(memory),
    )


VIEWS = (View(path="/memories/{memory_id}", template="memory.html", load=load, scopes=("read",)),)
ACTS = (
    Act(path="/memories/{memory_id}/importance", run=set_importance, scopes=("read", "write")),
    Act(path="/memories/{memory_id}/revert", run=revert, scopes=("read", "write")),
)
