"""Read what relations say of recalled memories: what supersedes, contradicts or is near to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from engram import limits
from engram.model.ids import MemoryId
from engram.model.memory import Relation


class Neighbour(NamedTuple):
    """A memory that is met on a walk along relations."""

    id: MemoryId
    relation: Relation
    """The last step to it."""
    hops: int


def superseding(relations: Iterable[Relation]) -> dict[MemoryId, list[MemoryId]]:
    """Return for each memory that is superseded those that hold in its place, by id."""
    found = defaultdict[MemoryId, list[MemoryId]](list)
    for relation in relations:
        if relation.relation_type == "supersedes":
            found[relation.target_id].append(relation.source_id)
    return {target: sorted(sources) for target, sources in found.items()}


def conflicts_among(
    memory_ids: Iterable[MemoryId], relations: Iterable[Relation]
) -> tuple[Relation, ...]:
    """Return the relations that say of two of the memories that they contradict each other."""
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
    """Return the ranking with each superseded memory behind all that supersede it there.

    It comes right behind the last of them; others keep their order.
    """
    present = set(ranked)
    awaited = {
        each: {other for other in superseded.get(each, ()) if other in present} for each in ranked
    }
    waiting: list[MemoryId] = []
    placed: dict[MemoryId, None] = {}
    for each in ranked:
        waiting.append(each)
        while ready := next((one for one in waiting if awaited[one] <= placed.keys()), None):
            waiting.remove(ready)
            placed[ready] = None
    # Relations never close a circle; if one did, nothing would be lost.
    return [*placed, *waiting]


def neighbours(memory_id: MemoryId, relations: Sequence[Relation], *, hops: int) -> list[Neighbour]:
    """Return the memories within some steps of one, nearest first, each once, in the given order."""
    steps = _steps(relations)
    found: dict[MemoryId, Neighbour] = {}
    reached = [memory_id]
    for hop in range(1, hops + 1):
        known = {memory_id, *found}
        for here in reached:
            for other, relation in steps.get(here, ()):
                if other not in known:
                    found.setdefault(other, Neighbour(other, relation, hop))
        reached = [each for each in found if each not in known]
    return list(found.values())[: limits.RELATED_MAX]


def _steps(
    relations: Iterable[Relation],
) -> Mapping[MemoryId, Sequence[tuple[MemoryId, Relation]]]:
    """Return where relations lead from each memory, either way."""
    steps = defaultdict[MemoryId, list[tuple[MemoryId, Relation]]](list)
    for relation in relations:
        steps[relation.source_id].append((relation.target_id, relation))
        steps[relation.target_id].append((relation.source_id, relation))
    return steps
