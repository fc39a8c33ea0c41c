"""What goes over the wire: how often a process waits for the server, and what it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from engram.model.access import Quota
from engram.model.conversation import AppendRequest
from engram.model.ids import MessageKey
from engram.model.search import Candidates
from engram.model.vectors import QueryVector
from tests.postgres.furnished import use_everything
from tests.postgres.servers import Server
from tests.postgres.stores import new_organization, opened
from tests.postgres.trips import CountedWire, counted_wire
from tests.storage.drafts import ACTOR, append, begin, drafts, find
from tests.storage.embedded import QUICK, append_meant, indexing_of, vector_of
from tests.storage.finding import Kept, find_candidates, search
from tools.citus import faults_of_change, faults_of_text, read_tables

_PREPARED_AFTER = 6
"""Runs of a statement until the driver has prepared it, for which it waits once."""


@pytest.fixture
async def wire(postgres_server: Server, database_url: str) -> AsyncIterator[CountedWire]:
    """Yield a wire to the server, which has the database of the test."""
    async with counted_wire(postgres_server) as wire:
        yield wire


def url_over(wire: CountedWire) -> str:
    return wire.url("engram_test").replace("postgres@", "engram_server@")


async def trips_of(wire: CountedWire, work: Callable[[], Awaitable[object]]) -> int:
    before = wire.trips
    await work()
    return wire.trips - before


async def test_an_append_does_not_wait_more_often_the_larger_it_is(
    wire: CountedWire,
) -> None:
    async with opened(url_over(wire)) as store:
        organization = await new_organization(store)
        conversation = await begin(organization)
        for _ in range(_PREPARED_AFTER):
            await append(organization, "tanuki are tricksters", to=conversation)

        small = await trips_of(wire, lambda: append(organization, "one", to=conversation))
        large = await trips_of(
            wire,
            lambda: append(organization, *(f"text {each}" for each in range(200)), to=conversation),
        )

    assert max(small, large) <= 3


async def test_an_append_with_all_that_it_may_read_waits_three_times(
    wire: CountedWire,
) -> None:
    async with opened(url_over(wire)) as store:
        organization = await new_organization(store)
        conversation = await begin(organization)

        async def append_one(number: int) -> int:
            request = AppendRequest(
                messages=drafts("tanuki"), conversation_id=conversation, idempotency_key=str(number)
            )
            indexing = indexing_of(["tanuki"], tier="instant", identity=QUICK)
            bounded = Quota(messages_max=1_000)
            return await trips_of(
                wire,
                lambda: organization.append_messages(
                    request, actor=ACTOR, quota=bounded, indexing=indexing
                ),
            )

        # Some of them are the first of a window, which needs the lengths of earlier messages.
        waits = [await append_one(number) for number in range(20)][_PREPARED_AFTER:]

    assert max(waits) <= 3


async def test_a_search_waits_for_the_server_a_few_times(wire: CountedWire) -> None:
    async with opened(url_over(wire)) as store:
        organization = await new_organization(store)
        await begin(organization, "tanuki are tricksters", "foxes are too")
        for _ in range(_PREPARED_AFTER):
            await find(organization, "tanuki")

        wire.statements.clear()
        cached = await trips_of(wire, lambda: find(organization, "tanuki"))
        await append(organization, "another tanuki")
        fresh = await trips_of(wire, lambda: find(organization, "tanuki", "another"))

    assert cached <= 2
    assert fresh <= 3
    # What was prepared is used again.
    assert "DEALLOCATE ALL" not in wire.statements


async def test_a_search_with_many_hits_waits_no_more_often(wire: CountedWire) -> None:
    async with opened(url_over(wire)) as store, opened(url_over(wire)) as elsewhere:
        organization = await new_organization(store)
        other = await elsewhere.organization(organization.organization_id)
        conversation = await begin(organization)
        await begin(organization, *(["foxes are tricksters"] * 200))
        for start in range(0, 2_400, 200):
            said = [f"tanuki number{number}" for number in range(start, start + 200)]
            await append(organization, *said, to=conversation)

        def best(found: Candidates) -> Kept:
            return Kept(found, messages=[MessageKey(key) for key in found.keys[:3].tolist()])

        # Each search finds different messages, none of which are cached.
        numbers = iter(range(0, 2_400, 60))

        async def ask() -> None:
            found, loaded = await search(
                organization, ["tanuki", "another", f"number{next(numbers)}"], choose=best
            )
            assert len(loaded.messages) == len(found.messages) == 3

        started = await trips_of(wire, ask)
        for number in range(_PREPARED_AFTER):
            await append(organization, f"tanuki {number}")
            await ask()
        await append(organization, "another tanuki", to=conversation)
        own = await trips_of(wire, ask)
        await append(other, "another tanuki", to=conversation)
        foreign = await trips_of(wire, ask)
        await organization.merge_words()
        await append(other, "tanuki")
        merged = await trips_of(wire, ask)

    assert max(own, foreign, merged) <= 3, (started, own, foreign, merged)
    # One more for the connection.
    assert started <= 4


async def test_a_search_by_meaning_after_an_append_waits_a_few_times(wire: CountedWire) -> None:
    async with opened(url_over(wire)) as store, opened(url_over(wire)) as elsewhere:
        organization = await new_organization(store)
        conversation = await append_meant(organization, "tanuki are tricksters")
        query = QueryVector(tier="instant", identity=QUICK, vector=vector_of("tanuki", QUICK))
        other = await elsewhere.organization(organization.organization_id)

        async def ask() -> None:
            found = await find_candidates(organization, ["tanuki", "another"], vectors=[query])
            assert len(found.keys)

        for _ in range(_PREPARED_AFTER):
            await ask()
        await append_meant(organization, "another tanuki", to=conversation)
        own = await trips_of(wire, ask)
        await append_meant(other, "another tanuki", to=conversation)
        foreign = await trips_of(wire, ask)

    assert max(own, foreign) <= 3


async def test_all_that_is_sent_is_what_a_cluster_runs(wire: CountedWire) -> None:
    async with opened(url_over(wire)) as store:
        await use_everything(store)

    sent = set(wire.statements)
    changes = [
        each for each in sent if each.startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH"))
    ]
    assert len(changes) > 100
    assert [each for each in sent if list(faults_of_text(each))] == []
    tables = read_tables()
    assert [each for each in changes if list(faults_of_change(each, tables))] == []
