"""Organisations at homes: each is whole on one server, and nobody can tell where."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from engram.clock import RandomIds, SystemClock
from engram.errors import (
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    StoreCorruptError,
    StoreUnavailableError,
)
from engram.model.access import KeyDraft, OrganizationDraft
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.home_list import add_home, list_homes, remove_home
from engram.storage.postgres.store import PostgresStore
from tests.fakes import FakeClock
from tests.postgres.databases import as_owner
from tests.postgres.furnished import add_memories, authenticates
from tests.postgres.homes import (
    Installation,
    ask,
    create,
    installation,
    new_database,
    tenant_tables,
    url_for_servers,
)
from tests.postgres.moves import opened, opened_file, to_sqlite
from tests.promises import promise
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
    "installation",
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
def clock() -> FakeClock:
    """Return a clock that stands still."""
    return FakeClock()


def process_of(installation: Installation, clock: FakeClock) -> PostgresStore:
    """Return the installation as one more process has it."""
    return PostgresStore(installation.url, clock=clock, ids=RandomIds())


@pytest.fixture
async def store(installation: Installation, clock: FakeClock) -> AsyncIterator[PostgresStore]:
    """Yield an open store; other tests have organisations in it too."""
    async with opened(process_of(installation, clock)) as store:
        yield store


@pytest.fixture
async def organization(store: PostgresStore) -> OrganizationStore:
    """Return the empty store of a new organisation at a home."""
    return await create(store)


@pytest.fixture
async def elsewhere(
    organization: OrganizationStore, installation: Installation, clock: FakeClock
) -> AsyncIterator[OrganizationStore]:
    """Yield the same organisation as another process has it."""
    async with opened(process_of(installation, clock)) as store:
        yield await store.organization(organization.organization_id)


async def test_an_organisation_is_whole_at_its_home_and_found_there(
    installation: Installation, store: PostgresStore
) -> None:
    places = {home or "control": await create(store, home=home) for home in (None, "one", "two")}

    for name, organization in places.items():
        await begin(organization, f"zeppelin over {name}")
        await add_memories(organization)

    for name, organization in places.items():
        rows = installation.rows("message", organization.organization_id)
        assert list(rows) == [name]
        assert list(installation.rows("word_tail", organization.organization_id)) == [name]
        assert await count_holders(organization, "zeppelin") == 1
        assert await findings(organization) == []


async def test_an_unknown_home_is_refused_and_nothing_is_created(store: PostgresStore) -> None:
    before = await store.control.list_organizations()

    with pytest.raises(NotFoundError, match="no home 'three'"):
        await create(store, home="three")

    assert await store.control.list_organizations() == before


async def test_organisations_say_where_they_are(store: PostgresStore) -> None:
    made = [
        await store.control.create_organization(OrganizationDraft(name="A", home=home), actor=ACTOR)
        for home in (None, "two")
    ]

    assert [each.home for each in made] == [None, "two"]
    assert [await store.control.get_organization(each.id) for each in made] == made


async def test_keys_open_organisations_at_any_home(store: PostgresStore) -> None:
    for organization in [await create(store, home=home) for home in (None, "one", "two")]:
        organization_id = organization.organization_id
        made = await store.control.create_key(organization_id, KeyDraft(name="one"), actor=ACTOR)
        assert await authenticates(store, made.secret)
        await store.control.revoke_key(organization_id, made.key.id, actor=ACTOR)
        assert not await authenticates(store, made.secret)


@promise("apart")
async def test_ids_of_another_tenant_at_the_same_home_are_not_found(store: PostgresStore) -> None:
    mine, theirs = await create(store), await create(store)
    conversation = await begin(theirs, "secret")

    with pytest.raises(NotFoundError):
        await read_texts(mine, conversation)
    with pytest.raises(NotFoundError):
        await append(mine, "more", to=conversation)

    assert await count_holders(mine, "secret") == 0
    assert await read_texts(theirs, conversation) == ["secret"]


@promise("apart")
async def test_row_level_security_holds_at_a_home_as_in_the_control_database(
    installation: Installation, store: PostgresStore
) -> None:
    first, other = await create(store), await create(store)
    for each in (first, other):
        await begin(each, "secret")
    home = installation.homes["one"]
    number = other.tenant.number

    with psycopg.connect(url_for_servers(home), autocommit=True) as driver:
        driver.execute("SET ROLE engram_app")
        for table in tenant_tables(as_owner(url_for_servers(home))):
            everything = f"SELECT count(*) FROM engram.{table}".encode()  # noqa: S608 a name of ours
            assert driver.execute(everything).fetchone() == (0,)
        with driver.transaction():
            driver.execute(f"SET LOCAL engram.organization_id = {number}".encode())
            ids = driver.execute("SELECT DISTINCT organization_id FROM engram.message").fetchall()
        assert ids == [(number,)]


@promise("apart")
async def test_requests_of_an_organisation_cannot_read_the_addresses_of_homes(
    installation: Installation, organization: OrganizationStore
) -> None:
    with psycopg.connect(installation.url, autocommit=True) as driver:
        driver.execute("SET ROLE engram_app")
        with driver.transaction():
            number = organization.tenant.number
            driver.execute(f"SET LOCAL engram.organization_id = {number}".encode())
            for table in ("home", "relocation"):
                found = driver.execute(f"SELECT count(*) FROM engram.{table}".encode())  # noqa: S608 a name of ours
                assert found.fetchone() == (0,)


@promise("failures")
async def test_a_dead_home_keeps_only_its_own_organisations_from_being_served(
    installation: Installation, store: PostgresStore
) -> None:
    lost, served, near = [await create(store, home=home) for home in ("one", "two", None)]
    conversations = [await begin(each, "before") for each in (lost, served, near)]
    dead = installation.homes["one"]

    dead.kill()
    try:
        with pytest.raises(StoreUnavailableError):
            await append(lost, "meanwhile", to=conversations[0])
        with pytest.raises(StoreUnavailableError):
            await read_texts(lost, conversations[0])
        for each, conversation in ((served, conversations[1]), (near, conversations[2])):
            await append(each, "meanwhile", to=conversation)
        assert await store.list_homes_away() == ["one"]
        await store.check(by_writing=True)
        assert (await create(store, home="two")).organization_id
    finally:
        dead.start()

    await append(lost, "after", to=conversations[0])
    assert await read_texts(lost, conversations[0]) == ["before", "after"]
    assert await store.list_homes_away() == []


async def test_a_process_starts_and_serves_while_a_home_is_away(
    installation: Installation, store: PostgresStore, clock: FakeClock
) -> None:
    lost, served = await create(store), await create(store, home="two")
    dead = installation.homes["one"]

    dead.kill()
    try:
        async with opened(process_of(installation, clock)) as fresh:
            await begin(await fresh.organization(served.organization_id), "served")
            with pytest.raises(StoreUnavailableError):
                await fresh.organization(lost.organization_id)
            dead.start()
            await begin(await fresh.organization(lost.organization_id), "served again")
    finally:
        if not dead.is_running:
            dead.start()


async def test_a_deleted_organisation_leaves_nothing_at_its_home(
    installation: Installation, store: PostgresStore
) -> None:
    gone, kept = await create(store), await create(store)
    for each in (gone, kept):
        await begin(each, "text")
        await add_memories(each)

    await store.control.delete_organization(gone.organization_id, actor=ACTOR)

    for table in tenant_tables(as_owner(installation.url)):
        assert installation.rows(table, gone.organization_id) == {}
    with pytest.raises(NotFoundError):
        await begin(gone)
    with pytest.raises(NotFoundError):
        await store.organization(gone.organization_id)
    assert await findings(kept) == []


async def test_what_is_deleted_while_its_home_is_away_is_removed_when_that_is_back(
    installation: Installation, store: PostgresStore, clock: FakeClock
) -> None:
    gone = await create(store)
    await begin(gone, "text")
    dead = installation.homes["one"]

    dead.kill()
    try:
        await store.control.delete_organization(gone.organization_id, actor=ACTOR)
        with pytest.raises(NotFoundError):
            await store.control.get_organization(gone.organization_id)
    finally:
        dead.start()
    assert installation.rows("message", gone.organization_id) == {"one": 1}

    async with opened(process_of(installation, clock)):
        assert installation.rows("message", gone.organization_id) == {}
    assert ask(installation.control, "SELECT count(*) FROM engram.removal") == 0


async def test_connections_to_a_home_are_bounded(
    installation: Installation, clock: FakeClock
) -> None:
    few = PostgresStore(installation.url, clock=clock, ids=RandomIds(), connections_max=4)
    async with opened(few) as store:
        organizations = [await create(store) for _ in range(6)]

        await asyncio.gather(*(begin(each, "text") for each in organizations for _ in range(4)))

        statement = """SELECT count(*) FROM pg_stat_activity
            WHERE application_name = 'engram' AND datname = 'engram'"""
        assert 0 < ask(installation.homes["one"], statement) <= 4


async def test_an_organisation_at_a_home_is_moved_to_a_directory(
    installation: Installation, store: PostgresStore, tmp_path: Path
) -> None:
    organization = await create(store, home="two")
    await begin(organization, "one", "two")

    await to_sqlite(installation.url, tmp_path / "store")

    with opened_file(tmp_path / "store", organization.organization_id) as file:
        assert file.execute("SELECT count(*) FROM message").fetchone() == (2,)


def test_homes_are_listed_with_how_many_organisations_they_have(
    installation: Installation,
) -> None:
    homes = list_homes(installation.url)

    assert [home.name for home in homes] == ["one", "two"]
    assert all(home.organizations >= 0 for home in homes)


def test_the_control_database_is_no_home_of_its_own(installation: Installation) -> None:
    with pytest.raises(ConflictError, match="itself"):
        add_home(installation.url, "three", installation.url, clock=SystemClock())
    with pytest.raises(InvalidRequestError):
        add_home(installation.url, "control", installation.url, clock=SystemClock())


@pytest.mark.parametrize("name", ["", "a\nb"])
def test_a_name_that_cannot_be_shown_is_refused(installation: Installation, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        add_home(installation.url, name, installation.url, clock=SystemClock())


def test_an_address_that_is_none_is_refused_without_repeating_it(
    installation: Installation,
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        add_home(installation.url, "three", "postgresql://u:hush@h:x%zz/", clock=SystemClock())

    assert refused.value.field == "url"
    assert "hush" not in str(refused.value)


def test_a_database_is_a_home_under_one_name(installation: Installation) -> None:
    url = url_for_servers(installation.homes["one"])

    with pytest.raises(ConflictError, match="another home"):
        add_home(installation.url, "three", url, clock=SystemClock())

    add_home(installation.url, "one", url, clock=SystemClock())
    assert [home.name for home in list_homes(installation.url)] == ["one", "two"]


def test_there_are_only_so_many_homes(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.limits.HOMES_MAX", 2)

    with pytest.raises(LimitExceededError):
        add_home(installation.url, "three", "postgresql://h/engram", clock=SystemClock())


async def test_a_database_with_organisations_of_its_own_becomes_no_home(
    installation: Installation, database_url: str, clock: FakeClock
) -> None:
    async with opened(PostgresStore(database_url, clock=clock, ids=RandomIds())) as store:
        await create(store, home=None)

    with pytest.raises(ConflictError, match="of its own"):
        add_home(installation.url, "three", database_url, clock=SystemClock())


async def test_a_home_is_not_opened_as_a_store_of_its_own(
    installation: Installation, clock: FakeClock
) -> None:
    url = url_for_servers(installation.homes["one"])

    with pytest.raises(ConfigurationError, match="home of another"):
        await PostgresStore(url, clock=clock, ids=RandomIds()).open()

    # A connection that was left open says so when it is collected, which fails this test.
    gc.collect()


async def test_a_home_that_is_in_use_stays_and_another_goes_and_comes_back(
    installation: Installation, organization: OrganizationStore
) -> None:
    await begin(organization, "text")
    with pytest.raises(ConflictError, match="has organisations"):
        remove_home(installation.url, "one")
    with pytest.raises(NotFoundError):
        remove_home(installation.url, "three")
    url = new_database(installation.homes["two"], "engram_three")

    for _ in range(2):
        add_home(installation.url, "three", url, clock=SystemClock())
        remove_home(installation.url, "three")

    assert [home.name for home in list_homes(installation.url)] == ["one", "two"]


async def test_an_address_that_leads_to_another_database_is_not_used(
    installation: Installation, store: PostgresStore, clock: FakeClock
) -> None:
    organization = await create(store, home="two")
    other = new_database(installation.homes["two"], "engram_other")
    put = "UPDATE engram.home SET url = %s WHERE name = 'two'"
    installation.control.execute(put, other, database="engram")
    try:
        async with opened(process_of(installation, clock)) as mistaken:
            with pytest.raises(StoreCorruptError, match="another database"):
                await mistaken.organization(organization.organization_id)
    finally:
        url = url_for_servers(installation.homes["two"])
        installation.control.execute(put, url, database="engram")
