"""Say what the memories of an organisation amount to, without reading their texts."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from engram.clock import from_microseconds
from engram.model.memory import MemoryStatus, MemoryType, ProjectSize
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("memories/status.sql")
_OF_PROJECT = "AND memory.project = :project"


class _Group(NamedTuple):
    """The columns of `count_memories`."""

    memory_type: MemoryType
    importance: int
    searched: int
    forgotten: int
    summaries: int
    oldest: int | None
    newest: int | None


def list_projects(tx: Transaction) -> tuple[ProjectSize, ...]:
    """Return the projects that have memories, by name."""
    rows = tx.execute(_SQL["list_projects"])
    return tuple(ProjectSize(project=project, memories=memories) for project, memories in rows)


def read_status(tx: Transaction, project: str | None) -> MemoryStatus:
    """Count the memories of a project, or of all, and what belongs to them."""
    groups, chunks, relations = (
        tx.execute(statement(name, project), project=project).fetchall()
        for name in ("count_memories", "count_chunks", "count_relations")
    )
    return _status([_Group._make(row) for row in groups], *chunks[0], relations=relations[0][0])


def statement(name: str, project: str | None) -> str:
    """Return a statement about one project, or about all."""
    return _SQL[name].replace("/*project*/", "" if project is None else _OF_PROJECT)


def _status(
    groups: list[_Group], chunks: int, chunks_pending: int, *, relations: int
) -> MemoryStatus:
    by_type, by_importance = Counter[MemoryType](), Counter[int]()
    for group in groups:
        by_type[group.memory_type] += group.searched
        by_importance[group.importance] += group.searched
    oldest = min((each.oldest for each in groups if each.oldest is not None), default=None)
    newest = max((each.newest for each in groups if each.newest is not None), default=None)
    return MemoryStatus(
        memories=by_type.total(),
        forgotten=sum(group.forgotten for group in groups),
        chunks=chunks,
        chunks_pending=chunks_pending,
        relations=relations,
        by_type=dict(+by_type),
        by_importance=dict(+by_importance),
        oldest=None if oldest is None else from_microseconds(oldest),
        newest=None if newest is None else from_microseconds(newest),
        summaries=sum(group.summaries for group in groups),
    )
