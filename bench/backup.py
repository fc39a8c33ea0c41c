"""Backup and restore of a store, beside SQLite's own backup and a bare copy of the file; peak memory."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from bench.figures import Figure, allowed
from bench.filling import fill_documents, fill_messages, new_organization
from bench.start import engram_environment
from engram.backup.catalog import read_catalog
from engram.backup.creating import create_backup, staging_in
from engram.backup.destination import DirectoryDestination
from engram.backup.restoring import restore_backup
from engram.clock import SystemClock
from engram.embedding.choice import NoEmbedder
from engram.settings import Settings
from engram.storage.sqlite.snapshot import hold_store, put_mark
from engram.wiring import open_service

MESSAGES = 2_000
DOCUMENTS, DOCUMENTS_QUICK = 10, 1
"""They fill a file in seconds, as nothing of them is indexed here."""
_LAUNCHER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Prints the kilobytes of a command. A process begins with the peak of the one that starts it, so that is small."""

ROUNDS = 3
MB_MAX = 80
"""Of the process, its imports included."""


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of backup and restore."""
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as place:
        directory = Path(place)
        home = directory / "store"
        asyncio.run(_fill(home, documents=DOCUMENTS_QUICK if quick else DOCUMENTS))
        (path,) = (home / "orgs").glob("*.db")
        size_mb = sum(each.stat().st_size for each in (path, home / "engram.db")) / 1e6
        return _figures(directory, home, path, size_mb)


def _figures(directory: Path, home: Path, path: Path, size_mb: float) -> list[Figure]:
    of_size = f"of {size_mb:,.0f} MB"
    own = size_mb / _quickest(lambda: _copy_by_sqlite(path, directory / "by-sqlite.db"))
    bare = size_mb / _quickest(lambda: _copy(path, directory / "bare.db"))
    made = size_mb / _quickest(lambda: _back_up(home, directory / "backups"))
    again = size_mb / _quickest(lambda: _back_up(home, directory / "backups", full=False))
    restored = size_mb / _quickest(lambda: _restore(directory / "backups", directory / "restored"))
    return [
        _rate(f"backup {of_size}", made, own, "sqlite3 .backup"),
        _rate(f"backup {of_size}", made, bare, "bare copy"),
        _rate(f"backup {of_size} that has not changed", again, own, "sqlite3 .backup"),
        _rate(f"restore {of_size}", restored, bare, "bare copy"),
        allowed(
            f"peak memory of a backup {of_size}",
            _peak_mb(home, "backup", str(directory / "by-process")),
            unit="MB",
            at_most=MB_MAX,
        ),
        allowed(
            f"peak memory of a restore {of_size}",
            _peak_mb(directory / "restored-by-process", "restore", str(directory / "by-process")),
            unit="MB",
            at_most=MB_MAX,
        ),
    ]


def _rate(name: str, value: float, floor: float, floor_name: str) -> Figure:
    return Figure(
        name=name,
        value=value,
        unit="MB/s",
        floor=floor,
        floor_name=floor_name,
        direction="at least",
        bound=None,
    )


async def _fill(home: Path, *, documents: int) -> None:
    async with open_service(Settings(home=home, embedder=NoEmbedder())) as service:
        principal = await new_organization(service)
        await fill_messages(service, principal, messages=MESSAGES)
        await fill_documents(service, principal, documents=documents)


def _quickest(work: Callable[[], None]) -> float:
    """Return the seconds of the quickest of some rounds."""
    times = list[float]()
    for _ in range(ROUNDS):
        began = time.monotonic()
        work()
        times.append(time.monotonic() - began)
    return min(times)


def _copy_by_sqlite(path: Path, target: Path) -> None:
    """Do what `.backup` of the sqlite3 program does."""
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copied:
        source.backup(copied, pages=100)


def _copy(path: Path, target: Path) -> None:
    shutil.copyfile(path, target)
    with target.open("rb+") as copied:
        os.fsync(copied.fileno())


def _back_up(home: Path, place: Path, *, full: bool = True) -> None:
    with staging_in(home) as staging, hold_store(home, clock=SystemClock()) as held:
        create_backup(
            held, DirectoryDestination(place), staging=staging, full=full, advance=_nothing
        )


def _restore(place: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    destination = DirectoryDestination(place)
    manifest = read_catalog(destination).find(None)
    restore_backup(
        manifest, destination, target, identities=(), put_mark=put_mark, advance=_nothing
    )


def _nothing(_: int) -> None:
    """Show no progress."""


def _peak_mb(home: Path, *arguments: str) -> float:
    """Return the most memory that a command had."""
    done = subprocess.run(
        [sys.executable, "-c", _LAUNCHER, sys.executable, "-m", "engram", *arguments],
        env=engram_environment(home),
        stdout=subprocess.PIPE,
        check=True,
    )
    return int(done.stdout) / 1_000
