"""Processes on one database tell each other of revoked keys at once, and find work by its due time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from engram.clock import RandomIds
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.errors import UnauthenticatedError
from engram.model.access import KeyDraft, Principal, Quota
from engram.model.conversation import AppendRequest
from engram.model.ids import OrganizationId
from engram.model.status import KeysChanged
from engram.service import Service
from engram.settings import Settings
from engram.storage.postgres.store import PostgresStore
from engram.wiring import build_service
from tests.fakes import FakeClock
from tests.postgres.servers import Server, wait_until
from tests.postgres.stores import new_organization, opened
from tests.promises import promise
from tests.storage.drafts import ACTOR, append, drafts

PATIENCE_S = 60


@pytest.fixture
async def here(database_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(database_url) as store:
        yield store


@pytest.fixture
async def there(database_url: str) -> AsyncIterator[PostgresStore]:
    """Yield the store as another process has it."""
    async with opened(database_url) as store:
        yield store


@asynccontextmanager
async def hearing(store: PostgresStore) -> AsyncGenerator[AsyncIterator[KeysChanged]]:
    """Yield what a store hears, once it listens."""
    async with aclosing(store.changes()) as changes:
        with anyio.fail_after(PATIENCE_S):
            assert await anext(changes) == KeysChanged(None)
            yield changes


async def test_new_work_is_told_to_nobody(here: PostgresStore, there: PostgresStore) -> None:
    organization = await new_organization(here)
    async with hearing(there) as heard:
        await append(organization, "found by its due time")
        key = await here.control.create_key(
            organization.organization_id, KeyDraft(name="k"), actor=ACTOR
        )
        await here.control.revoke_key(organization.organization_id, key.key.id, actor=ACTOR)

        assert await anext(heard) == KeysChanged(organization.organization_id)


async def test_who_listens_learns_that_the_store_is_closed(database_url: str) -> None:
    async with opened(database_url) as store:
        changes = store.changes()
        await anext(changes)

    with anyio.fail_after(PATIENCE_S):
        assert [change async for change in changes] == []


async def test_end_of_keys_is_told_to_all(here: PostgresStore, there: PostgresStore) -> None:
    organization_id = (await new_organization(here)).organization_id
    key = await here.control.create_key(organization_id, KeyDraft(name="k"), actor=ACTOR)
    async with hearing(here) as heard_here, hearing(there) as heard_there:
        await here.control.revoke_key(organization_id, key.key.id, actor=ACTOR)
        assert await anext(heard_there) == KeysChanged(organization_id)
        assert await anext(heard_here) == KeysChanged(organization_id)

        await there.control.delete_organization(organization_id, actor=ACTOR)
        assert await anext(heard_here) == KeysChanged(organization_id)


async def test_who_was_cut_off_listens_again_and_trusts_no_key_from_before(
    here: PostgresStore, there: PostgresStore, postgres_server: Server
) -> None:
    async with hearing(there) as heard:
        await asyncio.to_thread(cut_off_listeners, postgres_server)

        assert await anext(heard) == KeysChanged(None)
        await asyncio.to_thread(cut_off_listeners, postgres_server)
        assert await anext(heard) == KeysChanged(None)


async def test_message_stored_by_one_process_is_embedded_by_another_soon(
    here: PostgresStore, there: PostgresStore, tmp_path: Path
) -> None:
    organization = await new_organization(here)
    owner = principal_of(organization.organization_id)
    writing, working = service_on(here, tmp_path), service_on(there, tmp_path)
    async with working.background_work():
        for text in ("first", "second"):
            request = AppendRequest(messages=drafts(text))
            await writing.conversations.append_messages(owner, request)

            with anyio.fail_after(PATIENCE_S):
                while (await organization.counters()).pending:
                    pass


@promise("revocation")
async def test_key_revoked_by_one_process_is_refused_by_another_at_once(
    here: PostgresStore, there: PostgresStore, tmp_path: Path, postgres_server: Server
) -> None:
    organization_id = (await new_organization(here)).organization_id
    key = await here.control.create_key(organization_id, KeyDraft(name="k"), actor=ACTOR)
    owner = principal_of(organization_id)
    revoking, serving = service_on(here, tmp_path), service_on(there, tmp_path)
    async with serving.background_work():
        await asyncio.to_thread(wait_for_listeners, postgres_server)
        await serving.access.authenticate(key.secret)

        await revoking.access.revoke_key(owner, key.key.id)

        # Its clock stands still: without a word it would be trusted for ever.
        with anyio.fail_after(PATIENCE_S):
            while await is_let_in(serving, key.secret):
                await anyio.lowlevel.checkpoint()


def principal_of(organization_id: OrganizationId) -> Principal:
    return Principal(
        organization_id=organization_id,
        actor=ACTOR,
        scopes=frozenset({"write", "admin"}),
        quota=Quota(),
    )


async def is_let_in(service: Service, secret: str) -> bool:
    try:
        await service.access.authenticate(secret)
    except UnauthenticatedError:
        return False
    return True


def service_on(store: PostgresStore, home: Path) -> Service:
    """Return the service of a process, whose clock stands still."""
    return build_service(
        store,
        Tiers.of(deep=HashedEmbedder()),
        Settings(home=home),
        clock=FakeClock(),
        ids=RandomIds(),
    )


_LISTENERS = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


def wait_for_listeners(server: Server) -> None:
    wait_until(lambda: bool(server.execute(f"SELECT 1 {_LISTENERS}")), what="somebody to listen")


def cut_off_listeners(server: Server) -> None:
    server.execute(f"SELECT pg_terminate_backend(pid) {_LISTENERS}")
