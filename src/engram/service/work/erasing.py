"""Removes what was deleted or erased, in steps, behind all callers.

Every step is a transaction of its own that looks at what is left. So a process that is killed is followed by the
next one, and two that work on the same erasure are in nobody's way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta
from functools import partial

from engram.embedding.retry import Sleep
from engram.errors import EngramError, NotFoundError
from engram.model.ids import ErasureId, OrganizationId
from engram.model.status import Job
from engram.service.work.schedule import OrganizationQueue, Pace, open_if_exists, settle
from engram.storage.organization import OrganizationStore
from engram.storage.queue import ERASING_JOBS, retry_delay
from engram.storage.store import Store

logger = logging.getLogger(__name__)

ERASE = "erase"

LEASE = timedelta(minutes=5)
"""Longer than a slice; after it another process goes on."""

SLICE_S = 60.0
"""Spent on one job before it is given back, and others have their turn."""

FAILURE_DELAY_S = 5.0
"""The pause after a failure that is not due to an organisation."""

ForgetFiles = Callable[[OrganizationId, Collection[str]], Awaitable[int]]
"""Removes the files that are named after any of some ids; returns how many."""


async def _no_files(_: OrganizationId, __: Collection[str]) -> int:
    """Return 0: there are no files."""
    return 0


class Erasing:
    """Does the jobs of deletions and erasures."""

    def __init__(
        self,
        store: Store,
        *,
        owner: str,
        pace: Pace | None = None,
        forget_files: ForgetFiles = _no_files,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._store = store
        self._owner = owner
        self._pace = pace
        self._forget_files = forget_files
        self._sleep = sleep
        self.queue = OrganizationQueue()
        """Organisations that may have something to remove."""

    async def run(self) -> None:
        """Work until cancelled; a failure is logged and never ends the loop."""
        while True:
            try:
                await self.queue.wait()
                await self.work_queued()
            except Exception:
                logger.exception("what was erased cannot be removed now; it will be tried again")
                await self._sleep(FAILURE_DELAY_S)

    async def work_queued(self) -> int:
        """Do the waiting jobs of the queued organisations; return how many were finished."""
        return sum([await self.work(organization_id) for organization_id in self.queue.take()])

    async def work(self, organization_id: OrganizationId) -> int:
        """Do the waiting jobs of one organisation; return how many were finished."""
        try:
            store = await open_if_exists(self._store, organization_id)
            if store is None:
                return 0
            done = await self._work_off(store)
            await store.erasing.drop_cached()
            return done + (await settle(store, "erasing", partial(self._work_off, store)) or 0)
        except NotFoundError:
            return 0  # Deleted meanwhile, and its jobs with it.
        except EngramError:
            logger.exception("what %s has erased cannot be removed now", organization_id)
            return 0

    async def _work_off(self, store: OrganizationStore) -> int:
        done = 0
        while jobs := await store.claim_jobs(ERASING_JOBS, owner=self._owner, lease=LEASE, limit=1):
            done += await self._perform(store, jobs[0])
        return done

    async def _perform(self, store: OrganizationStore, job: Job) -> bool:
        try:
            if job.kind == ERASE:
                is_done = await self.finish(store, ErasureId(job.subject), within_s=SLICE_S)
            else:
                is_done = await self._remove_conversations(store)
        except EngramError as exc:
            if isinstance(exc, NotFoundError):
                raise
            logger.exception("job %s (%s) failed", job.id, job.kind)
            await store.postpone_job(job, owner=self._owner, delay=retry_delay(job.attempts))
            return False
        if is_done:
            return await store.finish_job(job, owner=self._owner)
        await store.postpone_job(job, owner=self._owner, delay=timedelta(0))
        return False

    async def finish(
        self, store: OrganizationStore, erasure_id: ErasureId, *, within_s: float
    ) -> bool:
        """Do what is left of an erasure; return False if that takes longer.

        Raises:
            StoreBusyError: others hold a file all the time, so that it cannot be written anew.
        """
        erasing, time = store.erasing, asyncio.get_running_loop().time
        deadline = time() + within_s
        await erasing.hide(erasure_id)
        while await self._paced(erasing.remove_some(erasure_id)):
            if time() > deadline:
                return False
        state = (await erasing.get(erasure_id)).state
        if state == "removing":
            await erasing.replace_dictionaries()
            ids = await erasing.list_erased(erasure_id)
            files = await self._forget_files(store.organization_id, ids)
            await erasing.begin_rewriting(erasure_id, files=files)
        if state != "finished":
            await erasing.rewrite(erasure_id)
        return True

    async def _remove_conversations(self, store: OrganizationStore) -> bool:
        time = asyncio.get_running_loop().time
        began = time()
        while await self._paced(store.remove_leaving()):
            if time() > began + SLICE_S:
                return False
        return True

    async def _paced(self, step: Awaitable[bool]) -> bool:
        """Return what a step returns, after a rest while callers come."""
        began = asyncio.get_running_loop().time()
        has_more = await step
        if self._pace is not None:
            await self._pace.rest(worked_s=asyncio.get_running_loop().time() - began)
        return has_more
