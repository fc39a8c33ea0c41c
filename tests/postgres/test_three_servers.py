"""Organisations spread over servers by hash partitions: each is whole on one, and nobody can tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from engram.clock import RandomIds
from engram.errors import ConflictError, NotFoundError, StoreUnavailableError
from engram.model.access import KeyDraft, OrganizationDraft
from engram.storage.migrations import Migration
from engram.storage.organization import OrganizationStore
from engram.storage.postgres import logins
from engram.storage.postgres import migrate as migrations
from engram.storage.postgres.migrate import load_migrations, migrate
from engram.storage.postgres.sharding import read_layout, shard
from engram.storage.postgres.store import PostgresStore
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.postgres.databases import as_owner
from tests.postgres.furnished import (
    add_conversations,
    add_documents,
    add_memories,
    authenticates,
    furnish,
    search,
)
from tests.postgres.moves import opened, rows_of, sqlite_store, to_postgres, to_sqlite
from tests.postgres.servers import Server
from tests.postgres.spread import SpreadServers, spread
from tests.storage.drafts import ACTOR, append, begin, count_holders, findings, read_texts
from tests.storage.test_append import (
    test_a_message_comes_back_with_everything_it_was_given,
    test_a_quota_of_messages_is_never_passed,
    test_a_refused_append_leaves_no_trace,
    test_a_repeated_key_returns_the_first_receipt_and_stores_nothing,
    test_callers_with_one_key_store_once,
    test_concurrent_appends_get_sequences_of_their_own,
)
from tests.storage.test_deletion import (
    test_a_conversation_that_grows_while_it_is_deleted_is_deleted_whole,
    test_a_deleted_conversation_is_gone_in_every_process,
    test_two_deletions_at_once_remove_it_once,
)
from tests.storage.test_documents import test_the_same_bytes_in_the_same_project_are_stored_once
from tests.storage.test_memories import (
    test_memories_are_found_by_their_words,
    test_once_holds_between_processes,
    test_two_processes_that_store_at_once_lose_nothing,
)
from tests.storage.test_vectors import (
    test_another_process_sees_vectors_added_after_it_has_searched,
)

__all__ = [
    "spread",
    "test_a_conversation_that_grows_while_it_is_deleted_is_deleted_whole",
    "test_a_deleted_conversation_is_gone_in_every_process",
    "test_a_message_comes_back_with_everything_it_was_given",
    "test_a_quota_of_messages_is_never_passed",
    "test_a_refused_append_leaves_no_trace",
    "test_a_repeated_key_returns_the_first_receipt_and_stores_nothing",
    "test_another_process_sees_vectors_added_after_it_has_searched",
    "test_callers_with_one_key_store_once",
    "test_concurrent_appends_get_sequences_of_their_own",
    "test_memories_are_found_by_their_words",
    "test_once_holds_between_processes",
    "test_the_same_bytes_in_the_same_project_are_stored_once",
    "test_two_deletions_at_once_remove_it_once",
    "test_two_processes_that_store_at_once_lose_nothing",
]
"""The fixture, and the part of the contract that concurrent processes and rare statements are in."""


@pytest.fixture
def database_url(database_url: str) -> str:
    """Return the address for the owner of the tables, who alone may spread them."""
    return as_owner(database_url)


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands still."""
    return FakeClock()


def process_of(spread: SpreadServers, clock: FakeClock) -> PostgresStore:
    """Return the installation as one more process has it."""
    return PostgresStore(spread.url, clock=clock, ids=RandomIds())


@pytest.fixture
async def store(spread: SpreadServers, clock: FakeClock) -> AsyncIterator[PostgresStore]:
    """Yield an open store; other tests have organisations in it too."""
    async with opened(process_of(spread, clock)) as store:
        yield store


@pytest.fixture
async def organization(store: PostgresStore) -> OrganizationStore:
    """Return the empty store of a new organisation."""
    return await create(store)


@pytest.fixture
async def elsewhere(
    organization: OrganizationStore, spread: SpreadServers, clock: FakeClock
) -> AsyncIterator[OrganizationStore]:
    """Yield the same organisation as another process has it."""
    async with opened(process_of(spread, clock)) as store:
        yield await store.organization(organization.organization_id)


async def create(store: Store) -> OrganizationStore:
    """Return the empty store of a new organisation."""
    created = await store.control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)
    return await store.organization(created.id)


async def create_apart(
    spread: SpreadServers, store: Store
) -> tuple[OrganizationStore, OrganizationStore]:
    """Return two organisations that are on different servers."""
    first = await create(store)
    here = spread.shard_of(first.organization_id)
    while True:
        other = await create(store)
        if spread.shard_of(other.organization_id) is not here:
            return first, other


