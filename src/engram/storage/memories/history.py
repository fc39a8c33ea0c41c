"""Say what memories were: their versions, and all that was known at a moment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from engram.clock import to_microseconds
from engram.model.ids import MemoryId
from engram.model.memory import Memory, MemoryVersion
from engram.storage.memories.rows import find_memory, read_memories, read_version, read_versions
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("memories/history.sql")
_OF_ONE = "AND memory.project = :one_project"
_OF_ANY = "AND memory.project IN (SELECT value FROM json_each(:projects))"


def read_history(tx: Transaction, memory_id: MemoryId) -> tuple[MemoryVersion, ...]:
    """Return the versions a memory had before the present one, oldest first."""
    return read_versions(tx, find_memory(tx, memory_id))


def read_timeline(
    tx: Transaction, as_of: datetime, *, projects: Sequence[str] | None, limit: int
) -> tuple[Memory, ...]:
    """Return the memories that were known and held at a moment, as they were then, newest first."""
    rows = tx.execute(
        timeline_statement(projects),
        as_of=to_microseconds(as_of),
        projects=json.dumps(projects),
        one_project=projects[0] if projects else None,
        limit=limit,
    ).fetchall()
    unchanged = [number for number, version in rows if version is None]
    present = read_memories(tx, unchanged)
    return tuple(
        present[number] if version is None else read_version(tx, number, version).memory
        for number, version in rows
    )


def timeline_statement(projects: Sequence[str] | None) -> str:
    """Return what reads the timeline of some projects, or of all, made of fixed pieces."""
    statement = _SQL["timeline"]
    if projects is None:
        # Read backwards, the table itself is in the order asked for; so is the index of a project.
        return statement.replace("/*by_number*/", "NOT INDEXED")
    condition = _OF_ONE if len(projects) == 1 else _OF_ANY
    return statement.replace("/*projects*/", condition)
