"""An organisation's rows are out of reach for every transaction that does not name it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from engram.clock import RandomIds, SystemClock
from engram.storage.postgres.connection import PostgresConnection, set_up
from engram.storage.postgres.store import PostgresStore
from engram.storage.tables.queries import load_queries
from tests.postgres.stores import new_organization
from tests.storage.drafts import begin
from tests.storage.memory_drafts import note

CONTROL = {"organization", "api_key", "control_audit", "removal", "migration"}
"""Tables that are no organisation's."""


@pytest.fixture
async def filled(database_url: str) -> str:
    """Return a database in which two organisations have rows."""
    store = PostgresStore(database_url, clock=SystemClock(), ids=RandomIds())
    await store.open()
    for _ in range(2):
        organization = await new_organization(store)
        await begin(organization, "apple", "pear", tags=("fruit",))
        await note(organization, "plum")
    await store.close()
    return database_url


@pytest.fixture
def application(filled: str) -> Iterator[PostgresConnection]:
    """Yield a connection with the rights that requests have, which names no organisation."""
    with psycopg.connect(filled, autocommit=True) as driver:
        set_up(driver)
        yield PostgresConnection(driver)


def tenant_tables(connection: PostgresConnection) -> list[str]:
    rows = connection.execute(
        "SELECT table_name FROM information_schema.columns"
        " WHERE table_schema = 'engram' AND column_name = 'organization_id'"
        " AND data_type = 'bigint'"
    )
    return [name for (name,) in rows]


def count(connection: PostgresConnection, table: str) -> int:
    return len(connection.execute(f"SELECT 1 FROM {table}").fetchall())  # noqa: S608 - names of tables


def choose(connection: PostgresConnection, number: str) -> None:
    connection.execute(
        "SELECT set_config('engram.organization_id', :number, false)", {"number": number}
    )


async def test_who_names_no_organisation_sees_no_row_of_any(
    application: PostgresConnection,
) -> None:
    tables = tenant_tables(application)

    assert len(tables) > 25
    assert {table: count(application, table) for table in tables} == dict.fromkeys(tables, 0)
    choose(application, "")
    assert not any(count(application, table) for table in tables)


async def test_who_names_one_sees_no_row_of_another(application: PostgresConnection) -> None:
    choose(application, "1")
    statement = load_queries("messages.sql")["load_range"]
    values = {"first": 0, "last": 2**62}

    own = application.execute(statement, {**values, "organization_id": 1}).fetchall()
    others = application.execute(statement, {**values, "organization_id": 2}).fetchall()

    assert (len(own), len(others)) == (3, 0)
    for table in tenant_tables(application):
        rows = application.execute(f"SELECT DISTINCT organization_id FROM {table}")  # noqa: S608 - names of tables
        assert {number for (number,) in rows} <= {1}


async def test_no_row_is_written_for_another(application: PostgresConnection) -> None:
    choose(application, "1")
    changed = application.execute("UPDATE message SET characters = 0 WHERE organization_id = 2")
    deleted = application.execute("DELETE FROM conversation WHERE organization_id = 2")

    assert (changed.rowcount, deleted.rowcount) == (0, 0)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        application.execute("INSERT INTO counters (organization_id) VALUES (3)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        application.execute("UPDATE counters SET organization_id = 2")


async def test_requests_run_without_the_rights_of_an_owner(
    application: PostgresConnection,
) -> None:
    for statement in (
        "ALTER TABLE message DISABLE ROW LEVEL SECURITY",
        "DROP TABLE message",
        "DELETE FROM migration",
        "TRUNCATE message",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            application.execute(statement)
    role = application.execute(
        "SELECT rolcanlogin, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    assert role == (False, False, False)


async def test_every_table_is_of_all_or_walled(application: PostgresConnection) -> None:
    rows = application.execute(
        """SELECT relname, relrowsecurity AND relforcerowsecurity,
            (SELECT count(*) FROM pg_policy WHERE polrelid = pg_class.oid)
        FROM pg_class
        WHERE relnamespace = 'engram'::regnamespace AND relkind IN ('r', 'p')
            AND NOT relispartition"""
    ).fetchall()
    tenants = set(tenant_tables(application))

    careless = [name for name, walled, _ in rows if name in tenants and not walled]
    without = [name for name, _, policies in rows if name in tenants and not policies]

    assert (careless, without) == ([], [])
    assert {name for name, _, _ in rows} - tenants >= CONTROL


async def test_every_key_and_index_of_organisations_rows_begins_with_the_organisation(
    application: PostgresConnection,
) -> None:
    indexes = application.execute(
        """SELECT owner.relname, index.relname
        FROM pg_index
        JOIN pg_class AS owner ON owner.oid = indrelid
        JOIN pg_class AS index ON index.oid = indexrelid
        JOIN pg_attribute ON attrelid = indrelid AND attname = 'organization_id'
        WHERE owner.relnamespace = 'engram'::regnamespace AND atttypid = 'bigint'::regtype
            AND indkey[0] <> attnum AND NOT owner.relispartition"""
    )
    foreign_keys = application.execute(
        """SELECT conname FROM pg_constraint
        JOIN pg_attribute ON attrelid = conrelid AND attname = 'organization_id'
        WHERE contype = 'f' AND connamespace = 'engram'::regnamespace
            AND atttypid = 'bigint'::regtype AND conkey[1] <> attnum"""
    )

    assert (indexes.fetchall(), foreign_keys.fetchall()) == ([], [])