def tenant_tables(spread: SpreadServers) -> tuple[str, ...]:
    """Return the tables of organisations."""
    with psycopg.connect(spread.shard_urls[0]) as driver:
        return read_layout(driver).tenant


async def test_organisations_are_on_different_servers_and_found_again(
    spread: SpreadServers, store: PostgresStore
) -> None:
    organizations = [await create(store) for _ in range(8)]
    for number, each in enumerate(organizations):
        await begin(each, f"tanuki are tricksters, says number{number}")

    places = [spread.counts("message", each.organization_id) for each in organizations]

    assert {tuple(sorted(counts)) for counts in places} == {(0, 1)}
    assert {tuple(counts) for counts in places} == {(0, 1), (1, 0)}
    for number, each in enumerate(organizations):
        assert await count_holders(each, "tanuki") == 1
        assert await count_holders(each, f"number{number}") == 1
        assert await count_holders(each, f"number{number + 1}") == 0


async def test_everything_an_organisation_has_is_on_one_server_and_goes_with_it(
    spread: SpreadServers, store: PostgresStore
) -> None:
    organization, other = await create_apart(spread, store)
    for each in (organization, other):
        await add_conversations(each, messages=40)
        await add_memories(each)
        await add_documents(each)
    place = spread.shards.index(spread.shard_of(organization.organization_id))
    tables = tenant_tables(spread)

    kept = {table: spread.counts(table, organization.organization_id) for table in tables}
    assert await findings(organization) == await findings(other) == []
    assert {table for table, counts in kept.items() if counts[1 - place]} == set()
    # Too little was said for a dictionary.
    assert {table for table, counts in kept.items() if not counts[place]} == {"dictionary"}

    number = spread.number_of(organization.organization_id)
    await store.control.delete_organization(organization.organization_id, actor=ACTOR)

    for table in tables:
        left = f"SELECT count(*) FROM engram.{table} WHERE organization_id = %s"  # noqa: S608 a name of ours
        assert [spread.ask(server, left, number) for server in spread.shards] == [0, 0]
    with pytest.raises(NotFoundError):
        await begin(organization)
    assert await findings(other) == []


async def test_a_moved_store_is_found_as_before_and_comes_back_as_it_was(
    spread: SpreadServers, clock: FakeClock, tmp_path: Path
) -> None:
    async with opened(sqlite_store(tmp_path / "old")) as old:
        furnished = await furnish(old)
        before = await search(await old.organization(furnished.organization_id))

    await to_postgres(tmp_path / "old", spread.url)

    async with opened(process_of(spread, clock)) as store:
        organization = await store.organization(furnished.organization_id)
        assert await search(organization) == before
        assert await authenticates(store, furnished.secret)
        assert not await authenticates(store, furnished.revoked)
        assert await findings(organization) == []
    await to_sqlite(spread.url, tmp_path / "new")
    rows = [rows_of(tmp_path / name, furnished.organization_id) for name in ("old", "new")]
    assert rows[0] == rows[1]


async def test_keys_open_organisations_on_any_server(
    spread: SpreadServers, store: PostgresStore
) -> None:
    for each in await create_apart(spread, store):
        made = await store.control.create_key(
            each.organization_id, KeyDraft(name="one"), actor=ACTOR
        )
        assert await authenticates(store, made.secret)
        await store.control.revoke_key(each.organization_id, made.key.id, actor=ACTOR)
        assert not await authenticates(store, made.secret)


async def test_a_dead_server_keeps_only_its_own_organisations_from_being_served(
    spread: SpreadServers, store: PostgresStore
) -> None:
    lost, served = await create_apart(spread, store)
    conversations = [await begin(each, "before") for each in (lost, served)]
    dead = spread.shard_of(lost.organization_id)

    dead.kill()
    try:
        with pytest.raises(StoreUnavailableError):
            await append(lost, "meanwhile", to=conversations[0])
        with pytest.raises(StoreUnavailableError):
            await read_texts(lost, conversations[0])
        # One server is enough for it, so no transaction is on two.
        await append(served, "meanwhile", to=conversations[1])
    finally:
        dead.start()

    await append(lost, "after", to=conversations[0])
    assert await read_texts(lost, conversations[0]) == ["before", "after"]
    assert await read_texts(served, conversations[1]) == ["before", "meanwhile"]


async def test_writers_of_many_organisations_and_processes_lose_nothing(
    spread: SpreadServers, store: PostgresStore, clock: FakeClock
) -> None:
    organizations = await create_apart(spread, store)
    async with opened(process_of(spread, clock)) as second:
        doubled = [
            (each, await second.organization(each.organization_id)) for each in organizations
        ]
        conversations = [await begin(each) for each in organizations]

        await asyncio.gather(
            *(
                append(each, f"text {number}", to=conversation)
                for pair, conversation in zip(doubled, conversations, strict=True)
                for each in pair
                for number in range(10)
            )
        )

    for each, conversation in zip(organizations, conversations, strict=True):
        assert sorted(await read_texts(each, conversation)) == sorted(
            [f"text {number}" for number in range(10)] * 2
        )
        assert await findings(each) == []


