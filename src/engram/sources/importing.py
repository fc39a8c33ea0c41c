"""Import files: plan by the ledger, read in threads, send what was read to a sink."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from engram.clock import Clock, SystemClock
from engram.model.capture import CaptureReceipt, CaptureRequest
from engram.sources.batches import MEMORY_OFF, Batch, Batches, Choices
from engram.sources.ledger import Entry, Ledger, edges_of, plan, state_of
from engram.sources.values import (
    STILL_WRITTEN,
    Source,
    SourceError,
    SourceFile,
    SourceMemory,
    Tally,
)

FILES_AT_ONCE = 4
"""Files that are imported side by side: while one waits for the disk, others are read and embedded."""


class Sink(Protocol):
    """Where what was read goes: the store's use cases, here or over the network."""

    async def capture(self, request: CaptureRequest) -> CaptureReceipt:
        """Store the messages of a session that are not there yet."""
        ...

    async def remember(self, source: str, memories: Sequence[SourceMemory]) -> Remembered:
        """Store the memories of another store that are not there yet."""
        ...


class Remembered(NamedTuple):
    """How many memories were stored, were there before, and had been removed."""

    stored: int
    known: int
    forgotten: int


@dataclass(slots=True)
class Report:
    """What an import did with the files of a source."""

    source: str
    files: int = 0
    unchanged: int = 0
    """Files that were not written since they were imported."""
    stored: int = 0
    known: int = 0
    """Messages that were stored before."""
    forgotten: int = 0
    """Messages of conversations that were deleted here."""
    unattributed: int = 0
    """Sessions without a directory that would tell their project."""
    tally: Tally = field(default_factory=Tally)
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Files that could not be read, and why."""

    def add(self, other: Report) -> None:
        """Count what another report of the same source counts."""
        self.files, self.unchanged = other.files, other.unchanged
        self.stored += other.stored
        self.known += other.known
        self.forgotten += other.forgotten
        self.unattributed += other.unattributed
        self.tally.add(other.tally)
        self.failed |= other.failed

    def as_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "files": self.files,
            "unchanged": self.unchanged,
            "read": self.tally.read,
            "stored": self.stored,
            "known": self.known,
            "forgotten": self.forgotten,
            "unattributed": self.unattributed,
            "skipped": dict(self.tally.skipped.most_common()),
            "drift": dict(self.tally.drift.most_common()),
            "failed": self.failed,
        }


Advance = Callable[[int], None]
"""Receives how many messages were handled since the last call."""


async def import_files(
    source: Source,
    paths: Sequence[Path],
    *,
    sink: Sink,
    ledger: Ledger | None,
    choices: Choices,
    clock: Clock | None = None,
    advance: Advance = lambda _: None,
) -> Report:
    """Import what was written to files of a source since the last time; a file that fails costs itself.

    Without a ledger everything is read. Imported again, by whatever process, nothing is stored twice.
    """
    work = _Work(
        source=source,
        sink=sink,
        ledger=ledger,
        choices=choices,
        clock=clock or SystemClock(),
        advance=advance,
        known={} if ledger is None else await asyncio.to_thread(ledger.load, source),
        report=Report(source=source.name),
    )
    waiting = iter(paths)

    async def take_files() -> None:
        for path in waiting:
            await work.import_file(path)

    workers = [asyncio.create_task(take_files()) for _ in range(FILES_AT_ONCE)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)
        await work.save()
    return work.report


@dataclass(slots=True, kw_only=True)
class _Work:
    """One import of a source."""

    source: Source
    sink: Sink
    ledger: Ledger | None
    choices: Choices
    clock: Clock
    advance: Advance
    known: dict[Path, Entry]
    report: Report
    imported: dict[Path, Entry] = field(default_factory=dict[Path, Entry])

    async def import_file(self, path: Path) -> None:
        self.report.files += 1
        tally = Tally()
        try:
            file = plan(self.source, path, self.known.get(path))
            if file is None or self._is_too_old(path):
                self.report.unchanged += 1
                return
            # Before it is read: what is written meanwhile is read the next time.
            state = state_of(path)
            await self._read(file, tally)
            entry = self._entry(path, state, tally)
        except (OSError, SourceError) as exc:
            self.report.failed[str(path)] = getattr(exc, "strerror", None) or str(exc)
            return
        finally:
            self.report.tally.add(tally)
        if self.ledger is not None and not self._is_partial(tally):
            self.imported[path] = entry
            if len(self.imported) >= _SAVED_TOGETHER:
                await self.save()

    def _is_partial(self, tally: Tally) -> bool:
        """Return True if what was left out now may be wanted another time."""
        choices = self.choices
        is_waiting = self.source.is_rewritten and STILL_WRITTEN in tally.skipped
        is_left = is_waiting or MEMORY_OFF in tally.skipped
        return choices.is_dry_run or choices.since is not None or is_left

    def _is_too_old(self, path: Path) -> bool:
        since = self.choices.since
        return since is not None and path.stat().st_mtime < since.timestamp()

    def _entry(self, path: Path, state: str, tally: Tally) -> Entry:
        read_to = tally.end if self.source.resumes else 0
        drift = (
            Counter(self.known[path].drift) if path in self.known and read_to else Counter[str]()
        )
        return Entry(
            state, read_to, edges_of(path, read_to), self.clock.now(), dict(drift + tally.drift)
        )

    async def _read(self, file: SourceFile, tally: Tally) -> None:
        batches = Batches(self.source, file, tally, self.choices, now=self.clock.now())
        async for batch in _in_thread(iter(batches)):
            await self._send(batch)
        self.report.unattributed += batches.unattributed

    async def _send(self, batch: Batch) -> None:
        if isinstance(batch, CaptureRequest):
            count = len(batch.messages)
            send = partial(self.sink.capture, batch)
        else:
            count = len(batch)
            send = partial(self.sink.remember, self.source.name, batch)
        if self.choices.is_dry_run:
            self.report.stored += count
        else:
            receipt = await send()
            self.report.stored += receipt.stored
            self.report.known += receipt.known
            self.report.forgotten += receipt.forgotten
        self.advance(count)

    async def save(self) -> None:
        """Record the files that were imported, all that was read of them being stored."""
        imported, self.imported = self.imported, {}
        if self.ledger is not None and imported:
            await asyncio.to_thread(self.ledger.save, self.source, imported)


_SAVED_TOGETHER = 100
"""Files that the ledger records in one transaction."""


async def _in_thread(batches: Iterator[Batch]) -> AsyncIterator[Batch]:
    """Yield batches that a thread reads; the next one is read while one is stored."""
    reading = asyncio.create_task(asyncio.to_thread(next, batches, None))
    try:
        while (batch := await reading) is not None:
            reading = asyncio.create_task(asyncio.to_thread(next, batches, None))
            yield batch
    finally:
        if not reading.done():
            await asyncio.wait([reading])


def find_files(source: Source, roots: Sequence[Path]) -> list[Path]:
    """Return the files of a source at or below some paths, oldest first."""
    found = set[Path]()
    for root in roots:
        if root.is_file():
            found.add(root)
        elif root.is_dir():
            for pattern in source.patterns:
                found.update(path for path in root.glob(pattern) if path.is_file())
    return sorted(filter(source.is_chosen, found), key=lambda path: (_written_at(path), path))


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0  # Removed since it was found; reading it will report that.
