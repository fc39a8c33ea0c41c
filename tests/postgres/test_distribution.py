"""Tables and statements that can be spread over servers: all is led by the organisation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from engram.storage.postgres.citus import Layout, read_layout
from engram.storage.postgres.migrate import migrate_all
from tests.postgres.databases import as_owner
from tests.postgres.servers import Server
from tests.postgres.statements import (
    added_organizations,
    alternatives,
    tenant_statements,
    with_organization,
)

ORGANIZATION = 7

_KEYS = """
SELECT indrelid::regclass::text, indexrelid::regclass::text,
    pg_get_indexdef(indexrelid, 1, false)
FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
WHERE indisunique AND relname::text = ANY(%s) AND relnamespace = 'engram'::regnamespace
"""
_FOREIGN_KEYS = """
SELECT conrelid::regclass::text, confrelid::regclass::text, confdeltype::text,
    (SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = conkey[1]),
    (SELECT attname::text FROM pg_attribute WHERE attrelid = confrelid AND attnum = confkey[1])
FROM pg_constraint
WHERE contype = 'f' AND connamespace = 'engram'::regnamespace AND conparentid = 0
"""
_DEFAULTS = """
SELECT relname::text, attname::text, format_type(atttypid, NULL), attidentity::text,
    pg_get_expr(adbin, adrelid)
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relnamespace = 'engram'::regnamespace AND relname::text = ANY(%s) AND attnum > 0
    AND (attidentity <> '' OR adbin IS NOT NULL)
"""


@pytest.fixture
def database_url(database_url: str) -> str:
    """Return the address for the owner of the tables, who alone may spread them."""
    return as_owner(database_url)


@pytest.fixture
def driver(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection to a database as migrations make it."""
    with psycopg.connect(database_url, autocommit=True) as driver:
        driver.execute("SET search_path = engram, public")
        yield driver


@pytest.fixture
def layout(driver: psycopg.Connection[Any]) -> Layout:
    """Return which tables there are."""
    return read_layout(driver)


def test_every_table_is_either_of_organisations_or_of_all(
    driver: psycopg.Connection[Any], layout: Layout
) -> None:
    rows = driver.execute(
        "SELECT relname::text FROM pg_class "
        "WHERE relnamespace = 'engram'::regnamespace AND relkind IN ('r', 'p')"
    )

    assert {name for (name,) in rows} == {*layout.control, *layout.tenant, "near_vector"}
    assert {"organization", "api_key", "control_audit", "migration"} <= set(layout.control)
    assert {"meta", "conversation", "message", "vector", "memory"} <= set(layout.tenant)


def test_every_key_of_a_table_of_organisations_begins_with_the_organisation(
    driver: psycopg.Connection[Any], layout: Layout
) -> None:
    tables = [*layout.tenant, "near_vector"]
    keys = driver.execute(_KEYS, [tables]).fetchall()

    assert [key for key in keys if key[2] != "organization_id"] == []
    assert {table for table, _, _ in keys} == set(tables)


def test_every_foreign_key_stays_within_the_organisation(
    driver: psycopg.Connection[Any], layout: Layout
) -> None:
    keys = driver.execute(_FOREIGN_KEYS).fetchall()
    of_tenants = [key for key in keys if key[0] in layout.tenant]

    assert {key[1] for key in of_tenants} <= set(layout.tenant)
    assert {key[3:] for key in of_tenants} == {("organization_id", "organization_id")}
    # Citus refuses keys that set columns to NULL or a default, whichever columns these are.
    assert {key[2] for key in of_tenants} <= {"a", "c"}
    # No control table speaks of rows that may be on another server.
    assert {key[1] for key in keys if key[0] in layout.control} <= set(layout.control)


def test_tables_come_after_those_they_refer_to(
    driver: psycopg.Connection[Any], layout: Layout
) -> None:
    keys = driver.execute(_FOREIGN_KEYS).fetchall()
    for tables in (layout.control, layout.tenant):
        places = {name: place for place, name in enumerate(tables)}
        pairs = [(places[key[1]], places[key[0]]) for key in keys if key[0] in places]
        assert pairs
        assert all(before < after for before, after in pairs)


