"""Recall memories: rank those that answer a query, and apply their relations to the ranking.

Superseded memories move behind those that replace them, contradictions among the results are reported,
and graph neighbours are returned beside them. Nothing is written, so the same store gives the same answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import partial
from typing import NamedTuple
from uuid import NAMESPACE_OID, uuid5

from engram import limits
from engram.clock import format_time
from engram.model.conversation import Message
from engram.model.ids import EpisodeId, MemoryId, OrganizationId, chunk_id
from engram.model.memory import Memory, Relation
from engram.model.recall import (
    ConnectedMemory,
    MemoryChunk,
    Recalled,
    RecalledMemory,
    RecallRequest,
)
from engram.model.search import Loaded
from engram.model.value import replace
from engram.search.candidates import CandidateQuery, SearchSession, find
from engram.search.choose import Best, choose_best
from engram.search.score import Scored
from engram.text.analyse import query_terms
from engram.text.chunks import chunks_of, matched_chunk
from engram.yielding import offload

EPISODE_BOOST = 1.15
"""Factor for memories of the caller's episode, as in engram-go: enough to decide between equals."""


class Neighbour(NamedTuple):
    """A memory reached by following relations."""

    id: MemoryId
    relation: Relation
    """The relation that led to it."""
    hops: int


class Relations(NamedTuple):
    """The relations around the memories found."""

    all: Sequence[Relation]
    current: Mapping[MemoryId, Memory]
    """The memories that may be shown: searched, valid now, and in the requested projects."""

    @property
    def superseding(self) -> Mapping[MemoryId, Sequence[MemoryId]]:
        """Return for each superseded memory the current ones that replace it."""
        return superseding(each for each in self.all if each.source_id in self.current)

    def connected(self, memory_id: MemoryId, *, hops: int) -> tuple[ConnectedMemory, ...]:
        """Return the memories within some hops of one; those that are not current lead no further."""
        current = self.current
        walked = [
            each for each in self.all if each.source_id in current and each.target_id in current
        ]
        return tuple(
            ConnectedMemory(
                memory=current[each.id],
                relation_type=each.relation.relation_type,
                is_source=each.relation.source_id == each.id,
                strength=each.relation.strength,
                hops=each.hops,
            )
            for each in neighbours(memory_id, walked, hops=hops)
        )


async def recall(request: RecallRequest, session: SearchSession) -> Recalled:
    """Return the memories that answer a query, best first."""
    # A few more than requested, because superseded ones among them are moved back, and those of the
    # caller's episodes ahead.
    ranked_max = request.top_k + limits.SUPERSEDED_MARGIN
    ranked_max += limits.EPISODE_MARGIN if request.episode_ids else 0
    best, loaded, degraded = await find(
        CandidateQuery(
            text=request.query,
            filters=request.as_search(),
            kinds=("note", "document"),
            profile=request.profile,
            leg_candidates=max(limits.LEG_CANDIDATES, ranked_max),
            asked_at=request.asked_at or session.at,
        ),
        session,
        choose=partial(
            choose_best,
            profile=request.profile,
            limit=ranked_max,
            score_min=request.min_score,
            is_each_once=True,
        ),
    )
    characters = len(request.query) + sum(len(each.content) for each in loaded.memories.values())
    recalled = await offload(partial(_recalled, best, loaded, request.query), characters=characters)
    found = {each.memory.id: each for each in raise_episodes(recalled, request.episode_ids)}
    relations = await _read_relations(session, request, found)
    superseded = relations.superseding
    order = put_behind(list(found), superseded)[: request.top_k]
    return Recalled(
        event_id=_event_id(session.store.organization_id, request, session.at),
        results=tuple(
            replace(
                found[each],
                superseded_by=tuple(superseded.get(each, ())),
                connected=relations.connected(each, hops=request.hops),
            )
            for each in order
        ),
        conflicts=conflicts_among(order, relations.all),
        total_candidates=len(best.candidates.keys),
        pending=loaded.pending,
        degraded=degraded,
        is_relevant=best.is_relevant,
    )


def raise_episodes(
    ranked: Sequence[RecalledMemory], episode_ids: Collection[EpisodeId]
) -> list[RecalledMemory]:
    """Return the ranking with the memories of some episodes raised, of equals those of the episodes first.

    All others keep their order.
    """
    raised = [
        replace(each, score=_boosted(each.score), episode_boost=EPISODE_BOOST)
        if each.memory.episode_id in episode_ids
        else each
        for each in ranked
    ]
    return sorted(raised, key=lambda each: (each.score, each.episode_boost), reverse=True)


def _boosted(value: float) -> float:
    """Return a value with its odds multiplied, so that one below 1 stays below 1."""
    return max(value, EPISODE_BOOST * value / (1 + (EPISODE_BOOST - 1) * value))


def superseding(relations: Iterable[Relation]) -> dict[MemoryId, list[MemoryId]]:
    """Return for each superseded memory the ids of those that replace it, sorted."""
    found = defaultdict[MemoryId, list[MemoryId]](list)
    for relation in relations:
        if relation.relation_type == "supersedes":
            found[relation.target_id].append(relation.source_id)
    return {target: sorted(sources) for target, sources in found.items()}


