"""The background loops of a process: vectors, documents, jobs of the store, scrubbing, usage and files.

Jobs are leased, so every process may run them at once: when the lease of a dead one expires,
another takes the job over.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import assert_never

from engram.errors import EngramError, NotFoundError
from engram.model.access import SYSTEM
from engram.model.ids import OrganizationId
from engram.model.status import Job, KeysChanged, WorkAdded
from engram.service.work.document_indexing import DocumentIndexing
from engram.service.work.erasing import Erasing
from engram.service.work.indexing import Indexer
from engram.service.work.retention import APPLY_RETENTION, apply_rules
from engram.service.work.schedule import OrganizationQueue
from engram.service.work.scrubbing import Scrubber
from engram.storage.organization import OrganizationStore
from engram.storage.queue import retry_delay
from engram.storage.store import Store

logger = logging.getLogger(__name__)

TRAIN_DICTIONARY = "train_dictionary"
MERGE_WORDS = "merge_words"
JOB_KINDS = (MERGE_WORDS, TRAIN_DICTIONARY, APPLY_RETENTION)

LEASE = timedelta(minutes=5)
"""Longer than any job takes; after it another process tries."""

TICK_S = 60.0
"""How often usage is stored, and work that others had leased is checked."""

SWEEP_TICKS = 10
"""Ticks between two sweeps over all organisations, for work that a dead process left."""

NOTICE_DELAY_S = 0.1
"""Writes come in bursts: one check for many of them instead of one for each. Not longer: an import
of one second stores a thousand messages before the dictionary that it needs is trained.
"""

CLAIM_MAX = 8
"""Jobs leased at once: few, so that other processes find work too."""


def _forget_nothing(organization_id: OrganizationId | None) -> None:
    """Do nothing: no key is cached."""


async def _no_files() -> None:
    """Do nothing: there are no files."""


class Background:
    """The worker of a process: sleeps until there is work or a sweep is due."""

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
        tick_s: float = TICK_S,
    ) -> None:
        """Work on a store; `forget_keys` is called with organisations whose keys others changed."""
        self._store = store
        self._forget_keys = forget_keys
        self._tidy_files = tidy_files
        self._indexer = indexer
        self._documents = documents
        self._scrubber = scrubber
        self.erasing = erasing or Erasing(store, owner=owner)
        self._owner = owner
        self._tick_s = tick_s
        self._queue = OrganizationQueue()

    def announce_work(self, organization_id: OrganizationId) -> None:
        """Queue an organisation that may have work, in this process and in others."""
        self._enqueue(organization_id)
        self._store.announce(organization_id)

    async def run(self, record_use: Callable[[], Awaitable[None]]) -> None:
        """Work until cancelled; a failure is logged and never ends a loop."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._indexer.run())
            loops.create_task(self._documents.run())
            loops.create_task(self.erasing.run())
            loops.create_task(self._run_jobs(record_use))
            loops.create_task(self._follow_others())
            loops.create_task(self._keep_tidy())
            if self._scrubber is not None:
                loops.create_task(self._scrubber.run())

    async def _keep_tidy(self) -> None:
        """Tidy the files and the trash of organisations at the start, and then with every sweep."""
        while True:
            try:
                await self._tidy_files()
                await self.empty_trash()
                await self.queue_retention()
            except Exception:
                logger.exception("files could not be looked after; it will be tried again")
            await asyncio.sleep(self._tick_s * SWEEP_TICKS)

    async def empty_trash(self) -> int:
        """Remove what has expired in the trash of every organisation; return how many entries.

        Each step is one short transaction, so that it can end anywhere and be done by any process.
        """
        removed = 0
        for organization in await self._store.control.list_organizations():
            try:
                store = await self._store.organization(organization.id)
                while step := (await store.trash.purge_expired(actor=SYSTEM)).removed:
                    removed += step
            except NotFoundError:
                continue  # deleted meanwhile, and its trash with it
            except EngramError:
                logger.exception("the trash of organisation %s cannot be emptied", organization.id)
        return removed

    async def queue_retention(self) -> None:
        """Enqueue the job that applies the rules of retention, where an organisation has any."""
        for organization in await self._store.control.list_organizations():
            try:
                store = await self._store.organization(organization.id)
                if await store.retention.list_rules():
                    await store.enqueue_job(APPLY_RETENTION, "all")
                    self._queue.add(organization.id)
            except NotFoundError:
                continue  # deleted meanwhile
            except EngramError:
                logger.exception("the rules of organisation %s cannot be read", organization.id)

    async def _follow_others(self) -> None:
        """Queue the work that other processes announce, and drop the keys that they changed."""
        async for change in self._store.changes():
            match change:
                case WorkAdded(organization_id):
                    self._enqueue(organization_id)
                    self._documents.enqueue(organization_id)
                case KeysChanged(organization_id):
                    self._forget_keys(organization_id)
                case _:
                    assert_never(change)

    def _enqueue(self, organization_id: OrganizationId) -> None:
        self._indexer.enqueue(organization_id)
        self.erasing.enqueue(organization_id)
        self._queue.add(organization_id)

    async def _run_jobs(self, record_use: Callable[[], Awaitable[None]]) -> None:
        for tick in itertools.count(1):
            try:
                await self._work_until(asyncio.get_running_loop().time() + self._tick_s)
                await record_use()
                self._indexer.requeue()
                self._documents.requeue()
                if tick % SWEEP_TICKS == 0:
                    await self._indexer.sweep()
                    await self._documents.sweep()
                    await self.sweep()
            except Exception:
                logger.exception("background work failed; it will be tried again")

    async def sweep(self) -> int:
        """Do the pending jobs of every organisation; return how many were done."""
        organizations = await self._store.control.list_organizations()
        return sum([await self.work(organization.id) for organization in organizations])

    async def work(self, organization_id: OrganizationId) -> int:
        """Do the pending jobs of one organisation; return how many were done.

        A failure in one organisation's store is logged and does not stop the work of others.
        """
        try:
            store = await self._store.organization(organization_id)
            done = await self._work_off(store)
            await store.tend_vectors()
        except NotFoundError:
            return 0  # deleted meanwhile, and its jobs with it
        except EngramError:
            logger.exception("the jobs of organisation %s cannot be done now", organization_id)
            return 0
        else:
            return done

    async def _work_off(self, store: OrganizationStore) -> int:
        done = 0
        while jobs := await store.claim_jobs(
            JOB_KINDS, owner=self._owner, lease=LEASE, limit=CLAIM_MAX
        ):
            for job in jobs:
                done += await self._perform(store, job)
        return done

    async def _work_until(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    await self._queue.wait()
                    await asyncio.sleep(NOTICE_DELAY_S)
                    for organization_id in self._queue.take():
                        await self.work(organization_id)
        except TimeoutError:
            return

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