def test_the_only_numbers_a_database_gives_are_wide_identities(
    driver: psycopg.Connection[Any], layout: Layout
) -> None:
    """Another server may count on from anywhere, and must not have to know the others' numbers."""
    defaults = driver.execute(_DEFAULTS, [list(layout.tenant)]).fetchall()

    counted = [row for row in defaults if row[3] or "nextval" in (row[4] or "")]
    assert {row[2:4] for row in counted} == {("bigint", "d")}
    assert {row[1] for row in counted} <= {"number", "id"}
    # Nothing else differs between servers either.
    assert {row[4] for row in defaults if row[4]} <= {"0", "'{}'::bigint[]", "1"}


UPSERTED = {
    "due": "kind",
    "word_tail": "generation, number",
    "word_length": "generation, page",
    "word_page": "generation, first_term",
    "word_block": "generation, term, first_key",
}
"""Tables whose rows are changed where others would be added, with their keys."""

_PART = """
ALTER TABLE engram.{table} SET SCHEMA engram_whole;
CREATE TABLE engram.{table} (
    LIKE engram_whole.{table} INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING CONSTRAINTS
) PARTITION BY HASH (organization_id);
CREATE TABLE engram_part_0.{table} PARTITION OF engram.{table}
    FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE engram_part_1.{table} PARTITION OF engram.{table}
    FOR VALUES WITH (MODULUS 2, REMAINDER 1);
"""


@pytest.fixture(scope="module")
def parted(postgres_server: Server) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection to tables in two parts, as one whom row-level security lets pass."""
    name = "engram_parted"
    postgres_server.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(postgres_server.url(name), autocommit=True) as driver:
        migrate_all(driver)
        for schema in ("engram_whole", "engram_part_0", "engram_part_1"):
            driver.execute(f"CREATE SCHEMA {schema}".encode())
        for table in read_layout(driver).tenant:
            driver.execute(_PART.format(table=table).encode())
        driver.execute("SET search_path = engram, public")
        for table, key in UPSERTED.items():
            driver.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (organization_id, {key})".encode())
        yield driver
    postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def tables_of(parted: psycopg.Connection[Any]) -> set[str]:
    rows = parted.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'engram_whole'::regnamespace "
        "AND relkind = 'r'"
    )
    return {name for (name,) in rows}


def plan(parted: psycopg.Connection[Any], statement: str) -> str:
    """Return how the server would run a statement of which it knows the organisation alone."""
    errors: list[psycopg.Error] = []
    for each in alternatives(statement):
        text = with_organization(each, ORGANIZATION)
        explained = f"EXPLAIN (GENERIC_PLAN, VERBOSE, COSTS OFF) {text}"
        try:
            lines = parted.execute(explained.encode()).fetchall()
        except psycopg.Error as error:
            errors.append(error)
        else:
            return "\n".join(line for (line,) in lines)
    raise ExceptionGroup(statement, errors)


def is_for_one_organization(parted: psycopg.Connection[Any], statement: str) -> bool:
    """Say whether all that is read is in one part, and all that is added is the organisation's."""
    parts = set(re.findall(r"\bengram_part_\d+\b", plan(parted, statement)))
    added = {each.rpartition(".")[2] for each in added_organizations(statement)}
    # What is made of other rows has their organisation.
    known = {"%(organization_id)s", "organization_id"}
    return len(parts) <= 1 and added <= known and bool(parts or added)


def test_every_statement_on_rows_of_organisations_is_for_one_of_them(
    parted: psycopg.Connection[Any],
) -> None:
    statements = list(tenant_statements(tables_of(parted)))

    careless = [name for name, each in statements if not is_for_one_organization(parted, each)]

    # Background work is looked for in all organisations, and claimed in each.
    assert careless == ["postgres/due.sql: find_due"]
    assert len(statements) > 250


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT content FROM message WHERE key = %(key)s",
        "SELECT content FROM message WHERE organization_id <> %(organization_id)s",
        """DELETE FROM message WHERE organization_id = %(organization_id)s
            AND key IN (SELECT key FROM unembedded)""",
        """SELECT 1 FROM memory JOIN message ON message.key = memory.record
            WHERE memory.organization_id = %(organization_id)s""",
        "UPDATE counters SET messages = 0",
        "INSERT INTO vector_state (organization_id) VALUES (%(other)s)",
        """INSERT INTO unembedded (organization_id, key) SELECT organization_id, key FROM message
            WHERE organization_id > %(organization_id)s""",
    ],
)
def test_a_statement_that_is_for_several_organisations_is_seen(
    parted: psycopg.Connection[Any], statement: str
) -> None:
    assert not is_for_one_organization(parted, statement)
