"""Recalling memories: what answers a question, and what relations say of it.

Nothing is written, so the same store gives the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, uuid5

from engram import limits
from engram.clock import format_time
from engram.model.access import Principal
from engram.model.conversation import Message
from engram.model.ids import MemoryId, chunk_id
from engram.model.memory import Memory, Relation
from engram.model.memory_reading import MemoryChunk
from engram.model.recall import ConnectedMemory, Recalled, RecalledMemory, RecallRequest
from engram.model.search import Loaded, ScoreBreakdown
from engram.offload import offload
from engram.search.relate import conflicts_among, neighbours, put_behind, superseding
from engram.service.searching import Opened, Searching
from engram.text.analyse import query_terms
from engram.text.chunks import chunks_of, matched_chunk

if TYPE_CHECKING:
    from engram.search.choose import Best
    from engram.search.find import Sought
    from engram.search.score import Scored


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A memory that was found, with what it scored."""

    memory: Memory
    item: Scored
    matched: MemoryChunk
    chunk_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Related:
    """What relations say around the memories found."""

    relations: Sequence[Relation] = ()
    holding: Mapping[MemoryId, Memory]
    """The memories that may be spoken of: they hold now, and are of the projects asked for."""

    @property
    def superseded(self) -> Mapping[MemoryId, Sequence[MemoryId]]:
        """Return what holds in the place of others."""
        holding = self.holding
        return superseding(each for each in self.relations if each.source_id in holding)


class MemoryRecall:
    """The use case `memory_recall`."""

    def __init__(self, searching: Searching) -> None:
        self._searching = searching

    async def recall(self, principal: Principal, request: RecallRequest) -> Recalled:
        """Return the memories that answer a question, best first."""
        async with self._searching.open(principal) as opened:
            found, best, pending, degraded = await _find(opened, request)
            related = await _relate(opened, request, found)
        superseded = related.superseded
        order = put_behind(list(found), superseded)[: request.top_k]
        results = [
            _recalled(
                found[each],
                request,
                related,
                breakdown=best.scoring.explain(found[each].item),
                superseded_by=superseded.get(each, ()),
            )
            for each in order
        ]
        return Recalled(
            event_id=_event_id(principal, request, opened.at),
            results=tuple(results),
            conflicts=conflicts_among(order, related.relations),
            total_candidates=len(best.candidates.keys),
            pending=pending,
            degraded=(*degraded, *self._searching.missing(pending)),
        )


async def _find(
    opened: Opened, request: RecallRequest
) -> tuple[dict[MemoryId, _Found], Best, int, tuple[str, ...]]:
    """Return the memories found, best first, a few more than are asked for."""
    from engram.search.choose import choose_best  # noqa: PLC0415 brings NumPy
    from engram.search.find import find  # noqa: PLC0415 brings NumPy

    looked_at = request.top_k + limits.SUPERSEDED_MARGIN
    choose = partial(
        choose_best,
        profile=request.profile,
        limit=looked_at,
        score_min=request.min_score,
        now=opened.now,
        is_each_once=True,
    )
    best, loaded, degraded = await find(
        _sought(request, looked_at),
        opened.store,
        embed=opened.embed,
        now=opened.now,
        choose=choose,
    )
    characters = len(request.query) + sum(len(each.content) for each in loaded.memories.values())
    found = await offload(
        lambda: _found_all(best.ranked, loaded, request.query), characters=characters
    )
    return {each.memory.id: each for each in found}, best, loaded.pending, degraded


def _found_all(ranked: Sequence[Scored], loaded: Loaded, query: str) -> list[_Found]:
    terms = frozenset(query_terms(query))
    return [_found(item, loaded, terms) for item in ranked]


def _found(item: Scored, loaded: Loaded, terms: AbstractSet[str]) -> _Found:
    """Return a memory with the part of it that was found."""
    memory = loaded.memories[item.conversation]
    chunk = loaded.messages.get(item.key)
    if chunk is None:
        chunks = chunks_of(memory)
        matched, count = matched_chunk(chunks, terms), len(chunks)
    else:
        matched, count = _document_chunk(memory, chunk), loaded.chunk_counts[item.conversation]
    return _Found(memory=memory, item=item, matched=matched, chunk_count=count)


def _document_chunk(memory: Memory, chunk: Message) -> MemoryChunk:
    place = chunk.metadata or {"start": 0, "end": len(chunk.content)}
    return MemoryChunk(
        id=chunk_id(memory.id, start=chunk.sequence, end=chunk.sequence),
        index=chunk.sequence - 1,
        start=place["start"],
        end=place["end"],
        text=chunk.content,
    )


def _sought(request: RecallRequest, looked_at: int) -> Sought:
    from engram.search.find import Sought  # noqa: PLC0415 brings NumPy

    return Sought(
        query=request.query,
        filters=request.as_search(),
        kinds=("note", "document"),
        profile=request.profile,
        leg_candidates=max(limits.LEG_CANDIDATES, looked_at),
    )


async def _relate(
    opened: Opened, request: RecallRequest, found: Mapping[MemoryId, _Found]
) -> _Related:
    """Return what relations say around the memories found."""
    known = {memory_id: each.memory for memory_id, each in found.items()}
    if not known:
        return _Related(holding=known)
    memories = opened.store.memories
    relations = await memories.relations(list(known), hops=max(1, request.hops))
    ends = dict.fromkeys(end for each in relations for end in (each.source_id, each.target_id))
    others = await memories.get([end for end in ends if end not in known])
    projects = request.filters.projects
    holding = {
        other: memory
        for other, memory in others.items()
        if _holds(memory, opened.at) and (projects is None or memory.project in projects)
    }
    return _Related(relations=relations, holding=known | holding)


def _recalled(
    found: _Found,
    request: RecallRequest,
    related: _Related,
    *,
    breakdown: ScoreBreakdown,
    superseded_by: Sequence[MemoryId],
) -> RecalledMemory:
    return RecalledMemory(
        memory=found.memory,
        score=found.item.score,
        breakdown=breakdown,
        matched=found.matched,
        chunk_count=found.chunk_count,
        superseded_by=tuple(superseded_by),
        connected=_connected(found.memory.id, related, hops=request.hops),
    )


def _connected(memory_id: MemoryId, related: _Related, *, hops: int) -> tuple[ConnectedMemory, ...]:
    """Return the memories within some steps of one; those that do not hold lead no further."""
    holding = related.holding
    walked = [
        each
        for each in related.relations
        if each.source_id in holding and each.target_id in holding
    ]
    return tuple(
        ConnectedMemory(
            memory=holding[each.id],
            relation_type=each.relation.relation_type,
            is_source=each.relation.source_id == each.id,
            strength=each.relation.strength,
            hops=each.hops,
        )
        for each in neighbours(memory_id, walked, hops=hops)
    )


def _holds(memory: Memory, at: datetime) -> bool:
    """Return True if a memory is searched, and its time has come and not ended."""
    return (
        memory.is_searched
        and (memory.valid_from is None or memory.valid_from <= at)
        and (memory.valid_to is None or memory.valid_to > at)
        and (memory.expires_at is None or memory.expires_at > at)
    )


def _event_id(principal: Principal, request: RecallRequest, at: datetime) -> str:
    """Return a name for one recall that follows from who asked what and when."""
    seed = f"{principal.organization_id}:{format_time(at)}:{request.query}"
    return str(uuid5(NAMESPACE_OID, seed))
