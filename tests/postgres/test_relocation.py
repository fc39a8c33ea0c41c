"""Organisations that move to another home while they are used, and movers that are killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from time import monotonic

import anyio
import pytest

from engram.clock import RandomIds
from engram.errors import ConflictError, NotFoundError, StoreUnavailableError
from engram.model.ids import OrganizationId
from engram.storage.organization import OrganizationStore
from engram.storage.postgres import relocation, row_sync
from engram.storage.postgres.relocation import Step
from engram.storage.postgres.store import PostgresStore
from tests.fakes import FakeClock
from tests.postgres.databases import as_owner
from tests.postgres.furnished import (
    add_captures,
    add_conversations,
    add_documents,
    add_erasure,
    add_memories,
    add_trash,
    search,
)
from tests.postgres.homes import Installation, ask, create, installation, move, tenant_tables
from tests.postgres.moves import opened
from tests.postgres.writers import Crowd, Writer
from tests.promises import promise
from tests.storage.drafts import ACTOR, append, begin, count_holders, findings, read_texts
from tests.storage.memory_drafts import remember
from tests.storage.processes import PROJECT

__all__ = ["installation"]
"""The fixture."""

_LEFT = {"meta"}
"""What stays where an organisation was: the seal."""


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands still."""
    return FakeClock()


@pytest.fixture
async def store(installation: Installation, clock: FakeClock) -> AsyncIterator[PostgresStore]:
    """Yield an open store; other tests have organisations in it too."""
    async with opened(PostgresStore(installation.url, clock=clock, ids=RandomIds())) as store:
        yield store


async def furnished(store: PostgresStore) -> OrganizationStore:
    """Return an organisation at the home `one` with something in every table."""
    organization = await create(store)
    await add_conversations(organization, messages=60)
    await add_captures(organization)
    await add_memories(organization)
    await add_documents(organization)
    await add_trash(organization)
    await add_erasure(organization)
    return organization


def counts(
    installation: Installation, organization_id: OrganizationId
) -> dict[str, dict[str, int]]:
    """Return how many rows each table has where."""
    tables = tenant_tables(as_owner(installation.url))
    return {table: installation.rows(table, organization_id) for table in tables}


async def run_move(
    installation: Installation, organization: OrganizationStore, to: str
) -> relocation.Outcome:
    """Move an organisation, and let everybody else go on meanwhile."""
    return await asyncio.to_thread(move, installation, organization.organization_id, to)


async def test_everything_of_an_organisation_moves_and_only_a_seal_stays(
    installation: Installation, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sync, "PIECE_ROWS", 7)
    organization = await furnished(store)
    before, found = counts(installation, organization.organization_id), await search(organization)

    assert await run_move(installation, organization, "two") == "moved"

    after = counts(installation, organization.organization_id)
    assert {table for table, rows in after.items() if "one" in rows} == _LEFT
    assert {table: rows.get("one", 0) for table, rows in before.items()} == {
        table: rows.get("two", 0) for table, rows in after.items()
    }
    assert await search(organization) == found
    assert await findings(organization) == []
    (moved,) = [
        entry
        for entry in await store.control.list_audit(
            organization.organization_id, limit=10, before=None
        )
        if entry.action == "move_organization"
    ]
    assert moved.details == {"from": "one", "to": "two"}


async def test_an_organisation_goes_through_all_homes_and_is_written_at_each(
    installation: Installation, store: PostgresStore, clock: FakeClock
) -> None:
    organization = await create(store, home=None)
    conversation = await begin(organization, "at control")
    async with opened(PostgresStore(installation.url, clock=clock, ids=RandomIds())) as second:
        elsewhere = await second.organization(organization.organization_id)
        await count_holders(elsewhere, "control")

        for home in ("one", "two", "one", "control"):
            assert await run_move(installation, organization, home) == "moved"
            await append(organization, f"at {home}", to=conversation)
            await remember(organization, f"remembered in {home}")

        texts = ["at control", "at one", "at two", "at one", "at control"]
        # Never told of a move, and last at a home that the organisation has come back to.
        assert await read_texts(elsewhere, conversation) == texts
        await append(elsewhere, "zeppelin elsewhere", to=conversation)
        assert await count_holders(elsewhere, "zeppelin") == 1
        assert await read_texts(organization, conversation) == [*texts, "zeppelin elsewhere"]
        assert await findings(organization) == await findings(elsewhere) == []
    assert installation.rows("message", organization.organization_id) == {"control": 10}


@promise("processes")
async def test_writers_of_two_processes_lose_and_double_nothing_while_it_moves(
    installation: Installation,
    store: PostgresStore,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_sync, "PIECE_ROWS", 20)
    organization = await create(store)
    organization_id = organization.organization_id
    async with opened(PostgresStore(installation.url, clock=clock, ids=RandomIds())) as second:
        writers = [
            Writer(each, organization_id, name=f"writer {number}")
            for number, each in enumerate((store, store, second, second))
        ]
        for writer in writers:
            await writer.prepare()
        crowd = Crowd(writers)
        crowd.let_write()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(crowd.run())
            for home in ("two", "one"):
                await crowd.until_everyone_wrote(since=monotonic())
                assert await run_move(installation, organization, home) == "moved"
                await crowd.until_everyone_wrote(since=monotonic())
                former = {"two": "one", "one": "two"}[home]
                assert former not in installation.rows("message", organization_id)
            crowd.end()

        for writer in writers:
            assert await writer.read() == writer.acknowledged
            # Nobody was turned away: who came too late was sent on to the new home.
            assert writer.retries == 0
    assert await findings(organization) == []


