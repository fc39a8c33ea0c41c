"""Relate memories to each other, and walk from one to the next."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from engram import limits
from engram.clock import from_microseconds
from engram.errors import InvalidRequestError
from engram.model.access import Quota
from engram.model.ids import MemoryId, RelationId, derived_id
from engram.model.memory import Relation, RelationDraft, RelationType
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.stored_size import row_bytes
from engram.storage.memories.rows import find_memory
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

_SQL = load_queries("memories/relations.sql")
_CIRCLE_NAMED_MAX = 10


class RelationRow(NamedTuple):
    """The columns of `next_relations`."""

    source: int
    target: int
    relation_type: RelationType
    strength: float
    created_at: int


def connect(tx: Transaction, draft: RelationDraft, *, actor: str, quota: Quota) -> Relation:
    """Relate two memories, or give their relation another strength."""
    source = find_memory(tx, draft.source_id)
    target = find_memory(tx, draft.target_id)
    if draft.relation_type == "supersedes":
        refuse_circle(tx, source=source, target=target)
    row = _put(tx, draft, source=source, target=target, quota=quota)
    _record(
        tx,
        draft.source_id,
        draft.target_id,
        draft.relation_type,
        action="memory_connect",
        actor=actor,
    )
    return _relation(tx.tenant, row, {source: draft.source_id, target: draft.target_id})


def _put(
    tx: Transaction, draft: RelationDraft, *, source: int, target: int, quota: Quota
) -> RelationRow:
    values = {
        "source": source,
        "target": target,
        "relation_type": draft.relation_type,
        "strength": draft.strength,
    }
    made = tx.execute(_SQL["change_relation"], **values).fetchone()
    if made is None:
        now = tx.tenant.now()
        made = tx.execute(_SQL["add_relation"], **values, now=now).fetchone()
        grow_counters(tx, quota=quota, stored_bytes=row_bytes())
    return RelationRow(source, target, draft.relation_type, draft.strength, made[0])


def disconnect(
    tx: Transaction,
    source_id: MemoryId,
    target_id: MemoryId,
    relation_type: RelationType,
    *,
    actor: str,
) -> bool:
    """Take a relation away; False when there was none."""
    removed = tx.execute(
        _SQL["remove_relation"],
        source_id=source_id,
        target_id=target_id,
        relation_type=relation_type,
    ).fetchone()
    if removed is None:
        return False
    grow_counters(tx, stored_bytes=-row_bytes())
    _record(tx, source_id, target_id, relation_type, action="memory_disconnect", actor=actor)
    return True


def walk(tx: Transaction, memory_ids: Sequence[MemoryId], *, hops: int) -> tuple[Relation, ...]:
    """Return the relations met within `hops` steps, nearest first, then strongest, ties by id."""
    starts = tx.execute(_SQL["memory_numbers"], ids=json.dumps(memory_ids))
    nearest: dict[RelationRow, int] = {}
    for number, _ in starts.fetchall():
        for row, hop in _walk_from(tx, number, hops=hops):
            nearest[row] = min(hop, nearest.get(row, hop))
    related = relations_of(tx, list(nearest))
    found = list(zip(nearest.values(), related, strict=True))
    found.sort(key=lambda each: (each[0], -each[1].strength, each[1].id))
    return tuple(relation for _, relation in found)


def relations_of(tx: Transaction, rows: Sequence[RelationRow]) -> list[Relation]:
    """Return the relations of rows, in their order."""
    ids = _read_ids(tx, {end for row in rows for end in row[:2]})
    return [_relation(tx.tenant, row, ids) for row in rows]


def find_ends(tx: Transaction, relations: Sequence[Relation]) -> dict[MemoryId, int]:
    """Return the numbers of the memories that relations speak of, as far as they are here."""
    ids = {end for each in relations for end in (each.source_id, each.target_id)}
    rows = tx.execute(_SQL["memory_numbers"], ids=json.dumps(sorted(ids)))
    return {memory_id: number for number, memory_id in rows.fetchall()}


def _walk_from(tx: Transaction, start: int, *, hops: int) -> Iterable[tuple[RelationRow, int]]:
    """Yield the relations met from one memory and at which step, breadth first."""
    reached, nearer = {start}, set[int]()
    for hop in range(1, hops + 1):
        cursor = tx.execute(
            _SQL["next_relations"],
            reached=json.dumps(sorted(reached)),
            nearer=json.dumps(sorted(nearer)),
            limit=limits.RELATED_MAX,
        )
        rows = [RelationRow._make(row) for row in cursor]
        yield from ((row, hop) for row in rows)
        nearer |= reached
        reached = {end for row in rows for end in row[:2]} - nearer
        if not reached:
            return


def refuse_circle(tx: Transaction, *, source: int, target: int) -> None:
    """Refuse that `source` supersedes what supersedes it already, itself or through others.

    Raises:
        InvalidRequestError: it would.
    """
    cursor = tx.execute(_SQL["superseded_from"], start=target)
    path = _shortest_path(cursor.fetchall(), start=target, end=source)
    if path is None:
        return
    ids = _read_ids(tx, path)
    named = [ids[number] for number in path]
    if len(named) > _CIRCLE_NAMED_MAX:
        named[_CIRCLE_NAMED_MAX - 1 : -1] = [MemoryId(f"{len(named) - _CIRCLE_NAMED_MAX} others")]
    circle = " supersedes ".join([ids[source], *named])
    raise InvalidRequestError(f"would close a circle: {circle}", field="target_id")


def _shortest_path(
    steps: Iterable[tuple[int, int]], *, start: int, end: int
) -> Sequence[int] | None:
    """Return the memories from `start` to `end`, both included; None when no way leads there."""
    onward = defaultdict[int, list[int]](list)
    for source, target in steps:
        onward[source].append(target)
    came_from: dict[int, int | None] = {start: None}
    waiting = deque([start])
    while waiting and end not in came_from:
        here = waiting.popleft()
        new = [there for there in onward[here] if there not in came_from]
        came_from |= dict.fromkeys(new, here)
        waiting.extend(new)
    return _way_back(came_from, end) if end in came_from else None


def _way_back(came_from: Mapping[int, int | None], end: int) -> Sequence[int]:
    path, here = [end], came_from[end]
    while here is not None:
        path.append(here)
        here = came_from[here]
    return path[::-1]


def _read_ids(tx: Transaction, numbers: Iterable[int]) -> dict[int, MemoryId]:
    """Return the public ids of memories."""
    wanted = json.dumps(sorted(numbers))
    return dict(tx.execute(_SQL["memory_ids"], numbers=wanted).fetchall())


def _relation(tenant: Tenant, row: RelationRow, ids: Mapping[int, MemoryId]) -> Relation:
    source_id, target_id = ids[row.source], ids[row.target]
    seed = f"{tenant.id}:{source_id}:{target_id}:{row.relation_type}"
    return Relation(
        id=RelationId(derived_id("rel_", seed)),
        source_id=source_id,
        target_id=target_id,
        relation_type=row.relation_type,
        strength=row.strength,
        created_at=from_microseconds(row.created_at),
    )


def _record(
    tx: Transaction,
    source_id: MemoryId,
    target_id: MemoryId,
    relation_type: RelationType,
    *,
    action: str,
    actor: str,
) -> None:
    audit.record(
        tx,
        now=tx.tenant.now(),
        actor=actor,
        action=action,
        subject=source_id,
        details={"target_id": target_id, "relation_type": relation_type},
    )
