"""A statement that does not come to its end is ended, and the next is served."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from engram.clock import RandomIds, SystemClock
from engram.errors import (
    StorageError,
    StoreBusyError,
    StoreCorruptError,
    StoreFullError,
    StoreUnavailableError,
)
from engram.storage.postgres.connection import set_up
from engram.storage.postgres.store import PostgresStore
from engram.storage.rows.database import Connection
from tests.postgres.databases import as_owner
from tests.postgres.stores import new_organization, opened
from tests.storage.drafts import ACTOR, append, begin

SLOW = """
CREATE FUNCTION engram.dawdle() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(3600); RETURN OLD; END $$;
CREATE TRIGGER dawdle BEFORE {change} ON engram.{table}
    FOR EACH ROW EXECUTE FUNCTION engram.dawdle()
"""


def make_slow(url: str, *, change: str, table: str) -> None:
    with psycopg.connect(as_owner(url), autocommit=True) as driver:
        driver.execute(SLOW.format(change=change, table=table).encode())


def settings_of(url: str, **options: float) -> dict[str, str]:
    with psycopg.connect(url, autocommit=True) as driver:
        set_up(driver, **options)
        names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        rows = [driver.execute(f"SHOW {name}".encode()).fetchone() for name in names]
    return {name: row[0] for name, row in zip(names, rows, strict=True) if row is not None}


async def test_a_runaway_statement_is_ended_with_an_error_that_names_the_setting(
    database_url: str,
) -> None:
    store = PostgresStore(database_url, clock=SystemClock(), ids=RandomIds(), statement_s=1)
    await store.open()
    organization = await new_organization(store)
    conversation_id = await begin(organization, "one")
    make_slow(database_url, change="INSERT", table="audit")

    with pytest.raises(StoreBusyError, match="ENGRAM_DATABASE_TIMEOUT"):
        await append(organization, "two", to=conversation_id)

    assert (await organization.counters()).messages == 1
    await store.close()


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("58030", StoreUnavailableError),
        ("58000", StoreUnavailableError),
        ("53100", StoreFullError),
        ("XX001", StoreCorruptError),
    ],
)
async def test_a_disk_that_fails_is_told_from_one_that_is_full_or_damaged(
    database_url: str, state: str, expected: type[StorageError]
) -> None:
    async with opened(database_url) as store:
        organization = await new_organization(store)
        conversation_id = await begin(organization, "one")
        with psycopg.connect(as_owner(database_url)) as owner:
            owner.execute(
                f"""CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION USING ERRCODE = '{state}'; END $$""".encode()
            )
            owner.execute(
                "CREATE TRIGGER fail BEFORE INSERT ON engram.message EXECUTE FUNCTION fail()"
            )

        with pytest.raises(StorageError) as refused:
            await append(organization, "two", to=conversation_id)

        assert type(refused.value) is expected
        assert (await organization.counters()).messages == 1


async def test_a_process_holds_no_more_connections_than_it_is_allowed(database_url: str) -> None:
    allowed = 5
    async with opened(database_url, connections_max=allowed) as store:
        organizations = [await new_organization(store) for _ in range(6)]
        await asyncio.gather(*(begin(each, "one") for each in organizations))
        await asyncio.gather(*(each.counters() for each in organizations * 4))

        # Those that are not used any more are kept for the next use.
        with psycopg.connect(as_owner(database_url)) as owner:
            held = owner.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE application_name = 'engram' AND datname = current_database()"
            ).fetchone()

    assert held is not None
    assert 1 < held[0] <= allowed


async def test_a_connection_waits_for_nobody_for_ever(database_url: str) -> None:
    assert settings_of(database_url, statement_s=2.5) == {
        "statement_timeout": "2500ms",
        "lock_timeout": "30s",
        "idle_in_transaction_session_timeout": "5min",
    }


async def test_maintenance_has_the_time_it_needs(database_url: str) -> None:
    assert settings_of(database_url)["statement_timeout"] == "0"


async def test_removing_an_organisation_has_the_time_it_needs(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[str]()

    def watch(connection: Connection, *, number: int) -> None:
        del number
        row = connection.execute("SHOW statement_timeout").fetchone()
        seen.append(row[0])

    monkeypatch.setattr("engram.storage.postgres.homes.remove_some", watch)
    async with opened(database_url) as store:
        organization = await new_organization(store)

        await store.control.delete_organization(organization.organization_id, actor=ACTOR)

    assert seen == ["0"]
