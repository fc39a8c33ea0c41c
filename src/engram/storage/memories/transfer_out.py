"""Read memories with all that belongs to them, and prove what is kept of them."""

from __future__ import annotations

import json
from collections import defaultdict

from engram.errors import StoreCorruptError
from engram.model.ids import EpisodeId, MemoryId
from engram.model.memory import Episode, Relation
from engram.model.transfer import MemoryProof, MemoryRecord
from engram.storage.memories.episodes import episode_of
from engram.storage.memories.listing import scan_numbers
from engram.storage.memories.relations import RelationRow, relations_of
from engram.storage.memories.rows import (
    MemoryRow,
    memory_of,
    read_memories,
    read_rows,
    read_versions,
)
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("memories/transfer.sql")


def read_records(
    tx: Transaction, project: str | None, *, after: MemoryId | None, limit: int
) -> tuple[MemoryRecord, ...]:
    """Return the next memories with their histories and relations, in the order of storing."""
    numbers = scan_numbers(tx, project, after=after, limit=limit)
    relations = _outgoing(tx, numbers)
    return tuple(
        MemoryRecord(
            memory=memory,
            versions=read_versions(tx, number) if memory.version > 1 else (),
            relations=relations.get(memory.id, ()),
        )
        for number, memory in read_memories(tx, numbers).items()
    )


def read_episodes(
    tx: Transaction, project: str | None, *, after: EpisodeId | None, limit: int
) -> tuple[Episode, ...]:
    """Return the next episodes by id."""
    condition = "" if project is None else _SQL["is_episode_of_project"]
    statement = _SQL["scan_episodes"].replace("/*conditions*/", condition)
    values = {} if project is None else {"project": project}
    rows = tx.execute(statement, after=after or "", limit=limit, **values)
    return tuple(map(episode_of, rows))


def verify(
    tx: Transaction, project: str | None, *, after: MemoryId | None, limit: int
) -> MemoryProof:
    """Prove the next memories and their versions by their hashes."""
    numbers = scan_numbers(tx, project, after=after, limit=limit)
    rows = sorted(read_rows(tx, numbers))
    corrupt = [row.id for row in rows if not _is_whole(tx, row)]
    return MemoryProof(
        checked=len(rows), corrupt=tuple(corrupt), last=rows[-1].id if rows else None
    )


def _is_whole(tx: Transaction, row: MemoryRow) -> bool:
    try:
        memory_of(tx, row)
        if row.version > 1:
            read_versions(tx, row.number)
    except StoreCorruptError:
        return False
    return True


def _outgoing(tx: Transaction, numbers: list[int]) -> dict[MemoryId, tuple[Relation, ...]]:
    cursor = tx.execute(_SQL["outgoing_relations"], numbers=json.dumps(numbers))
    rows = [RelationRow._make(row) for row in cursor]
    found = defaultdict[MemoryId, list[Relation]](list)
    for relation in relations_of(tx, rows):
        found[relation.source_id].append(relation)
    return {memory_id: tuple(relations) for memory_id, relations in found.items()}
