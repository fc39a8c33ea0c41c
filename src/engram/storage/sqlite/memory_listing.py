"""Read memories by id, in pages, and one after the other."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from engram.clock import to_microseconds
from engram.model.ids import MemoryId
from engram.model.memory import Memory, MemoryFilters, MemoryPage, MemoryQuery
from engram.storage.sqlite.memory_rows import find_memory, read_memories
from engram.storage.sqlite.queries import load_queries
from engram.storage.sqlite.tenant import Tenant

_SQL = load_queries("memories.sql")
_CONDITIONS = MappingProxyType(
    {
        "projects": "is_in_projects",
        "memory_types": "is_of_types",
        "categories": "is_of_categories",
        "sources": "is_from_sources",
        "tags": "has_any_tag",
        "importance_max": "is_important",
        "episode_id": "is_of_episode",
        "storage_mode": "is_stored_as",
    }
)


def get(
    connection: sqlite3.Connection, tenant: Tenant, memory_ids: Sequence[MemoryId]
) -> dict[MemoryId, Memory]:
    """Return the memories that exist, in the order asked for."""
    cursor = tenant.execute(connection, _SQL["find_memories"], ids=json.dumps(memory_ids))
    numbers = [number for (number,) in cursor]
    found = {memory.id: memory for memory in read_memories(connection, tenant, numbers).values()}
    return {memory_id: found[memory_id] for memory_id in memory_ids if memory_id in found}


def list_memories(
    connection: sqlite3.Connection, tenant: Tenant, query: MemoryQuery, *, now: datetime
) -> MemoryPage:
    """Return one page of the memories that meet every filter, newest first."""
    values = filter_values(query.filters)
    conditions = memory_conditions(values)
    if not query.include_forgotten:
        conditions = f"{_SQL['is_searched']} {_SQL['is_in_time']} {conditions}"
    values["now"] = to_microseconds(now)
    page, count = (
        _SQL[name].replace("/*conditions*/", conditions)
        for name in ("list_memories", "count_memories")
    )
    rows = tenant.execute(connection, page, limit=query.limit, offset=query.offset, **values)
    found = read_memories(connection, tenant, [number for (number,) in rows])
    total = tenant.execute(connection, count, **values).fetchone()[0]
    seen = query.offset + len(found)
    return MemoryPage(
        memories=tuple(found.values()),
        total=total,
        next_offset=seen if found and seen < total else None,
    )


def scan(
    connection: sqlite3.Connection,
    tenant: Tenant,
    project: str | None,
    *,
    after: MemoryId | None,
    limit: int,
) -> tuple[Memory, ...]:
    """Return the next memories in the order of storing, forgotten ones included."""
    numbers = scan_numbers(connection, tenant, project, after=after, limit=limit)
    return tuple(read_memories(connection, tenant, numbers).values())


def scan_numbers(
    connection: sqlite3.Connection,
    tenant: Tenant,
    project: str | None,
    *,
    after: MemoryId | None,
    limit: int,
) -> list[int]:
    """Return the numbers of the next memories in the order of storing."""
    values = {} if project is None else {"projects": json.dumps([project])}
    rows = tenant.execute(
        connection,
        _SQL["scan_memories"].replace("/*conditions*/", memory_conditions(values)),
        after=0 if after is None else find_memory(connection, tenant, after),
        limit=limit,
        **values,
    )
    return [number for (number,) in rows]


def filter_values(filters: MemoryFilters) -> dict[str, Any]:
    """Return the values of the filters that are given, under the names of their fields."""
    lists = {
        "projects": filters.projects,
        "memory_types": filters.memory_types,
        "categories": filters.categories,
        "sources": filters.sources,
        "tags": filters.tags,
    }
    values = {
        **{name: json.dumps(wanted) if wanted else None for name, wanted in lists.items()},
        "importance_max": filters.importance_max,
        "episode_id": filters.episode_id,
        "storage_mode": filters.storage_mode,
    }
    return {name: value for name, value in values.items() if value is not None}


def memory_conditions(given: Iterable[str]) -> str:
    """Return the conditions on rows of `memory` for the filters given."""
    return " ".join(_SQL[_CONDITIONS[name]] for name in given)
