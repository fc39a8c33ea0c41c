"""Work nobody waits for: vectors, documents, jobs of the store, and when keys were last used.

Jobs are leased, so every process may run this loop at once; a dead one's lease expires and another
takes the job up.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import assert_never

from engram.errors import EngramError, NotFoundError
from engram.model.changes import KeysChanged, WorkAdded
from engram.model.ids import OrganizationId
from engram.model.status import Job
from engram.service.document_indexing import DocumentIndexing
from engram.service.indexing import Indexer
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store

logger = logging.getLogger(__name__)

TRAIN_DICTIONARY = "train_dictionary"
JOB_KINDS = (TRAIN_DICTIONARY,)

LEASE = timedelta(minutes=5)
"""Longer than any job takes; after it another process tries."""

RETRY_DELAY = timedelta(seconds=30)
"""Doubled with every attempt."""

RETRY_DELAY_MAX = timedelta(hours=1)
TICK_S = 60.0
"""How often the use of keys is written down, and messages are looked at that others had leased."""

SWEEP_TICKS = 10
"""Every so many ticks all organisations are looked at, for work that a dead process left."""

NOTICE_DELAY_S = 0.1
"""Writes come in bursts: one look for many of them instead of one for each. Not longer: an import
that runs for a second stores a thousand messages without the dictionary that it asked for.
"""

CLAIM_MAX = 8
"""Jobs leased at once: few, so that other processes find work too."""


def _forget_nothing(organization_id: OrganizationId | None) -> None:
    """Do nothing: no key is remembered."""


async def _no_files() -> None:
    """Do nothing: there are no files to look after."""


class Background:
    """One process's worker: sleeps until work is noticed or a sweep is due."""

    def __init__(
        self,
        store: Store,
        *,
        indexer: Indexer,
        documents: DocumentIndexing,
        owner: str,
        forget_keys: Callable[[OrganizationId | None], None] = _forget_nothing,
        tidy_files: Callable[[], Awaitable[None]] = _no_files,
        tick_s: float = TICK_S,
    ) -> None:
        """Work on a store; `forget_keys` is told whose keys another process has ended."""
        self._store = store
        self._forget_keys = forget_keys
        self._tidy_files = tidy_files
        self._indexer = indexer
        self._documents = documents
        self._owner = owner
        self._tick_s = tick_s
        self._noticed: set[OrganizationId] = set()
        self._wake = asyncio.Event()

    def notice(self, organization_id: OrganizationId) -> None:
        """Look at this organisation's jobs and waiting messages soon, and let others look too."""
        self._look_at(organization_id)
        self._store.announce(organization_id)

    async def run(self, record_use: Callable[[], Awaitable[None]]) -> None:
        """Work until cancelled; a failure is logged and never ends a loop."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._indexer.run())
            loops.create_task(self._documents.run())
            loops.create_task(self._run_jobs(record_use))
            loops.create_task(self._follow_others())
            loops.create_task(self._keep_tidy())

    async def _keep_tidy(self) -> None:
        """Look after the files of organisations at the start, and then with every sweep."""
        while True:
            try:
                await self._tidy_files()
            except Exception:
                logger.exception("files could not be looked after; it will be tried again")
            await asyncio.sleep(self._tick_s * SWEEP_TICKS)

    async def _follow_others(self) -> None:
        """Work on what other processes announce, and believe no key that they revoked."""
        async for change in self._store.changes():
            match change:
                case WorkAdded(organization_id):
                    self._look_at(organization_id)
                    self._documents.notice(organization_id)
                case KeysChanged(organization_id):
                    self._forget_keys(organization_id)
                case _:
                    assert_never(change)

    def _look_at(self, organization_id: OrganizationId) -> None:
        self._indexer.notice(organization_id)
        self._noticed.add(organization_id)
        self._wake.set()

    async def _run_jobs(self, record_use: Callable[[], Awaitable[None]]) -> None:
        for tick in itertools.count(1):
            try:
                await self._work_until(asyncio.get_running_loop().time() + self._tick_s)
                await record_use()
                self._indexer.look_again()
                self._documents.look_again()
                if tick % SWEEP_TICKS == 0:
                    await self._indexer.sweep()
                    await self._documents.sweep()
                    await self.sweep()
            except Exception:
                logger.exception("background work failed; it will be tried again")

    async def sweep(self) -> int:
        """Do the waiting jobs of every organisation; return how many were done."""
        organizations = await self._store.control.list_organizations()
        return sum([await self.work(organization.id) for organization in organizations])

    async def work(self, organization_id: OrganizationId) -> int:
        """Do the waiting jobs of one organisation; return how many were done.

        What is wrong with one organisation's store is logged and harms no other's work.
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
                    await self._wake.wait()
                    await asyncio.sleep(NOTICE_DELAY_S)
                    self._wake.clear()
                    await self._work_noticed()
        except TimeoutError:
            return

    async def _work_noticed(self) -> None:
        noticed, self._noticed = self._noticed, set()
        for organization_id in noticed:
            await self.work(organization_id)

    async def _perform(self, store: OrganizationStore, job: Job) -> bool:
        try:
            await store.train_dictionary()
        except NotFoundError:
            raise
        except EngramError:
            logger.exception("job %s (%s) failed", job.id, job.kind)
            delay = min(RETRY_DELAY * 2 ** min(job.attempts, 10), RETRY_DELAY_MAX)
            await store.postpone_job(job, owner=self._owner, delay=delay)
            return False
        return await store.finish_job(job, owner=self._owner)
