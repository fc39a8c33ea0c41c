"""An organisation's rows are out of reach for every transaction that does not name it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from engram.clock import RandomIds, SystemClock
from engram.model.access import KeyDraft
from engram.storage.postgres.connection import PostgresConnection, set_up
from engram.storage.postgres.store import PostgresStore
from engram.storage.postgres.transactions import ControlReach
from engram.storage.rows.queries import load_queries
from tests.postgres.stores import new_organization
from tests.promises import promise
from tests.storage.drafts import ACTOR, begin
from tests.storage.memory_drafts import note

pytestmark = promise("apart")

CONTROL = {
    "organization",
    "api_key",
    "key_address",
    "key_day",
    "page_session",
    "usage_day",
    "control_audit",
    "removal",
    "move",
    "home",
    "relocation",
    "control_state",
}
"""Tables that are no organisation's, and tell of all; `migration` tells of none."""


@pytest.fixture
async def filled(database_url: str) -> str:
    """Return a database in which two organisations have rows."""
    store = PostgresStore(database_url, clock=SystemClock(), ids=RandomIds())
    await store.open()
    for _ in range(2):
        organization = await new_organization(store)
        key = KeyDraft(name="laptop")
        await store.control.create_key(organization.organization_id, key, actor=ACTOR)
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
    statement = load_queries("content/content.sql")["load_range"]
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


async def test_a_transaction_of_an_organisation_sees_no_control_table(
    application: PostgresConnection,
) -> None:
    choose(application, "1")

    assert {table: count(application, table) for table in CONTROL} == dict.fromkeys(CONTROL, 0)


@pytest.mark.parametrize("number", ["", "1"])
async def test_a_transaction_of_an_organisation_changes_no_control_table(
    application: PostgresConnection, number: str
) -> None:
    choose(application, number)

    for statement in (
        "UPDATE organization SET name = 'mine'",
        "DELETE FROM api_key",
        "UPDATE control_state SET revision = 0",
        "DELETE FROM control_audit",
    ):
        assert application.execute(statement).rowcount == 0
    for statement in (
        "INSERT INTO removal VALUES (1, 'org_x')",
        (
            "INSERT INTO organization (organization_id, name, is_local, created_at)"
            " VALUES ('org_x', 'x', 0, 0)"
        ),
        (
            "INSERT INTO control_audit (audit_id, organization_id, at, actor, action, details)"
            " VALUES ('aud_x', 'org_x', 0, 'x', 'x', '{}')"
        ),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            application.execute(statement)


async def test_a_presented_secret_reaches_its_own_key_and_organisation_alone(
    application: PostgresConnection,
) -> None:
    application.execute("BEGIN")
    application.execute("SET LOCAL engram.control = 'all'")
    secrets = application.execute("SELECT secret_hash, organization_id FROM api_key").fetchall()

    ControlReach().to_secret(application, secrets[0][0])

    assert len(secrets) == 2
    keys = application.execute("SELECT organization_id FROM api_key").fetchall()
    organizations = application.execute("SELECT organization_id FROM organization").fetchall()
    assert keys == organizations == [(secrets[0][1],)]


async def test_an_unknown_secret_reaches_nothing(application: PostgresConnection) -> None:
    application.execute("BEGIN")
    application.execute("SET LOCAL engram.control = 'all'")

    ControlReach().to_secret(application, "0" * 64)

    assert {table: count(application, table) for table in CONTROL} == dict.fromkeys(CONTROL, 0)


async def test_reading_of_an_organisation_reaches_no_other(application: PostgresConnection) -> None:
    application.execute("BEGIN")
    application.execute("SET LOCAL engram.control = 'all'")
    (own, _), _ = application.execute("SELECT organization_id, name FROM organization").fetchall()

    ControlReach().to_organization(application, own)

    for table in ("organization", "api_key", "control_audit"):
        rows = application.execute(f"SELECT DISTINCT organization_id FROM {table}")  # noqa: S608 - names of tables
        assert rows.fetchall() == [(own,)]
    assert count(application, "move") == count(application, "control_state") == 0


async def test_what_owners_do_for_others_is_done_for_the_organisation_that_is_named(
    application: PostgresConnection,
) -> None:
    choose(application, "1")

    for statement in (
        "SELECT add_near_partition(2)",
        "SELECT finish_near_partition(2, 1, 384)",
        "SELECT drop_near_partition(1)",
        "SELECT drop_near_partition(2)",
        "SELECT skip_numbers('memory', 1000000)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            application.execute(statement)


async def test_a_partition_that_is_named_itself_is_walled_too(
    application: PostgresConnection,
) -> None:
    with_organization = "SET LOCAL engram.organization_id = 1"
    application.execute("BEGIN")
    application.execute(with_organization)
    application.execute("SELECT add_near_partition(1)")
    application.execute(
        "INSERT INTO near_vector_1 (organization_id, embedder, seq, key, near)"
        " VALUES (1, 1, 1, 1, '[1,2]')"
    )
    application.execute("COMMIT")

    choose(application, "2")

    assert count(application, "near_vector_1") == 0


async def test_policies_hold_no_sub_select(application: PostgresConnection) -> None:
    policies = application.execute(
        """SELECT polname, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)
        FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid
        WHERE relnamespace = 'engram'::regnamespace"""
    ).fetchall()

    assert len(policies) > 30
    assert [row for row in policies if "SELECT" in f"{row[1]} {row[2]}"] == []


async def test_every_table_is_of_all_or_walled(application: PostgresConnection) -> None:
    rows = application.execute(
        """SELECT relname, relrowsecurity AND relforcerowsecurity,
            (SELECT count(*) FROM pg_policy WHERE polrelid = pg_class.oid)
        FROM pg_class
        WHERE relnamespace = 'engram'::regnamespace AND relkind IN ('r', 'p')
            AND NOT relispartition"""
    ).fetchall()
    tenants = set(tenant_tables(application))

    careless = [name for name, walled, _ in rows if name != "migration" and not walled]
    without = [name for name, _, policies in rows if name != "migration" and not policies]

    assert (careless, without) == ([], [])
    assert {name for name, _, _ in rows} - tenants == {*CONTROL, "migration"}


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

    # Only due work is looked for in all organisations at once.
    assert (indexes.fetchall(), foreign_keys.fetchall()) == ([("due", "due_at")], [])
