"""Apply relations to recalled memories: superseded ones, contradictions and graph neighbours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from engram import limits
from engram.model.ids import MemoryId
from engram.model.memory import Relation


class Neighbour(NamedTuple):
    """A memory reached by following relations."""

    id: MemoryId
    relation: Relation
    """The relation that led to it."""
    hops: int


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
