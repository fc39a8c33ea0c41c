"""A replica answers reads, and never with less than this process wrote or the setting allows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest

from engram.errors import ConfigurationError, NotFoundError
from engram.model.access import KeyDraft
from engram.settings import Settings
from engram.storage.control.store import hash_secret
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.connection import complete, complete_reading
from engram.storage.postgres.database import LAG_S, REST_S, PostgresDatabase, Replica
from engram.storage.postgres.pool import Pool
from engram.storage.postgres.transactions import OrganizationScope
from engram.storage.rows.database import Connection
from engram.storage.threads import WorkerThreads
from engram.wiring import open_service
from tests.postgres.servers import Server, running_servers, url_of
from tests.postgres.stores import new_organization, opened
from tests.promises import promise
from tests.storage.drafts import ACTOR, append, begin, find, read_texts


@dataclass(frozen=True, slots=True)
class Pair:
    primary: Server
    replica: Server

    @property
    def url(self) -> str:
        return url_of([self.primary])

    @property
    def read_url(self) -> str:
        return url_of([self.replica])


class MovableTime:
    """The time that passes, and some more."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return monotonic() + self.ahead_s


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with running_servers() as servers:
        primary = servers.primary()
        replica = servers.standby(primary)
        primary.wait_for_nobody()
        yield Pair(primary, replica)


@pytest.fixture
async def organization(pair: Pair) -> AsyncIterator[OrganizationStore]:
    """Yield an organisation as a process without a replica has it."""
    async with opened(pair.url) as store:
        yield await new_organization(store)


@pytest.fixture
def time() -> MovableTime:
    return MovableTime()


@pytest.fixture
def database(
    pair: Pair, organization: OrganizationStore, time: MovableTime
) -> Iterator[PostgresDatabase]:
    """Yield the database of the organisation, whose replica may be a minute behind."""
    ((number,),) = pair.primary.execute(
        "SELECT number FROM engram.organization WHERE organization_id = %s",
        organization.organization_id,
    )
    threads = WorkerThreads(2)
    primary = Pool(complete(pair.url))
    replica = Pool(complete_reading(pair.read_url))
    pair.replica.wait_until_level(pair.primary)
    yield PostgresDatabase(
        OrganizationScope(number, organization.organization_id),
        pool=primary,
        replica=Replica(replica, primary=primary, staleness_s=60, now=time),
        readers=threads,
        writers=threads,
    )
    threads.stop()
    primary.close()
    replica.close()


def is_replica(connection: Connection) -> bool:
    """Say whether a replica answers."""
    return connection.execute("SELECT pg_is_in_recovery()").fetchone()[0]


async def test_replica_answers_reads(database: PostgresDatabase) -> None:
    assert await database.read(is_replica)


@promise("processes")
@pytest.mark.parametrize("staleness_s", [0.0, 60.0])
async def test_own_writes_are_read_a_hundred_times_of_a_hundred(
    pair: Pair, staleness_s: float
) -> None:
    async with opened(pair.url, read_url=pair.read_url, staleness_s=staleness_s) as store:
        organization = await new_organization(store)
        conversation_id = await begin(organization)

        for number in range(1, 101):
            await append(organization, f"message{number}", to=conversation_id)
            assert (await organization.counters()).messages == number
            found = await find(organization, f"message{number}")
            assert number in found.sequences


async def test_own_write_is_read_while_the_replica_stands_still(pair: Pair) -> None:
    async with opened(pair.url, read_url=pair.read_url, staleness_s=60) as store:
        organization = await new_organization(store)
        with pair.replica.standing_still():
            conversation_id = await begin(organization, "mine")

            assert await read_texts(organization, conversation_id) == ["mine"]


@promise("processes")
async def test_write_of_another_process_is_read_at_once_when_nothing_old_is_allowed(
    pair: Pair, organization: OrganizationStore
) -> None:
    async with opened(pair.url, read_url=pair.read_url, staleness_s=0) as store:
        here = await store.organization(organization.organization_id)
        with pair.replica.standing_still():
            conversation_id = await begin(organization, "theirs")

            assert await read_texts(here, conversation_id) == ["theirs"]


