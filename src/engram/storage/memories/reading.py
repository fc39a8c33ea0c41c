"""Read memories: by id, in pages, as they were at a time, and as totals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never

from engram import limits
from engram.clock import from_microseconds, to_microseconds
from engram.model.ids import MemoryId
from engram.model.memory import (
    Memory,
    MemoryFilters,
    MemoryPage,
    MemoryQuery,
    MemoryStatus,
    MemoryType,
    MemoryVersion,
    ProjectSize,
)
from engram.storage.bookkeeping.counters import read_counters
from engram.storage.memories.rows import (
    find_memories,
    find_memory,
    read_memories,
    read_version,
    read_versions,
)
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction

_SQL = load_queries("memories/memories.sql")
_BATCH_MEMORIES = 20
_LIST = "IN (SELECT value FROM json_each(:{}))"
_CONDITIONS = MappingProxyType(
    {
        "one_project": "AND project = :one_project",
        "projects": f"AND project {_LIST.format('projects')}",
        "memory_types": f"AND memory_type {_LIST.format('memory_types')}",
        "categories": f"AND category {_LIST.format('categories')}",
        "sources": f"AND source {_LIST.format('sources')}",
        "tags": _SQL["has_any_tag"],
        "importance_max": "AND importance <= :importance_max",
        "episode_id": "AND episode_id = :episode_id",
        "storage_mode": "AND storage_mode = :storage_mode",
        "ids": f"AND id {_LIST.format('ids')}",
    }
)


class MemoryReader(TenantStore):
    """Read-only access to the memories of an organisation."""

    async def get(self, memory_ids: Sequence[MemoryId]) -> Mapping[MemoryId, Memory]:
        """Return those that exist, forgotten ones included, in the order requested.

        Raises:
            StoreCorruptError: the bytes of one do not match its hash.
        """

        def read(tx: Transaction) -> dict[MemoryId, Memory]:
            numbers = find_memories(tx, memory_ids)
            found = read_memories(tx, list(numbers.values()))
            return {each: found[numbers[each]] for each in memory_ids if each in numbers}

        return await self._tenant.read(read)

    async def list(self, query: MemoryQuery, *, now: datetime) -> MemoryPage:
        """Return a page of memories under all the query's filters, newest first, ties by id.

        Which are valid is decided at `now`.
        """
        return await self._tenant.read(lambda tx: _list(tx, query, now=to_microseconds(now)))

    async def scan(
        self, project: str | None, *, after: MemoryId | None, limit: int
    ) -> tuple[Memory, ...]:
        """Return memories in the order they were first stored, forgotten ones included.

        Begins after the memory `after`; None begins with the first. For walks over everything.

        Raises:
            NotFoundError: there is no memory `after` any more.
        """

        def read(tx: Transaction) -> tuple[Memory, ...]:
            numbers = scan_numbers(tx, project, after=after, limit=limit)
            return tuple(read_memories(tx, numbers).values())

        return await self._tenant.read(read)

    async def history(self, memory_id: MemoryId) -> tuple[MemoryVersion, ...]:
        """Return the versions of a memory before the present one, oldest first.

        Raises:
            NotFoundError: there is no such memory.
        """
        return await self._tenant.read(lambda tx: read_versions(tx, find_memory(tx, memory_id)))

    async def timeline(
        self, as_of: datetime, *, projects: Sequence[str] | None, limit: int, offset: int = 0
    ) -> tuple[Memory, ...]:
        """Return the memories that were stored and valid at a time, as they were then, newest first."""

        def read(tx: Transaction) -> tuple[Memory, ...]:
            rows = tx.execute(
                timeline_statement(projects),
                as_of=to_microseconds(as_of),
                projects=json.dumps(projects),
                one_project=projects[0] if projects else None,
                limit=limit,
                offset=offset,
            ).fetchall()
            unchanged = read_memories(tx, [number for number, version in rows if version is None])
            return tuple(
                unchanged[number] if version is None else read_version(tx, number, version).memory
                for number, version in rows
            )

        return await self._tenant.read(read)

    async def projects(self) -> tuple[ProjectSize, ...]:
        """Return the projects that have memories, forgotten ones too, by name."""
        rows = await self._tenant.read(lambda tx: tx.execute(_SQL["list_projects"]).fetchall())
        return tuple(ProjectSize(project=project, count=count) for project, count in rows)

    async def status(self, project: str | None) -> MemoryStatus:
        """Count the memories of a project, or of all, and what belongs to them."""
        groups, chunks, relations = await self._tenant.read(
            lambda tx: [
                tx.execute(status_statement(name, project), project=project).fetchall()
                for name in ("count_by_type", "count_chunks", "count_relations")
            ]
        )
        return _status([_Group._make(row) for row in groups], *chunks[0], relations=relations[0][0])


def _list(tx: Transaction, query: MemoryQuery, *, now: int) -> MemoryPage:
    values = {**_listed_values(query.filters), "now": now}
    rows = tx.execute(list_statement(query), limit=query.limit, offset=query.offset, **values)
    found = _read_fitting(tx, [number for (number,) in rows])
    if query.validity != "now" or not query.filters.is_empty:
        count = _SQL["count_memories"].replace("/*conditions*/", _conditions(query))
        total = tx.execute(count, **values).fetchone()[0]
    else:
        # Without filters the counter saves counting every row.
        total = read_counters(tx).memories
        total -= tx.execute(_SQL["count_out_of_time"], now=now).fetchone()[0]
    end = query.offset + len(found)
    return MemoryPage(
        memories=tuple(found.values()),
        total=total,
        next_offset=end if found and end < total else None,
    )


def _read_fitting(tx: Transaction, numbers: Sequence[int]) -> dict[int, Memory]:
    """Return the first memories, at least one, whose texts together fit in a page."""
    found: dict[int, Memory] = {}
    characters = 0
    for start in range(0, len(numbers), _BATCH_MEMORIES):
        batch = read_memories(tx, numbers[start : start + _BATCH_MEMORIES])
        found |= batch
        characters += sum(len(memory.content) for memory in batch.values())
        if characters > limits.PAGE_CHARACTERS_MAX:
            break
    return found


def list_statement(query: MemoryQuery) -> str:
    """Return the statement that reads a page, assembled from fixed pieces."""
    return _ordered("list_memories", _listed_values(query.filters), _conditions(query))


def _conditions(query: MemoryQuery) -> str:
    given = memory_conditions(_listed_values(query.filters))
    match query.validity:
        case "now":
            return f"{_SQL['is_searched']} {_SQL['is_in_time']} {given}"
        case "not_now":
            return f"{_SQL['is_out_of_time']} {given}"
        case "any":
            return given
        case _:
            assert_never(query.validity)


def _listed_values(filters: MemoryFilters) -> dict[str, Any]:
    """Return the values of filters; a single project is separate, because its index is ordered."""
    values = filter_values(filters)
    if filters.projects is not None and len(filters.projects) == 1:
        del values["projects"]
        values["one_project"] = filters.projects[0]
    return values


def _ordered(name: str, values: Mapping[str, Any], conditions: str) -> str:
    """Return a statement that reads memories in the order of an index, without sorting."""
    by_number = "" if values.keys() & {"one_project", "projects"} else _SQL["by_number"]
    return _SQL[name].replace("/*conditions*/", conditions).replace("/*by_number*/", by_number)


def scan_numbers(
    tx: Transaction, project: str | None, *, after: MemoryId | None, limit: int
) -> list[int]:
    """Return the numbers of the next memories in the order of storing."""
    values = {} if project is None else {"one_project": project}
    rows = tx.execute(
        _ordered("scan_memories", values, memory_conditions(values)),
        after=0 if after is None else find_memory(tx, after),
        limit=limit,
        **values,
    )
    return [number for (number,) in rows]


def filter_values(filters: MemoryFilters) -> dict[str, Any]:
    """Return the values of the filters that are set, under the names of their fields."""
    lists = ("projects", "memory_types", "categories", "sources", "tags", "ids")
    given = {name: getattr(filters, name) for name in lists}
    values = {
        **{name: json.dumps(value) if value else None for name, value in given.items()},
        "importance_max": filters.importance_max,
        "episode_id": filters.episode_id,
        "storage_mode": filters.storage_mode,
    }
    return {name: value for name, value in values.items() if value is not None}


def memory_conditions(given: Iterable[str]) -> str:
    """Return the conditions on rows of `memory` for the filters given."""
    return " ".join(_CONDITIONS[name] for name in given)


def timeline_statement(projects: Sequence[str] | None) -> str:
    """Return the statement that reads the timeline of some projects, or of all."""
    statement = _SQL["timeline"]
    if projects is None:
        # Read backwards, the table itself is in the order wanted.
        return statement.replace("/*by_number*/", "NOT INDEXED")
    which = "= :one_project"
    if len(projects) != 1:
        which = "IN (SELECT value FROM json_each(:projects))"
    return statement.replace("/*projects*/", f"AND {_SQL['project_then']} {which}")


def status_statement(name: str, project: str | None) -> str:
    """Return a statement about one project, or about all."""
    condition = "" if project is None else "AND memory.project = :project"
    return _SQL[name].replace("/*project*/", condition)


class _Group(NamedTuple):
    """The columns of `count_by_type`."""

    memory_type: MemoryType
    importance: int
    searched: int
    forgotten: int
    summaries: int
    oldest: int | None
    newest: int | None


def _status(
    groups: Sequence[_Group], chunks: int, chunks_pending: int, *, relations: int
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
