"""The worker: it does what waits, leaves what failed for later, and outlives whatever goes wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from engram.clock import RandomIds
from engram.embedding.tiers import Tiers
from engram.errors import UnavailableError
from engram.model.access import Organization, OrganizationDraft
from engram.service.work.background import LEASE, TRAIN_DICTIONARY, Background
from engram.service.work.document_indexing import DocumentIndexing
from engram.service.work.indexing import Indexer
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.promises import promise


class Workplace:
    """A store with one organisation, and workers of two processes."""

    def __init__(self, store: SqliteStore, organization: Organization, clock: FakeClock) -> None:
        self.store = store
        self.organization = organization
        self.clock = clock
        self.worker = worker_on(store, owner="this process")
        self.other = worker_on(store, owner="another process")

    async def jobs(self) -> OrganizationStore:
        return await self.store.organization(self.organization.id)

    async def waiting(self) -> int:
        """Return how many jobs a third process could claim now."""
        claimed = await (await self.jobs()).claim_jobs(
            [TRAIN_DICTIONARY], owner="the test", lease=timedelta(0), limit=10
        )
        return len(claimed)


def worker_on(store: SqliteStore, *, owner: str) -> Background:
    """Return a worker that has no embedder."""
    indexer = Indexer(store, Tiers(), owner=owner)
    documents = DocumentIndexing(store, indexer, owner=owner)
    return Background(store, indexer=indexer, documents=documents, owner=owner)


@asynccontextmanager
async def workplace(directory: Path) -> AsyncGenerator[Workplace]:
    clock = FakeClock()
    store = SqliteStore(directory, clock=clock, ids=RandomIds())
    await store.open()
    try:
        draft = OrganizationDraft(name="acme")
        organization = await store.control.create_organization(draft, actor="test")
        yield Workplace(store, organization, clock)
    finally:
        await store.close()


async def test_a_waiting_job_is_done_once(tmp_path: Path) -> None:
    async with workplace(tmp_path) as place:
        await (await place.jobs()).enqueue_job(TRAIN_DICTIONARY, "messages")

        assert await place.worker.work(place.organization.id) == 1
        assert await place.other.work(place.organization.id) == 0


async def test_the_due_work_of_every_organisation_is_found(tmp_path: Path) -> None:
    async with workplace(tmp_path) as place:
        draft = OrganizationDraft(name="other")
        second = await place.store.control.create_organization(draft, actor="test")
        for organization in (place.organization, second):
            store = await place.store.organization(organization.id)
            await store.enqueue_job(TRAIN_DICTIONARY, "messages")

        await place.worker.take_due()
        assert await place.worker.visit_queued() == 2


async def test_a_job_of_a_dead_process_is_taken_up_when_its_lease_ends(tmp_path: Path) -> None:
    async with workplace(tmp_path) as place:
        jobs = await place.jobs()
        await jobs.enqueue_job(TRAIN_DICTIONARY, "messages")
        await jobs.claim_jobs([TRAIN_DICTIONARY], owner="the dead", lease=LEASE, limit=1)
        assert await place.worker.work(place.organization.id) == 0

        place.clock.advance(LEASE + timedelta(seconds=1))

        assert await place.worker.work(place.organization.id) == 1


async def test_work_for_a_deleted_organisation_is_none(tmp_path: Path) -> None:
    async with workplace(tmp_path) as place:
        await (await place.jobs()).enqueue_job(TRAIN_DICTIONARY, "messages")
        await place.store.control.delete_organization(place.organization.id, actor="test")

        assert await place.worker.work(place.organization.id) == 0


async def test_an_organisation_deleted_by_another_process_does_not_fail_the_work(
    tmp_path: Path,
) -> None:
    async with workplace(tmp_path) as place:
        await place.jobs()  # this process holds the file open
        other = SqliteStore(tmp_path, clock=place.clock, ids=RandomIds())
        await other.open()
        await other.control.delete_organization(place.organization.id, actor="test")
        await other.close()

        assert await place.worker.work(place.organization.id) == 0


async def test_a_job_that_fails_waits_longer_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: object) -> bool:
        raise UnavailableError

    async with workplace(tmp_path) as place:
        jobs = await place.jobs()
        await jobs.enqueue_job(TRAIN_DICTIONARY, "messages")
        monkeypatch.setattr(type(jobs), "train_dictionary", fail)

        assert await place.worker.work(place.organization.id) == 0
        assert await place.waiting() == 0
        place.clock.advance(timedelta(minutes=2))
        assert await place.waiting() == 1
    assert "failed" in caplog.text


@promise("fair")
async def test_one_broken_organisation_does_not_keep_the_others_from_their_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with workplace(tmp_path) as place:
        draft = OrganizationDraft(name="other")
        second = await place.store.control.create_organization(draft, actor="test")
        await (await place.store.organization(second.id)).enqueue_job(TRAIN_DICTIONARY, "messages")
        await (await place.jobs()).enqueue_job(TRAIN_DICTIONARY, "messages")
        await place.store.close()
        (tmp_path / "orgs" / f"{place.organization.id}.db").write_bytes(b"not a database" * 100)
        later = SqliteStore(tmp_path, clock=place.clock, ids=RandomIds())
        await later.open()
        worker = worker_on(later, owner="a later process")

        await worker.take_due()
        assert await worker.visit_queued() == 1
        await later.close()
    assert place.organization.id in caplog.text
