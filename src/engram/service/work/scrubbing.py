"""Reads everything that is stored, at a bounded rate and behind all callers, so that damage is found early."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from engram.clock import Clock
from engram.embedding.retry import Sleep
from engram.errors import EngramError
from engram.model.ids import OrganizationId
from engram.service.access.usage import Activity
from engram.service.work.schedule import OrganizationQueue, Pace, open_if_exists
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store

if TYPE_CHECKING:
    from engram.storage.checks.scrubbing import ScrubStep

logger = logging.getLogger(__name__)

LEASE = timedelta(minutes=5)
"""Of one organisation: far longer than a slice takes."""

SLICE_S = 30.0
"""Spent on one organisation before the next has its turn; a process that dies loses as much work."""

START_S = 60.0
"""After the start of a process: it has more to do then, and many live no longer."""

FAILURE_DELAY_S = 60.0
"""The pause after a failure that is not due to an organisation."""


class Scrubber:
    """Proves the contents and rows of all organisations, one after another."""

    def __init__(
        self,
        store: Store,
        *,
        owner: str,
        clock: Clock,
        activity: Activity,
        bytes_per_s: int,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Read `bytes_per_s` at most; 0 reads nothing."""
        self._store = store
        self._owner = owner
        self._clock = clock
        self._activity = activity
        self._pace = Pace(activity, sleep=sleep)
        self._bytes_per_s = bytes_per_s
        self._sleep = sleep
        self.queue = OrganizationQueue()
        """Organisations whose pass may be due."""

    @property
    def is_on(self) -> bool:
        """Return True if anything is to be read."""
        return self._bytes_per_s > 0

    async def run(self) -> None:
        """Read until cancelled; a failure is logged and never ends the loop."""
        if not self.is_on:
            return
        await self._sleep(START_S)
        while True:
            try:
                await self.queue.wait()
                await self.work_queued()
            except Exception:
                logger.exception("scrubbing failed; it will be tried again")
                await self._sleep(FAILURE_DELAY_S)

    async def work_queued(self) -> int:
        """Read a slice of every queued organisation; return of how many there was one to read."""
        done = 0
        for organization_id in self.queue.take():
            if await self.work(organization_id):
                self.queue.add(organization_id)
                done += 1
        return done

    async def work(self, organization_id: OrganizationId) -> bool:
        """Read a slice of an organisation; False if nothing is due, or another process reads it."""
        try:
            store = await open_if_exists(self._store, organization_id)
            if store is None:
                return False
            if await self._read_slice(store):
                return True
            await store.settle_due("scrub", is_stuck=True)
        except EngramError:
            logger.exception("organisation %s cannot be scrubbed now", organization_id)
        return False

    async def _read_slice(self, store: OrganizationStore) -> bool:
        scrubbing = store.scrubbing
        progress = await scrubbing.claim_scrub(owner=self._owner, lease=LEASE)
        if progress is None:
            return False
        time = asyncio.get_running_loop().time
        deadline, hashed = time() + SLICE_S, 0
        while progress.table is not None and time() < deadline:
            began = time()
            step, progress = await scrubbing.scrub_step(progress)
            worked_s = time() - began
            self._note(store.organization_id, step)
            hashed += step.unhashed
            await self._sleep(step.read_bytes / self._bytes_per_s)
            await self._pace.rest(worked_s=worked_s)
        if hashed:
            told = "%d rows of organisation %s, stored by an older version, have hashes now"
            logger.info(told, hashed, store.organization_id)
        is_stored = await scrubbing.put_scrub(progress, owner=self._owner)
        if is_stored and progress.table is None:
            self._activity.scrub_finished_s = self._clock.now().timestamp()
        return True

    def _note(self, organization_id: OrganizationId, step: ScrubStep) -> None:
        """Count what a step has read, and log what is damaged."""
        self._activity.scrubbed_bytes += step.read_bytes
        self._activity.scrub_faults += len(step.faults)
        for fault in step.faults:
            logger.error("organisation %s is damaged: %s", organization_id, fault)