async def test_replica_that_stands_still_answers_for_as_long_as_is_allowed(
    pair: Pair, organization: OrganizationStore, database: PostgresDatabase, time: MovableTime
) -> None:
    await database.read(is_replica)
    with pair.replica.standing_still():
        await append(organization, "written elsewhere")

        assert await database.read(is_replica)
        time.ahead_s += 61
        assert not await database.read(is_replica)
        await append(organization, "written again")

    pair.replica.wait_until_level(pair.primary)
    time.ahead_s += 61
    assert await database.read(is_replica)


async def test_what_was_read_from_the_primary_is_not_taken_back_by_the_replica(
    pair: Pair, organization: OrganizationStore, database: PostgresDatabase, time: MovableTime
) -> None:
    with pair.replica.standing_still():
        await append(organization, "written elsewhere")
        time.ahead_s += 61

        assert not await database.read(is_replica)
        assert not await database.read(is_replica)


async def test_organisation_without_new_writes_is_read_from_a_replica_that_lags(
    pair: Pair, organization: OrganizationStore, database: PostgresDatabase, time: MovableTime
) -> None:
    async with opened(pair.url) as store:
        with pair.replica.standing_still():
            await append(await new_organization(store), "of another organisation")
            time.ahead_s += 61

            assert await database.read(is_replica)


async def test_lag_is_logged_once(
    pair: Pair,
    organization: OrganizationStore,
    database: PostgresDatabase,
    time: MovableTime,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pair.replica.standing_still():
        await append(organization, "written elsewhere")
        time.ahead_s += 61
        for _ in range(4):
            await database.read(is_replica)
            time.ahead_s += LAG_S

    assert warnings_in(caplog) == ["the replica lags behind; the primary answers"]


async def test_primary_answers_when_the_replica_ends_a_read(
    pair: Pair, database: PostgresDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    def read_and_be_ended(connection: Connection) -> bool:
        if is_replica(connection):
            (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
            pair.replica.execute("SELECT pg_terminate_backend(%s, 10000)", pid)
        return is_replica(connection)

    assert not await database.read(read_and_be_ended)
    assert len(warnings_in(caplog)) == 1


async def test_primary_answers_while_the_replica_is_down(
    pair: Pair,
    database: PostgresDatabase,
    time: MovableTime,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await database.read(is_replica)
    await asyncio.to_thread(pair.replica.kill)

    for _ in range(3):
        assert not await database.read(is_replica)
        time.ahead_s += REST_S
    assert len(warnings_in(caplog)) == 1

    await asyncio.to_thread(pair.replica.start)
    await asyncio.to_thread(pair.replica.wait_until_level, pair.primary)
    assert await database.read(is_replica)


@promise("revocation")
async def test_revoked_key_and_deleted_organisation_do_not_live_on_in_the_replica(
    pair: Pair,
) -> None:
    async with opened(pair.url, read_url=pair.read_url, staleness_s=60) as store:
        organization = await new_organization(store)
        organization_id = organization.organization_id
        key = await store.control.create_key(organization_id, KeyDraft(name="k"), actor=ACTOR)
        async with opened(pair.url) as elsewhere:
            with pair.replica.standing_still():
                await elsewhere.control.revoke_key(organization_id, key.key.id, actor=ACTOR)
                found = await store.control.find_key(hash_secret(key.secret))
                assert found is not None
                assert found.key.revoked_at is not None

                await elsewhere.control.delete_organization(organization_id, actor=ACTOR)
                assert await store.control.find_key(hash_secret(key.secret)) is None
                with pytest.raises(NotFoundError):
                    await append(organization, "too late")


async def test_replica_of_no_database_is_refused(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_read_url="postgresql://replica/engram")

    with pytest.raises(ConfigurationError, match="ENGRAM_DATABASE_READ_URL"):
        async with open_service(settings):
            pass


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
