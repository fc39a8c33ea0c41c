"""Read what a search wants to know of the memories it found."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from engram.model.ids import ConversationKey
from engram.model.memory import Memory
from engram.storage.memories.feedback import usefulness
from engram.storage.memories.rows import read_memories
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("search/memories.sql")


class Worth(NamedTuple):
    """What counts beside the relevance of a memory."""

    importance: int
    usefulness: float


def read_worths(tx: Transaction, records: Iterable[int]) -> dict[int, Worth]:
    """Return the worth of the memories with these records."""
    facts = _facts(tx, records)
    useful = usefulness(tx, [number for _, number, _ in facts])
    return {
        record: Worth(importance, useful.get(number, 0.0)) for record, number, importance in facts
    }


def read_found_memories(tx: Transaction, records: Iterable[int]) -> dict[ConversationKey, Memory]:
    """Return the memories with these records, by record.

    Raises:
        StoreCorruptError: the text of one cannot be read.
    """
    facts = _facts(tx, records)
    memories = read_memories(tx, [number for _, number, _ in facts])
    return {ConversationKey(record): memories[number] for record, number, _ in facts}


def count_moments_passed(tx: Transaction, *, now: int) -> int:
    """Return how many beginnings and ends of memories' times have come."""
    return tx.execute(_SQL["moments_passed"], now=now).fetchone()[0]


def _facts(tx: Transaction, records: Iterable[int]) -> list[tuple[int, int, int]]:
    wanted = json.dumps(list(records))
    return tx.execute(_SQL["record_facts"], records=wanted).fetchall()
