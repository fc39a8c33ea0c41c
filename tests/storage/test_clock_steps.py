"""Clocks that are ahead, or were set back: no lease lasts for days, and no time lies before an earlier one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from engram import limits
from engram.clock import RandomIds, SystemClock, to_microseconds
from engram.model.access import OrganizationDraft
from engram.model.memory import MemoryChange
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.store import PostgresStore
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.storage import memory_drafts
from tests.storage.drafts import ACTOR, UNBOUNDED, append, begin, damage, findings, read

LEASE = timedelta(minutes=5)
DAYS = timedelta(days=2)


async def test_a_lease_of_a_clock_that_was_days_ahead_has_expired(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await organization.enqueue_job("embed", "1")
    clock.advance(DAYS)
    assert await organization.claim_jobs(["embed"], owner="ahead", lease=LEASE, limit=1)
    clock.advance(-DAYS)

    (job,) = await organization.claim_jobs(["embed"], owner="other", lease=LEASE, limit=1)

    assert job.attempts == 2


async def test_work_put_off_by_a_clock_that_was_days_ahead_is_due(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    clock.advance(DAYS)
    await organization.enqueue_job("embed", "1")
    (job,) = await organization.claim_jobs(["embed"], owner="ahead", lease=LEASE, limit=1)
    await organization.postpone_job(job, owner="ahead", delay=timedelta(seconds=30))
    clock.advance(-DAYS)

    assert await organization.claim_jobs(["embed"], owner="other", lease=LEASE, limit=1)


async def test_a_lease_of_a_clock_that_is_a_little_ahead_holds(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await organization.enqueue_job("embed", "1")
    clock.advance(timedelta(seconds=limits.LEASE_S_MAX) - LEASE)
    assert await organization.claim_jobs(["embed"], owner="ahead", lease=LEASE, limit=1)
    clock.advance(LEASE - timedelta(seconds=limits.LEASE_S_MAX))

    assert await organization.claim_jobs(["embed"], owner="other", lease=LEASE, limit=1) == ()


async def test_messages_are_never_before_those_of_their_conversation(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    conversation_id = await begin(organization, "first")
    clock.advance(-DAYS)
    await append(organization, "second", to=conversation_id)
    await append(organization, "third", to=conversation_id)

    times = [message.created_at for message in await read(organization, conversation_id)]

    assert times == sorted(times)
    assert await findings(organization) == []


@pytest.mark.parametrize("back", [DAYS, timedelta(microseconds=1)])
async def test_a_version_never_ends_before_it_begins(
    organization: OrganizationStore, clock: FakeClock, back: timedelta
) -> None:
    memory_id = await memory_drafts.note(organization, "apples are red")
    clock.advance(-back)
    change = MemoryChange(content="apples are green")
    changed = await organization.memories.correct(memory_id, change, actor=ACTOR, quota=UNBOUNDED)
    clock.advance(-back)
    forgotten = await memory_drafts.forget(organization, memory_id, clock=clock)
    clock.advance(-back)
    restored = await organization.memories.restore(memory_id, actor=ACTOR)

    assert changed.created_at <= changed.updated_at <= forgotten.updated_at <= restored.updated_at
    for version in await organization.memories.history(memory_id):
        assert version.memory.updated_at <= version.ended_at
    clock.advance(-back)
    tombstone = await organization.memories.purge(memory_id, actor=ACTOR)
    assert tombstone.removed_at >= restored.updated_at


async def test_an_episode_never_ends_before_it_begins(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    episode_id = await organization.memories.start_episode("default", "work", actor=ACTOR)
    clock.advance(-DAYS)

    episode = await organization.memories.end_episode(episode_id, summary=None, actor=ACTOR)

    assert episode.ended_at == episode.started_at


async def test_a_rebuild_of_a_clock_that_was_days_ahead_is_abandoned(
    organization: OrganizationStore, clock: FakeClock, tmp_path: Path
) -> None:
    until = to_microseconds(clock.now() + DAYS)
    damage(
        tmp_path,
        organization,
        f"UPDATE upkeep SET rebuild_id = 'dead', rebuild_until = {until}",  # noqa: S608 - a number
    )

    assert [finding.check for finding in await findings(organization)] == ["jobs"]
    await begin(organization, "a write drops it")
    assert await findings(organization) == []


@pytest.fixture
async def ahead(database_url: str) -> AsyncIterator[Store]:
    """Yield a store on PostgreSQL of a process whose clock is two days ahead of the server's."""
    clock = FakeClock(SystemClock().now() + DAYS)
    store = PostgresStore(database_url, clock=clock, ids=RandomIds(), by_server_clock=True)
    await store.open()
    yield store
    await store.close()


async def test_leases_follow_the_clock_of_the_server(ahead: Store) -> None:
    created = await ahead.control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)
    organization = await ahead.organization(created.id)
    await organization.enqueue_job("embed", "1")

    (job,) = await organization.claim_jobs(["embed"], owner="ahead", lease=LEASE, limit=1)

    left = job.lease_until - SystemClock().now()
    assert timedelta() < left <= LEASE + timedelta(seconds=5)