@promise("durable")
@pytest.mark.parametrize(
    "step", ["begun", "copying", "copied", "locked", "sealed", "switched", "removed"]
)
async def test_a_move_that_is_killed_anywhere_leaves_it_usable_and_is_resumed(
    installation: Installation, store: PostgresStore, clock: FakeClock, step: Step
) -> None:
    organization = await furnished(store)
    conversation = await begin(organization, "before")
    program = "tests.postgres.programs.killed_relocation"
    arguments = [installation.url, organization.organization_id, "two", step]

    killed = await anyio.run_process(
        [sys.executable, "-m", program, *arguments], cwd=PROJECT, check=False
    )

    assert killed.returncode == -9
    await append(organization, "between", to=conversation)
    async with opened(PostgresStore(installation.url, clock=clock, ids=RandomIds())) as second:
        elsewhere = await second.organization(organization.organization_id)
        assert await read_texts(elsewhere, conversation) == ["before", "between"]
    resumed = await run_move(installation, organization, "two")
    assert resumed == ("there already" if step == "removed" else "moved")
    await append(organization, "after", to=conversation)
    assert await read_texts(organization, conversation) == ["before", "between", "after"]
    after = counts(installation, organization.organization_id)
    assert {table for table, rows in after.items() if rows.keys() - {"two"}} == _LEFT
    assert await findings(organization) == []
    assert ask(installation.control, "SELECT count(*) FROM engram.relocation") == 0


async def test_rows_that_change_and_go_between_two_passes_are_equal_in_the_end(
    installation: Installation, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sync, "PIECE_ROWS", 5)
    monkeypatch.setattr(relocation, "CATCH_UP_ROWS", 10**9)
    organization = await furnished(store)
    gone, grown = await begin(organization, "gone"), await begin(organization, "grown")
    loop = asyncio.get_running_loop()

    async def change() -> None:
        await organization.delete_conversation(gone, actor=ACTOR)
        await append(organization, "more", to=grown)
        await add_memories(organization)
        await add_trash(organization)

    def tell(step: Step) -> None:
        if step == "copied":
            asyncio.run_coroutine_threadsafe(change(), loop).result()

    await asyncio.to_thread(move, installation, organization.organization_id, "two", tell=tell)

    assert await read_texts(organization, grown) == ["grown", "more"]
    with pytest.raises(NotFoundError):
        await read_texts(organization, gone)
    assert await findings(organization) == []


async def test_a_move_is_given_up_by_moving_to_where_it_is(
    installation: Installation, store: PostgresStore, clock: FakeClock
) -> None:
    organization = await create(store)
    conversation = await begin(organization, "text")

    class InterruptedMoveError(Exception):
        pass

    def tell(step: Step) -> None:
        if step == "copied":
            raise InterruptedMoveError

    with pytest.raises(InterruptedMoveError):
        move(installation, organization.organization_id, "two", tell=tell)
    with pytest.raises(ConflictError, match="being moved to two"):
        move(installation, organization.organization_id, "control")

    assert move(installation, organization.organization_id, "one") == "given up"
    assert move(installation, organization.organization_id, "one") == "there already"
    async with opened(PostgresStore(installation.url, clock=clock, ids=RandomIds())):
        pass  # removes what was copied
    assert installation.rows("message", organization.organization_id) == {"one": 1}
    assert await read_texts(organization, conversation) == ["text"]


async def test_a_move_to_a_home_that_is_away_or_unknown_changes_nothing(
    installation: Installation, store: PostgresStore
) -> None:
    organization = await create(store)
    conversation = await begin(organization, "text")
    with pytest.raises(NotFoundError):
        await run_move(installation, organization, "three")

    installation.homes["two"].kill()
    try:
        with pytest.raises(StoreUnavailableError):
            await run_move(installation, organization, "two")
        await append(organization, "more", to=conversation)
    finally:
        installation.homes["two"].start()

    assert await run_move(installation, organization, "two") == "moved"
    assert await read_texts(organization, conversation) == ["text", "more"]


async def test_an_organisation_that_is_deleted_while_it_moves_leaves_nothing(
    installation: Installation, store: PostgresStore
) -> None:
    organization = await create(store)
    await begin(organization, "text")
    loop = asyncio.get_running_loop()

    def tell(step: Step) -> None:
        if step == "copied":
            deletion = store.control.delete_organization(organization.organization_id, actor=ACTOR)
            asyncio.run_coroutine_threadsafe(deletion, loop).result()

    with pytest.raises(NotFoundError):
        await asyncio.to_thread(move, installation, organization.organization_id, "two", tell=tell)

    assert all(not rows for rows in counts(installation, organization.organization_id).values())
    with pytest.raises(NotFoundError):
        await begin(organization)


async def test_two_movers_of_one_organisation_are_one_too_many(
    installation: Installation, store: PostgresStore
) -> None:
    organization = await create(store)
    refused = list[str]()

    def tell(step: Step) -> None:
        if step == "copied":
            with pytest.raises(ConflictError) as conflict:
                move(installation, organization.organization_id, "two")
            refused.append(str(conflict.value))

    await asyncio.to_thread(move, installation, organization.organization_id, "two", tell=tell)

    assert refused == [f"another process is moving {organization.organization_id}"]
