"""The contract of jobs: done by one process at a time, never lost."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from engram.model.status import Job
from engram.storage.organization import OrganizationStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import findings

LEASE = timedelta(minutes=5)


async def claim(
    organization: OrganizationStore, *kinds: str, owner: str = "me", limit: int = 10
) -> tuple[Job, ...]:
    return await organization.claim_jobs(kinds, owner=owner, lease=LEASE, limit=limit)


async def test_jobs_are_claimed_newest_first_and_by_kind(organization: OrganizationStore) -> None:
    for kind, subject in (("embed", "1"), ("train", "x"), ("embed", "2"), ("embed", "3")):
        await organization.enqueue_job(kind, subject)

    first = await claim(organization, "embed", limit=2)
    rest = await claim(organization, "embed", "train", "other")

    assert [job.subject for job in first] == ["3", "2"]
    assert [(job.kind, job.subject) for job in rest] == [("train", "x"), ("embed", "1")]
    assert await claim(organization, "embed", "train") == ()


async def test_a_claimed_job_says_its_lease_and_attempts(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await organization.enqueue_job("embed", "1")

    (job,) = await claim(organization, "embed")

    assert job.id.startswith("job_")
    assert (job.attempts, job.lease_until) == (1, clock.now() + LEASE)


async def test_jobs_are_listed_with_their_leases_the_oldest_first(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    for kind in ("embed", "train", "later"):
        await organization.enqueue_job(kind, "1")
    await claim(organization, "train")

    waiting, leased = await organization.list_jobs(limit=2)

    assert (waiting.kind, waiting.attempts, waiting.lease_until) == ("embed", 0, None)
    assert (leased.kind, leased.attempts, leased.lease_until) == ("train", 1, clock.now() + LEASE)
    assert await other.list_jobs(limit=2) == ()


async def test_a_waiting_job_is_not_enqueued_twice(organization: OrganizationStore) -> None:
    await organization.enqueue_job("embed", "1")
    await organization.enqueue_job("embed", "1")
    await organization.enqueue_job("train", "1")

    assert len(await claim(organization, "embed", "train")) == 2


async def test_a_job_enqueued_while_its_like_runs_is_done_again(
    organization: OrganizationStore,
) -> None:
    await organization.enqueue_job("embed", "1")
    (running,) = await claim(organization, "embed")

    await organization.enqueue_job("embed", "1")
    await organization.finish_job(running, owner="me")

    assert len(await claim(organization, "embed")) == 1


@promise("processes")
async def test_two_processes_never_claim_the_same_job(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    for number in range(20):
        await organization.enqueue_job("embed", str(number))

    claimed = await asyncio.gather(
        *[claim(organization, "embed", owner=f"a{i}", limit=3) for i in range(4)],
        *[claim(elsewhere, "embed", owner=f"b{i}", limit=3) for i in range(4)],
    )

    ids = [job.id for jobs in claimed for job in jobs]
    assert len(ids) == len(set(ids)) == 20


@promise("processes")
async def test_a_lease_expires(organization: OrganizationStore, clock: FakeClock) -> None:
    await organization.enqueue_job("embed", "1")
    (lost,) = await claim(organization, "embed", owner="dead")
    clock.advance(LEASE - timedelta(microseconds=1))
    assert await claim(organization, "embed", owner="me") == ()

    clock.advance(timedelta(microseconds=1))
    (job,) = await claim(organization, "embed", owner="me")

    assert (job.id, job.attempts) == (lost.id, 2)
    assert not await organization.finish_job(lost, owner="dead")
    assert not await organization.postpone_job(lost, owner="dead", delay=LEASE)
    assert await organization.finish_job(job, owner="me")
    assert not await organization.finish_job(job, owner="me")


async def test_an_old_lease_of_the_same_owner_is_lost_too(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await organization.enqueue_job("embed", "1")
    (old,) = await claim(organization, "embed")
    clock.advance(LEASE)
    (new,) = await claim(organization, "embed")

    assert not await organization.finish_job(old, owner="me")
    assert await organization.finish_job(new, owner="me")


async def test_a_late_finish_counts_while_nobody_else_has_the_job(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await organization.enqueue_job("embed", "1")
    (job,) = await claim(organization, "embed")
    clock.advance(2 * LEASE)

    assert await organization.finish_job(job, owner="me")
    assert await claim(organization, "embed") == ()


async def test_a_postponed_job_waits_for_its_delay(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await organization.enqueue_job("embed", "1")
    (job,) = await claim(organization, "embed")

    assert await organization.postpone_job(job, owner="me", delay=LEASE)
    assert await claim(organization, "embed") == ()
    clock.advance(LEASE)
    (again,) = await claim(organization, "embed", owner="other")

    assert (again.id, again.attempts) == (job.id, 2)


async def test_a_postponed_job_whose_like_waits_is_given_up(
    organization: OrganizationStore,
) -> None:
    await organization.enqueue_job("embed", "1")
    (job,) = await claim(organization, "embed")
    await organization.enqueue_job("embed", "1")

    assert await organization.postpone_job(job, owner="me", delay=LEASE)

    (waiting,) = await claim(organization, "embed")
    assert waiting.id != job.id
    assert await findings(organization) == []