async def test_requests_see_the_rows_of_the_organisation_they_name_alone(
    spread: SpreadServers, store: PostgresStore
) -> None:
    first, other = await create_apart(spread, store)
    for each in (first, other):
        await begin(each, "secret")
    number = spread.number_of(other.organization_id)

    with psycopg.connect(spread.url, autocommit=True) as driver:
        driver.execute("SET ROLE engram_app")
        for table in tenant_tables(spread):
            everything = f"SELECT count(*) FROM engram.{table}".encode()  # noqa: S608 a name of ours
            assert driver.execute(everything).fetchone() == (0,)
        with driver.transaction():
            driver.execute(f"SET LOCAL engram.organization_id = {number}".encode())
            ids = driver.execute("SELECT DISTINCT organization_id FROM engram.message").fetchall()
        assert ids == [(number,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            driver.execute("SELECT * FROM engram_shard_0.message")


async def test_parts_that_are_defined_anew_lead_to_the_same_rows(
    spread: SpreadServers, clock: FakeClock
) -> None:
    async with opened(process_of(spread, clock)) as store:
        organization = await create(store)
        conversation = await begin(organization, "before")
        await add_memories(organization)

    shard(spread.url, spread.shard_urls)

    async with opened(process_of(spread, clock)) as store:
        organization = await store.organization(organization.organization_id)
        await append(organization, "after", to=conversation)
        await add_memories(organization)
        assert await read_texts(organization, conversation) == ["before", "after"]
        assert await findings(organization) == []


def test_servers_keep_their_order(spread: SpreadServers) -> None:
    with pytest.raises(ConflictError, match="the same order"):
        shard(spread.url, spread.shard_urls[::-1])
    with pytest.raises(ConflictError, match="over 2 databases"):
        shard(spread.url, spread.shard_urls[:1])

    assert spread.ask(spread.coordinator, "SELECT to_regclass('engram_shard_1.meta') IS NOT NULL")


def test_the_coordinator_is_no_shard(spread: SpreadServers) -> None:
    with pytest.raises(ConflictError, match="its own shards"):
        shard(spread.url, [spread.url, spread.shard_urls[1]])


async def test_a_database_with_organisations_is_neither_spread_nor_a_shard(
    spread: SpreadServers, database_url: str, clock: FakeClock
) -> None:
    async with opened(PostgresStore(database_url, clock=clock, ids=RandomIds())) as store:
        await begin(await create(store), "stays where it is")

    with pytest.raises(ConflictError, match="has organisations"):
        shard(database_url, spread.shard_urls)
    with pytest.raises(ConflictError, match="of its own"):
        shard(spread.url, [spread.shard_urls[0], database_url])


def test_only_the_command_brings_a_spread_database_forward(spread: SpreadServers) -> None:
    with psycopg.connect(spread.url) as driver:
        driver.execute("DELETE FROM engram.migration WHERE version > 3")

        with pytest.raises(ConflictError, match="engram postgres shard"):
            migrate(driver, load_migrations())

        driver.rollback()


@pytest.fixture
def three_databases(postgres_server: Server) -> Iterator[list[str]]:
    """Yield the addresses of databases without tables, for what the other tests must not share."""
    names = [f"engram_upgraded_{number}" for number in range(3)]
    for name in names:
        postgres_server.execute(f"CREATE DATABASE {name}")
    yield [postgres_server.url(name) for name in names]
    for name in names:
        postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_an_upgrade_reaches_every_server_and_keeps_the_rows(
    three_databases: list[str], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, *servers = three_databases
    shard(url, servers)
    async with opened(PostgresStore(url, clock=clock, ids=RandomIds())) as store:
        organization = await create(store)
        conversation = await begin(organization, "before")
    # Parted tables would refuse the index.
    step = """ALTER TABLE message ADD COLUMN mood text;
        CREATE UNIQUE INDEX moods ON message (organization_id, key, mood)"""
    newer = (*load_migrations(), Migration(len(load_migrations()) + 1, "mood.sql", step))
    for module in (migrations, logins):
        monkeypatch.setattr(module, "load_migrations", lambda: newer)

    shard(url, servers)

    for each in three_databases:
        with psycopg.connect(each) as driver:
            assert driver.execute("SELECT count(mood) FROM engram.message").fetchone() == (0,)
    async with opened(PostgresStore(url, clock=clock, ids=RandomIds())) as store:
        organization = await store.organization(organization.organization_id)
        await append(organization, "after", to=conversation)
        assert await read_texts(organization, conversation) == ["before", "after"]
