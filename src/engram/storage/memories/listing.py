"""Read memories by id, in pages, and one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from engram import limits
from engram.clock import to_microseconds
from engram.model.ids import MemoryId
from engram.model.memory import Memory, MemoryFilters, MemoryPage, MemoryQuery
from engram.storage.bookkeeping.counters import read_counters
from engram.storage.memories.rows import find_memory, read_memories
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("memories/memories.sql")
_READ_AT_ONCE = 20
_CONDITIONS = MappingProxyType(
    {
        "one_project": "is_in_project",
        "projects": "is_in_projects",
        "memory_types": "is_of_types",
        "categories": "is_of_categories",
        "sources": "is_from_sources",
        "tags": "has_any_tag",
        "importance_max": "is_important",
        "episode_id": "is_of_episode",
        "storage_mode": "is_stored_as",
        "ids": "is_one_of",
    }
)


def get(tx: Transaction, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, Memory]:
    """Return the memories that exist, in the order asked for."""
    cursor = tx.execute(_SQL["find_memories"], ids=json.dumps(memory_ids))
    numbers = [number for (number,) in cursor]
    found = {memory.id: memory for memory in read_memories(tx, numbers).values()}
    return {memory_id: found[memory_id] for memory_id in memory_ids if memory_id in found}


def list_memories(tx: Transaction, query: MemoryQuery, *, now: datetime) -> MemoryPage:
    """Return one page of the memories that meet every filter, newest first."""
    values = {**_listed_values(query.filters), "now": to_microseconds(now)}
    rows = tx.execute(list_statement(query), limit=query.limit, offset=query.offset, **values)
    found = _read_fitting(tx, [number for (number,) in rows])
    if query.include_forgotten or not query.filters.is_empty:
        count = _SQL["count_memories"].replace("/*conditions*/", _conditions(query))
        total = tx.execute(count, **values).fetchone()[0]
    else:
        total = _count_in_time(tx, values["now"])
    seen = query.offset + len(found)
    return MemoryPage(
        memories=tuple(found.values()),
        total=total,
        next_offset=seen if found and seen < total else None,
    )


def _read_fitting(tx: Transaction, numbers: Sequence[int]) -> dict[int, Memory]:
    """Return the first memories, at least one, and not much more text than memory should hold."""
    found: dict[int, Memory] = {}
    characters = 0
    for start in range(0, len(numbers), _READ_AT_ONCE):
        batch = read_memories(tx, numbers[start : start + _READ_AT_ONCE])
        found |= batch
        characters += sum(len(memory.content) for memory in batch.values())
        if characters > limits.PAGE_CHARACTERS_MAX:
            break
    return found


def list_statement(query: MemoryQuery) -> str:
    """Return what reads a page, put together from fixed pieces."""
    return _walked("list_memories", _listed_values(query.filters), _conditions(query))


def _conditions(query: MemoryQuery) -> str:
    given = memory_conditions(_listed_values(query.filters))
    if query.include_forgotten:
        return given
    return f"{_SQL['is_searched']} {_SQL['is_in_time']} {given}"


def _listed_values(filters: MemoryFilters) -> dict[str, Any]:
    """Return the values of filters, a single project apart: its index gives the order."""
    values = filter_values(filters)
    if filters.projects is not None and len(filters.projects) == 1:
        del values["projects"]
        values["one_project"] = filters.projects[0]
    return values


def _walked(name: str, values: Mapping[str, Any], conditions: str) -> str:
    """Return a statement that walks over memories in their order without sorting them."""
    by_number = "" if values.keys() & {"one_project", "projects"} else _SQL["by_number"]
    return _SQL[name].replace("/*conditions*/", conditions).replace("/*by_number*/", by_number)


def _count_in_time(tx: Transaction, now: int) -> int:
    """Return how many memories are listed without filters, without counting all of them."""
    counted = tx.execute(_SQL["count_out_of_time"], now=now).fetchone()[0]
    return read_counters(tx).memories - counted


def scan(
    tx: Transaction, project: str | None, *, after: MemoryId | None, limit: int
) -> tuple[Memory, ...]:
    """Return the next memories in the order of storing, forgotten ones included."""
    numbers = scan_numbers(tx, project, after=after, limit=limit)
    return tuple(read_memories(tx, numbers).values())


def scan_numbers(
    tx: Transaction, project: str | None, *, after: MemoryId | None, limit: int
) -> list[int]:
    """Return the numbers of the next memories in the order of storing."""
    values = {} if project is None else {"one_project": project}
    rows = tx.execute(
        _walked("scan_memories", values, memory_conditions(values)),
        after=0 if after is None else find_memory(tx, after),
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
        "ids": filters.ids,
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
