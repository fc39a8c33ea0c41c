"""The background loops of a process: vectors, documents, jobs of the store, scrubbing, usage and files.

Work is found by its due time, never by looking into organisations. It is leased, so every process may do it at
once: when the lease of a dead one expires, another takes the work over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from engram import limits
from engram.errors import EngramError, NotFoundError
from engram.model.access import SYSTEM
from engram.model.ids import OrganizationId
from engram.model.status import Job, WorkKind
from engram.service.work.document_indexing import DocumentIndexing
from engram.service.work.erasing import Erasing
from engram.service.work.indexing import Indexer
from engram.service.work.retention import APPLY_RETENTION, apply_rules
from engram.service.work.schedule import OrganizationQueue, settle
from engram.service.work.scrubbing import Scrubber
from engram.storage.organization import OrganizationStore
from engram.storage.queue import retry_delay
from engram.storage.store import Store

logger = logging.getLogger(__name__)

TRAIN_DICTIONARY = "train_dictionary"
MERGE_WORDS = "merge_words"
JOB_KINDS = (MERGE_WORDS, TRAIN_DICTIONARY, APPLY_RETENTION)

LEASE = timedelta(minutes=5)
"""Longer than any job takes; after it another process tries. Due work is leased for as long."""

TICK_S = 60.0
"""How often usage is stored."""

TIDY_S = 600.0
"""How often files of deleted organisations are looked for."""

NOTICE_DELAY_S = 0.1
"""Writes come in bursts: one check for many of them instead of one for each. Not longer: an import
of one second stores a thousand messages before the dictionary that it needs is trained.
"""

FAILURE_DELAY_S = 1.0
"""The pause after a failure that is not due to an organisation."""

CLAIM_MAX = 8
"""Jobs leased at once: few, so that other processes find work too."""


def _forget_nothing(organization_id: OrganizationId | None) -> None:
    """Do nothing: no key is cached."""


async def _no_files() -> None:
    """Do nothing: there are no files."""


class Background:
    """The worker of a process: sleeps until there is work of its own, or asks which is due."""

    def __init__(
        self,
        store: Store,
        *,
        indexer: Indexer,
        documents: DocumentIndexing,
        owner: str,
        scrubber: Scrubber | None = None,
        erasing: Erasing | None = None,
        forget_keys: Callable[[OrganizationId | None], None] = _forget_nothing,
        tidy_files: Callable[[], Awaitable[None]] = _no_files,
        due_s: float = limits.DUE_S,
    ) -> None:
        """Work on a store, and ask it every `due_s` seconds for due work.

        `forget_keys` is called with organisations whose keys others changed.
        """
        self._store = store
        self._forget_keys = forget_keys
        self._tidy_files = tidy_files
        self._indexer = indexer
        self._documents = documents
        self._scrubber = scrubber
        self.erasing = erasing or Erasing(store, owner=owner)
        self._owner = owner
        self._due_s = due_s
        self._jobs = OrganizationQueue()
        """Organisations that may have jobs."""
        self._visits = OrganizationQueue()
        """Organisations whose jobs, trash or rules of retention are due."""
        self._due: dict[WorkKind, OrganizationQueue] = {
            "documents": documents.queue,
            "erasing": self.erasing.queue,
            "jobs": self._visits,
        }
        if indexer.is_deep:
            self._due["vectors"] = indexer.queue
        if scrubber is not None and scrubber.is_on:
            self._due["scrub"] = scrubber.queue

    def announce_work(self, organization_id: OrganizationId, *kinds: WorkKind) -> None:
        """Queue an organisation that has work of some kinds, vectors and jobs unless named, in this process.

        Others find what this one does not do by its due time.
        """
        for kind in kinds or ("vectors", "jobs"):
            if kind == "jobs":
                self._jobs.add(organization_id)
            elif kind in self._due:
                self._due[kind].add(organization_id)

    async def run(self, record_use: Callable[[], Awaitable[None]]) -> None:
        """Work until cancelled; a failure is logged and never ends a loop."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._indexer.run())
            loops.create_task(self._documents.run())
            loops.create_task(self.erasing.run())
            loops.create_task(_repeat(self.take_due, pause_s=self._due_s))
            loops.create_task(_repeat(self._work_when_queued, pause_s=0.0))
            loops.create_task(_repeat(self._visit_when_due, pause_s=0.0))
            loops.create_task(_repeat(record_use, pause_s=TICK_S))
            loops.create_task(_repeat(self._tidy_files, pause_s=TIDY_S))
            loops.create_task(self._follow_others())
            if self._scrubber is not None:
                loops.create_task(self._scrubber.run())

    async def take_due(self) -> None:
        """Claim and queue due work of the kinds that this process does, of which it has few queued."""
        kinds: list[WorkKind] = [
            kind for kind, queue in self._due.items() if len(queue) < limits.DUE_CLAIMED_MAX
        ]
        if not kinds:
            return
        claimed = await self._store.claim_due(kinds, lease=LEASE, limit=limits.DUE_CLAIMED_MAX)
        for due in claimed:
            self._due[due.kind].add(due.organization_id)

    async def _follow_others(self) -> None:
        """Drop the keys that other processes changed."""
        async for change in self._store.changes():
            self._forget_keys(change.organization_id)

    async def _work_when_queued(self) -> None:
        await self._jobs.wait()
        await asyncio.sleep(NOTICE_DELAY_S)
        for organization_id in self._jobs.take():
            await self.work(organization_id)

    async def _visit_when_due(self) -> None:
        await self._visits.wait()
        await self.visit_queued()

    async def visit_queued(self) -> int:
        """Do what is due in the queued organisations; return how many jobs were done."""
        return sum([await self.visit(organization_id) for organization_id in self._visits.take()])

    async def visit(self, organization_id: OrganizationId) -> int:
        """Empty the trash of what has expired, apply rules of retention, do the jobs; return how many."""
        return await self._reached(organization_id, self._visit)

    async def work(self, organization_id: OrganizationId) -> int:
        """Do the pending jobs of one organisation; return how many were done."""
        return await self._reached(organization_id, self._work_off)

    async def _reached(
        self,
        organization_id: OrganizationId,
        work: Callable[[OrganizationStore], Awaitable[int]],
    ) -> int:
        """Return what work on an organisation returns, 0 if it fails: the work of others goes on."""
        try:
            return await work(await self._store.organization(organization_id))
        except NotFoundError:
            return 0  # deleted meanwhile, and its jobs with it
        except EngramError:
            logger.exception("the jobs of organisation %s cannot be done now", organization_id)
            return 0

    async def _visit(self, store: OrganizationStore) -> int:
        # Each step is one short transaction, so that it can end anywhere and be done by any process.
        while (await store.trash.purge_expired(actor=SYSTEM)).removed:
            pass
        if await store.retention.list_rules():
            await store.enqueue_job(APPLY_RETENTION, "all")
        done = await self._work_off(store)
        return done + (await settle(store, "jobs", partial(self._work_off, store)) or 0)

    async def _work_off(self, store: OrganizationStore) -> int:
        done = 0
        while jobs := await store.claim_jobs(
            JOB_KINDS, owner=self._owner, lease=LEASE, limit=CLAIM_MAX
        ):
            for job in jobs:
                done += await self._perform(store, job)
        await store.tend_vectors()
        return done

    async def _perform(self, store: OrganizationStore, job: Job) -> bool:
        try:
            if job.kind == APPLY_RETENTION:
                if not (await apply_rules(store, actor=SYSTEM)).is_complete:
                    await store.postpone_job(job, owner=self._owner, delay=timedelta(0))
                    return False
            elif job.kind == MERGE_WORDS:
                await store.merge_words()
            else:
                await store.train_dictionary()
        except NotFoundError:
            raise
        except EngramError:
            logger.exception("job %s (%s) failed", job.id, job.kind)
            await store.postpone_job(job, owner=self._owner, delay=retry_delay(job.attempts))
            return False
        return await store.finish_job(job, owner=self._owner)


async def _repeat(step: Callable[[], Awaitable[None]], *, pause_s: float) -> None:
    """Take a step again and again; a failure is logged."""
    while True:
        try:
            await step()
        except Exception:
            logger.exception("background work failed; it will be tried again")
            await asyncio.sleep(FAILURE_DELAY_S)
        await asyncio.sleep(pause_s)
