"""What has become of a commit whose answer was lost is found out, on whichever server serves then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest

from engram.errors import StoreUnavailableError
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.connection import complete
from engram.storage.postgres.database import was_committed
from engram.storage.postgres.pool import Pool
from engram.storage.postgres.transactions import Begun, OrganizationScope
from tests.postgres.servers import Server, Servers, running_servers, url_of
from tests.postgres.stores import new_organization, opened
from tests.postgres.wire import wire_to
from tests.promises import promise
from tests.storage.drafts import append, begin, read_texts

pytestmark = promise("durable")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_servers() as servers:
        yield servers.primary()


@pytest.fixture
def servers() -> Iterator[Servers]:
    with running_servers() as servers:
        yield servers


async def test_commit_whose_answer_is_lost_is_found_to_be_done(server: Server) -> None:
    async with wire_to(server) as wire, opened(url_of([wire])) as store:
        organization = await new_organization(store)
        conversation_id = await begin(organization)

        wire.lose_next_commit("before the client hears")
        receipt = await append(organization, "heard of or not", to=conversation_id)

        assert not receipt.repeated
        assert await read_texts(organization, conversation_id) == ["heard of or not"]


async def test_commit_that_does_not_reach_the_server_is_found_to_be_undone(server: Server) -> None:
    async with wire_to(server) as wire, opened(url_of([wire])) as store:
        organization = await new_organization(store)
        conversation_id = await begin(organization)

        wire.lose_next_commit("before the server commits")
        with pytest.raises(StoreUnavailableError):
            await append(organization, "lost", to=conversation_id)

        assert await read_texts(organization, conversation_id) == []
        await append(organization, "again", to=conversation_id)
        assert await read_texts(organization, conversation_id) == ["again"]


async def test_organisation_is_made_once_though_the_answer_is_lost(server: Server) -> None:
    async with wire_to(server) as wire, opened(url_of([wire])) as store:
        before = {each.id for each in await store.control.list_organizations()}

        wire.lose_next_commit("before the client hears")
        organization = await new_organization(store)

        after = {each.id for each in await store.control.list_organizations()}
        assert after - before == {organization.organization_id}


async def test_one_of_the_last_writes_is_told_from_one_that_was_undone(server: Server) -> None:
    async with opened(url_of([server])) as store:
        scope = scope_of(server, await new_organization(store))

    with closing(pool_of(server)) as pool:
        committed = write(pool, scope)
        undone = write(pool, scope, is_undone=True)
        write(pool, scope)

        assert was_committed(pool, scope, committed)
        assert not was_committed(pool, scope, undone)


async def test_what_became_of_a_write_is_not_guessed_after_many_others(server: Server) -> None:
    async with opened(url_of([server])) as store:
        scope = scope_of(server, await new_organization(store))

    with closing(pool_of(server)) as pool:
        undone = write(pool, scope, is_undone=True)
        for _ in range(40):
            write(pool, scope)

        with pytest.raises(StoreUnavailableError):
            was_committed(pool, scope, undone)


async def test_write_that_is_still_going_on_is_waited_for(server: Server) -> None:
    async with opened(url_of([server])) as store:
        scope = scope_of(server, await new_organization(store))

    with closing(pool_of(server)) as pool:
        transaction, begun = pool.begin(scope.begin_write)
        assert transaction.revision
        outcomes = list[bool]()
        asking = Thread(target=lambda: outcomes.append(was_committed(pool, scope, begun)))
        asking.start()
        # It waits for the row that this transaction holds; without that it would be undone.
        server.wait_for_lock()
        transaction.commit()
        pool.give_back(transaction)
        asking.join()

        assert outcomes == [True]


async def test_number_of_a_lost_transaction_that_another_has_now_proves_nothing(
    servers: Servers,
) -> None:
    primary = servers.primary()
    async with opened(url_of([primary])) as store:
        scope = scope_of(primary, await new_organization(store))
    standby = servers.standby(primary)
    primary.wait_for_nobody()
    standby.stop()
    with closing(pool_of(primary)) as pool:
        lost, number = write_numbered(pool, scope)
    primary.kill()
    standby.start()
    standby.promote()

    with closing(pool_of(primary, standby)) as pool:
        numbers = [write_numbered(pool, scope)[1] for _ in range(10)]

        assert number in numbers
        assert not was_committed(pool, scope, lost)


def pool_of(*servers: Server) -> Pool:
    return Pool(complete(url_of(servers)))


def scope_of(server: Server, organization: OrganizationStore) -> OrganizationScope:
    """Return what transactions of an organisation begin with."""
    ((number,),) = server.execute(
        "SELECT number FROM engram.organization WHERE organization_id = %s",
        organization.organization_id,
    )
    return OrganizationScope(number, organization.organization_id)


def write(pool: Pool, scope: OrganizationScope, *, is_undone: bool = False) -> Begun:
    """Begin a transaction that writes, and end it."""
    transaction, begun = pool.begin(scope.begin_write)
    assert transaction.revision
    if not is_undone:
        transaction.commit()
    pool.give_back(transaction)
    return begun


def write_numbered(pool: Pool, scope: OrganizationScope) -> tuple[Begun, int]:
    """Commit a transaction; return it and the number that the server gave it."""
    transaction, begun = pool.begin(scope.begin_write)
    (number,) = transaction.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    transaction.commit()
    pool.give_back(transaction)
    return begun, number
