"""Notices of new work between processes that share a directory: lines of one small file.

A process appends the organisations that it gave work to; others look at the length of the file. Nothing
relies on a notice: work that none was read of is found by the next sweep.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from math import inf
from pathlib import Path

from engram import limits
from engram.errors import StorageError
from engram.model.ids import OrganizationId
from engram.storage.threads import WorkerThreads

logger = logging.getLogger(__name__)

FILE_NAME = "engram.work"


class Notices:
    """Sends and reads the notices of one directory."""

    def __init__(self, directory: Path, *, threads: WorkerThreads) -> None:
        self._path = directory / FILE_NAME
        self._threads = threads
        self._name = secrets.token_hex(8)
        """Identifies this process, which needs no notice of its own work."""
        self._lock = threading.Lock()
        self._unsent: dict[OrganizationId, None] = {}
        self._sent_at = -inf

    def announce(self, organization_id: OrganizationId) -> None:
        """Notify other processes soon; returns at once."""
        self._unsent[organization_id] = None
        if self._threads.scheduler.monotonic() > self._sent_at + limits.NOTICE_S:
            self._sent_at = self._threads.scheduler.monotonic()
            self._threads.start(self.send)

    def send(self) -> None:
        """Write the notices that were not sent yet; on failure they are dropped."""
        with self._lock:
            unsent, self._unsent = self._unsent, {}
            if not unsent:
                return
            lines = "".join(f"{self._name} {each}\n" for each in unsent)
            try:
                _append(self._path, lines.encode())
            except OSError:
                logger.debug("other processes get no notice of new work", exc_info=True)

    async def follow(self) -> AsyncGenerator[OrganizationId]:
        """Yield the organisations that other processes announce from now on; raises nothing.

        A while passes first: whoever announced work mostly does it.
        """
        due = dict[OrganizationId, float]()
        try:
            place = await self._threads.run(partial(_length, self._path))
            while True:
                await asyncio.sleep(limits.NOTICE_S)
                await self._threads.run(self.send)
                lines, place = await self._threads.run(partial(_read, self._path, place))
                for organization_id in self._foreign(lines):
                    due.setdefault(
                        organization_id, self._threads.scheduler.monotonic() + limits.NOTICE_HELP_S
                    )
                for organization_id in [
                    each for each, at in due.items() if at < self._threads.scheduler.monotonic()
                ]:
                    del due[organization_id]
                    yield organization_id
        except StorageError:
            logger.debug("the store was closed")

    def _foreign(self, lines: Sequence[str]) -> list[OrganizationId]:
        pairs = [line.split() for line in lines]
        return [
            OrganizationId(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] != self._name
        ]


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_size > limits.NOTICES_BYTES_MAX:
            os.ftruncate(descriptor, 0)  # whoever has not read them finds the work by a sweep
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read(path: Path, place: int) -> tuple[Sequence[str], int]:
    """Return the lines after `place`, and where they end; all lines if the file was begun anew."""
    length = _length(path)
    if length == place:
        return (), place
    try:
        with path.open("rb") as file:
            file.seek(place if place < length else 0)
            data = file.read(2 * limits.NOTICES_BYTES_MAX)
            return data.decode(errors="replace").splitlines(), file.tell()
    except OSError:
        return (), place
