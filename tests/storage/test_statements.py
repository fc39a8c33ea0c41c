"""The SQL of organisation files: every statement names its organisation, and lists use indexes."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from engram.model.memory import Category, MemoryFilters, MemoryQuery
from engram.storage.conversations.reading import statements
from engram.storage.memories.reading import list_statement
from engram.storage.rows.queries import load_queries
from engram.storage.search.overview import OverviewQuery, groups_of, memory_statement
from engram.storage.sqlite.migrate import load_migrations, migrate
from tests.postgres.statements import added_organizations
from tests.promises import promise
from tests.statements import statement_files

OTHERS = {"control.sql", "blocks.sql"}
"""Statements on the control file, and on the word blocks that only PostgreSQL has."""


BACKENDS = {"sqlite", "postgres"}


@pytest.fixture
def empty() -> Iterator[sqlite3.Connection]:
    """Yield an organisation's file in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, load_migrations("organization"))
        yield connection


def tenant_tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%organization_id%'"
    )
    return {name for (name,) in rows}


def all_statements() -> Iterator[tuple[str, str]]:
    for path, named in statement_files():
        if path.split("/")[0] not in BACKENDS and Path(path).name not in OTHERS:
            for name, statement in named.items():
                yield f"{path}: {name}", re.sub(r"--.*", "", statement)


def copied_organizations(statement: str) -> list[str]:
    """Return the columns that name the organisation of rows which are made of others."""
    added = added_organizations(statement)
    return [each for each in added if each.rpartition(".")[2] == "organization_id"]


@promise("apart")
def test_every_statement_on_tenants_rows_names_the_organisation(
    empty: sqlite3.Connection,
) -> None:
    tables = "|".join(tenant_tables(empty))
    mention = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE)\s+({tables})\b")

    careless = [
        name
        for name, statement in all_statements()
        if len(mention.findall(statement))
        > statement.count(":organization_id") + len(copied_organizations(statement))
    ]

    assert careless == []
    assert sum(bool(mention.search(statement)) for _, statement in all_statements()) > 50


def test_what_is_named_is_not_looked_for_among_all_of_an_organisation(
    empty: sqlite3.Connection,
) -> None:
    """A file without statistics, as every new one is, makes SQLite prefer the wrong index."""
    named = re.compile(r"\b(?:key|number|id|record) IN \(SELECT value FROM json_each")
    asked = {
        name: each
        for name, each in all_statements()
        if named.search(each) and not each.startswith("AND")  # a condition, put into others
    }

    careless = [
        name
        for name, each in asked.items()
        if "(organization_id=?)" in explain(empty, each, dict.fromkeys(parameters(each), "[1]"))
    ]

    assert careless == []
    assert len(asked) > 5


def test_the_oldest_that_waits_is_found_by_the_ends_of_the_queue(
    empty: sqlite3.Connection,
) -> None:
    statement = load_queries("vectors/unembedded.sql")["oldest_unembedded"]

    found = explain(empty, statement, dict.fromkeys(parameters(statement), 1))

    assert "SEARCH message USING INTEGER PRIMARY KEY" in found
    assert "SCAN message" not in found
    assert "TEMP B-TREE" not in found


@pytest.mark.parametrize("sort", ["created_at", "updated_at", "message_count"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_lists_are_read_in_the_order_of_an_index(
    empty: sqlite3.Connection, sort: str, order: str
) -> None:
    assert "TEMP B-TREE" not in plan(empty, set(), sort, order)


@pytest.mark.parametrize("condition", ["agent_id", "project"])
def test_filtered_lists_are_read_in_the_order_of_an_index(
    empty: sqlite3.Connection, condition: str
) -> None:
    assert f"{condition}=?" in plan(empty, {condition}, "updated_at", "desc")
    assert "TEMP B-TREE" not in plan(empty, {condition}, "updated_at", "desc")


def plan(connection: sqlite3.Connection, conditions: set[str], sort: str, order: str) -> str:
    page, _ = statements(conditions, sort=sort, order=order)
    values = dict.fromkeys(("organization_id", "limit", "offset", *conditions), 1)
    return explain(connection, page, values)


def explain(connection: sqlite3.Connection, statement: str, values: Mapping[str, object]) -> str:
    return str(connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall())


def parameters(statement: str) -> set[str]:
    return set(re.findall(r":(\w+)", statement))


@pytest.mark.parametrize("filters", [MemoryFilters(), MemoryFilters(projects=("one",))])
def test_memories_are_listed_in_the_order_of_storing_without_sorting(
    empty: sqlite3.Connection, filters: MemoryFilters
) -> None:
    statement = list_statement(MemoryQuery(filters=filters))
    names = re.findall(r":(\w+)", statement)

    steps = empty.execute(f"EXPLAIN QUERY PLAN {statement}", dict.fromkeys(names, 1)).fetchall()

    assert "TEMP B-TREE" not in str(steps)


@pytest.mark.parametrize("project", [None, "one"])
@pytest.mark.parametrize("category", [None, "technical"])
def test_overviews_read_each_group_in_the_order_of_its_index(
    empty: sqlite3.Connection, project: str | None, category: Category | None
) -> None:
    query = OverviewQuery(project=project, category=category, now=1)

    plans: dict[str, str] = {}
    for group in groups_of(query):
        statement = memory_statement(query, group)
        plans[group.rows] = explain(empty, statement, dict.fromkeys(parameters(statement), 1))

    assert "memory_important (organization_id=? AND importance=?" in plans["has_importance"]
    assert "memory_typed (organization_id=? AND memory_type=?" in plans["has_type"]
    assert "memory_categorized (organization_id=? AND category=?" in plans["has_category"]
    assert "conversation_tag_found (organization_id=? AND tag=?" in plans["tagged_memories"]
    assert "(record=?)" in plans["tagged_memories"]
    assert not any("TEMP B-TREE" in plan for plan in plans.values())
