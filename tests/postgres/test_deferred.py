"""Statements whose answers nobody reads fail their transaction before its caller is told of success."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import psycopg
import pytest

from engram.errors import NotFoundError, StorageError
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.connection import complete
from engram.storage.postgres.database import PostgresDatabase
from engram.storage.postgres.pool import Pool
from engram.storage.postgres.transactions import OrganizationScope
from engram.storage.rows.database import Connection
from engram.storage.threads import WorkerThreads
from tests.postgres.databases import as_owner
from tests.postgres.stores import new_organization, opened
from tests.promises import promise

_ADD = "INSERT INTO audit_name (organization_id, name) VALUES (:organization_id, :name)"
_NAMES = "SELECT name FROM audit_name WHERE name LIKE 'name %' ORDER BY name"


@pytest.fixture
async def organization(database_url: str) -> AsyncIterator[OrganizationStore]:
    async with opened(database_url) as store:
        yield await new_organization(store)


@pytest.fixture
def database(database_url: str, organization: OrganizationStore) -> Iterator[PostgresDatabase]:
    """Yield the database of an organisation, in which one thread writes."""
    threads = WorkerThreads(1)
    with closing(Pool(complete(database_url))) as pool:
        yield PostgresDatabase(
            scope_of(database_url, organization), pool=pool, readers=threads, writers=threads
        )
        threads.stop()


def scope_of(url: str, organization: OrganizationStore) -> OrganizationScope:
    with psycopg.connect(as_owner(url)) as driver:
        row = driver.execute(
            "SELECT number FROM engram.organization WHERE organization_id = %s",
            [organization.organization_id],
        ).fetchone()
    assert row is not None
    return OrganizationScope(row[0], organization.organization_id)


def add(connection: Connection, *names: str) -> str:
    for name in names:
        connection.execute(_ADD, {"organization_id": 1, "name": name})
    return names[-1]


def names_in(connection: Connection) -> list[str]:
    return [name for (name,) in connection.execute(_NAMES)]


@promise("durable")
async def test_a_write_that_fails_unread_is_not_acknowledged_and_leaves_nothing(
    database: PostgresDatabase,
) -> None:
    with pytest.raises(StorageError):
        await database.write(lambda connection: add(connection, "name 1", "name 1", "name 2"))

    assert await database.read(names_in) == []
    assert await database.write(lambda connection: add(connection, "name 1")) == "name 1"
    assert await database.read(names_in) == ["name 1"]


@promise("durable")
async def test_a_write_that_fails_unread_takes_none_of_its_group_with_it(
    database: PostgresDatabase,
) -> None:
    # The first keeps the only writer busy until the others wait, so that these share a transaction. Enough
    # of them come before and after the failure for the driver to prepare their statement in between.
    names = [[f"name {number:02}"] * (2 if number in (3, 9) else 1) for number in range(20)]
    begun = [database.write(lambda connection, each=each: add(connection, *each)) for each in names]
    outcomes = await asyncio.gather(*begun, return_exceptions=True)

    failed = [isinstance(each, StorageError) for each in outcomes]
    assert [place for place, is_failed in enumerate(failed) if is_failed] == [3, 9]
    assert await database.read(names_in) == [
        f"name {number:02}" for number in range(20) if number not in (3, 9)
    ]


async def test_nothing_is_written_for_an_organisation_that_is_gone(
    database: PostgresDatabase, database_url: str
) -> None:
    with psycopg.connect(as_owner(database_url)) as driver:
        driver.execute("UPDATE engram.meta SET is_deleted = 1")

    with pytest.raises(NotFoundError):
        await database.write(lambda connection: add(connection, "name 1"))
    with pytest.raises(NotFoundError):
        await database.read(lambda _: None)

    with psycopg.connect(as_owner(database_url)) as driver:
        assert driver.execute("SELECT * FROM engram.audit_name WHERE name = 'name 1'").rowcount == 0


async def test_a_connection_that_was_lost_while_idle_is_replaced_and_asked_again(
    database: PostgresDatabase, database_url: str
) -> None:
    await database.write(lambda connection: add(connection, "name 1"))
    with psycopg.connect(as_owner(database_url), autocommit=True) as driver:
        driver.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'engram' AND pid <> pg_backend_pid()"
        )

    await database.write(lambda connection: add(connection, "name 2"))

    assert await database.read(names_in) == ["name 1", "name 2"]


async def test_a_transaction_leaves_nothing_behind_in_its_session(database_url: str) -> None:
    with closing(Pool(complete(database_url))) as pool:
        async with opened(database_url) as store:
            scope = scope_of(database_url, await new_organization(store))
        transaction, _ = pool.begin(scope.begin_write)
        during = transaction.execute("SELECT current_user, current_schemas(false)").fetchone()
        transaction.commit()
        after = transaction.execute(
            "SELECT current_user, current_setting('engram.organization_id', true),"
            " current_setting('lock_timeout')"
        ).fetchone()
        pool.give_back(transaction)

    assert (during[0], during[1][0]) == ("engram_app", "engram")
    assert after == ("engram_server", "", "0")


async def test_a_value_larger_than_the_buffers_of_a_connection_arrives(
    database: PostgresDatabase,
) -> None:
    large = bytes(32_000_000)

    def send(connection: Connection) -> int:
        length = "SELECT octet_length(CAST(:large AS bytea))"
        return connection.execute(length, {"large": large}).fetchone()[0]

    assert await database.write(send) == len(large)