def conflicts_among(
    memory_ids: Iterable[MemoryId], relations: Iterable[Relation]
) -> tuple[Relation, ...]:
    """Return the `contradicts` relations between two of the memories."""
    recalled = set(memory_ids)
    return tuple(
        relation
        for relation in relations
        if relation.relation_type == "contradicts"
        and {relation.source_id, relation.target_id} <= recalled
    )


def put_behind(
    ranked: Sequence[MemoryId], superseded: Mapping[MemoryId, Sequence[MemoryId]]
) -> list[MemoryId]:
    """Return the ranking with each superseded memory moved right behind the last that supersedes it.

    All others keep their order.
    """
    present = set(ranked)
    blockers = {
        each: {other for other in superseded.get(each, ()) if other in present} for each in ranked
    }
    waiting: list[MemoryId] = []
    placed: dict[MemoryId, None] = {}
    for each in ranked:
        waiting.append(each)
        while ready := next((one for one in waiting if blockers[one] <= placed.keys()), None):
            waiting.remove(ready)
            placed[ready] = None
    # Relations have no cycles; if one did exist, its memories would come last.
    return [*placed, *waiting]


def neighbours(memory_id: MemoryId, relations: Sequence[Relation], *, hops: int) -> list[Neighbour]:
    """Return the memories within `hops` of one, each once, by distance and then by relation order."""
    adjacent = _adjacency(relations)
    found: dict[MemoryId, Neighbour] = {}
    reached = [memory_id]
    for hop in range(1, hops + 1):
        visited = {memory_id, *found}
        for here in reached:
            for other, relation in adjacent.get(here, ()):
                if other not in visited:
                    found.setdefault(other, Neighbour(other, relation, hop))
        reached = [each for each in found if each not in visited]
    return list(found.values())[: limits.RELATED_MAX]


def _adjacency(
    relations: Iterable[Relation],
) -> Mapping[MemoryId, Sequence[tuple[MemoryId, Relation]]]:
    """Return the adjacent memories of each memory, in both directions."""
    adjacent = defaultdict[MemoryId, list[tuple[MemoryId, Relation]]](list)
    for relation in relations:
        adjacent[relation.source_id].append((relation.target_id, relation))
        adjacent[relation.target_id].append((relation.source_id, relation))
    return adjacent


def _recalled(best: Best, loaded: Loaded, query: str) -> list[RecalledMemory]:
    """Return the memories found, each with the chunk that matched."""
    terms = frozenset(query_terms(query))
    recalled: list[RecalledMemory] = []
    for item in best.ranked:
        matched, chunk_count = _matched(item, loaded, terms)
        recalled.append(
            RecalledMemory(
                memory=loaded.memories[item.conversation],
                score=item.score,
                breakdown=best.scoring.explain(item),
                matched=matched,
                chunk_count=chunk_count,
            )
        )
    return recalled


def _matched(item: Scored, loaded: Loaded, terms: AbstractSet[str]) -> tuple[MemoryChunk, int]:
    """Return the chunk of a memory or of its document that matched, and how many it has."""
    memory = loaded.memories[item.conversation]
    message = loaded.messages.get(item.key)
    if message is None:
        chunks = chunks_of(memory)
        return matched_chunk(chunks, terms), len(chunks)
    return _document_chunk(memory, message), loaded.chunk_counts[item.conversation]


def _document_chunk(memory: Memory, chunk: Message) -> MemoryChunk:
    place = chunk.metadata or {"start": 0, "end": len(chunk.content)}
    return MemoryChunk(
        id=chunk_id(memory.id, start=chunk.sequence, end=chunk.sequence),
        index=chunk.sequence - 1,
        start=place["start"],
        end=place["end"],
        text=chunk.content,
    )


async def _read_relations(
    session: SearchSession, request: RecallRequest, found: Mapping[MemoryId, RecalledMemory]
) -> Relations:
    known = {memory_id: each.memory for memory_id, each in found.items()}
    if not known:
        return Relations((), known)
    memories = session.store.memories
    relations = await memories.relations(list(known), hops=max(1, request.hops))
    ends = dict.fromkeys(end for each in relations for end in (each.source_id, each.target_id))
    others = await memories.get([end for end in ends if end not in known])
    projects = request.filters.projects
    current = {
        other: memory
        for other, memory in others.items()
        if _is_current(memory, session.at) and (projects is None or memory.project in projects)
    }
    return Relations(relations, known | current)


def _is_current(memory: Memory, at: datetime) -> bool:
    """Return True if a memory is searched, and valid at a moment."""
    return (
        memory.is_searched
        and (memory.valid_from is None or memory.valid_from <= at)
        and (memory.valid_to is None or memory.valid_to > at)
        and (memory.expires_at is None or memory.expires_at > at)
    )


def _event_id(organization_id: OrganizationId, request: RecallRequest, at: datetime) -> str:
    """Return an id that is the same for the same query of an organisation at the same moment."""
    return str(uuid5(NAMESPACE_OID, f"{organization_id}:{format_time(at)}:{request.query}"))
