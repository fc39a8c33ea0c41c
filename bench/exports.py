"""Moving everything out and in: exports and their imports, beside a bare copy and a copy of the database.

One store holds documents, which are copied as bytes; the other holds chat, and the import indexes every
message of it again.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, allowed
from bench.filling import fill_documents, fill_messages
from bench.opening import open_parts
from engram.embedding.choice import NoEmbedder
from engram.settings import Settings

MB = 1_000_000
GROWTH_MB = 64
"""By which a process may grow while it moves a store of any size."""
DOCUMENTS, DOCUMENTS_QUICK = 25, 2
"""Of 40 MB each."""
MESSAGES, MESSAGES_QUICK = 100_000, 4_000


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of exports and imports."""
    documents = DOCUMENTS_QUICK if quick else DOCUMENTS
    messages = MESSAGES_QUICK if quick else MESSAGES
    return [
        *_figures("documents", _measure(documents=documents)),
        *_figures(f"{messages:,} messages", _measure(messages=messages)),
    ]


@dataclass(frozen=True, slots=True)
class _Run:
    """One process: its time, and its peak above what it had before."""

    seconds: float
    growth_mb: float


@dataclass(frozen=True, slots=True)
class _Moved:
    """What it took to move one store."""

    size_mb: float
    """Of the export."""
    exported: _Run
    imported: _Run
    copied_s: float
    backed_up_s: float


def _measure(*, documents: int = 0, messages: int = 0) -> _Moved:
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        place = Path(directory)
        source, file = place / "source", place / "export.ndjson"
        asyncio.run(_fill(source, documents=documents, messages=messages))
        exported = _run(source, "export", file)
        return _Moved(
            size_mb=file.stat().st_size / MB,
            exported=exported,
            imported=_run(place / "target", "import", file),
            copied_s=_copy(file, place / "copy"),
            backed_up_s=_back_up(source, place / "backup.db"),
        )


async def _fill(home: Path, *, documents: int, messages: int) -> None:
    async with open_parts(Settings(home=home, embedder=NoEmbedder())) as parts:
        me = await parts.service.access.local_principal()
        await fill_messages(parts.service, me, messages=messages)
        await fill_documents(parts.service, me, documents=documents)


def _run(home: Path, action: str, file: Path) -> _Run:
    command = [sys.executable, "-m", "bench.moving", str(home), action, str(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return _Run(*json.loads(done.stdout))


def _copy(file: Path, target: Path) -> float:
    """Return how long the bare copy of a file takes until it is on the disk."""
    started = time.perf_counter()
    with file.open("rb") as source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
        copy.flush()
        os.fsync(copy.fileno())
    return time.perf_counter() - started


def _back_up(home: Path, target: Path) -> float:
    """Return how long SQLite takes to copy the organisation's file, as `.backup` does."""
    (file,) = (home / "orgs").glob("*.db")
    started = time.perf_counter()
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    return time.perf_counter() - started


def _figures(of: str, moved: _Moved) -> list[Figure]:
    figures = list[Figure]()
    for name, run in (("export", moved.exported), ("import", moved.imported)):
        named = f"{name} of {moved.size_mb:,.0f} MB, {of}"
        for floor_name, floor_s in (
            ("bare copy of the file", moved.copied_s),
            ("sqlite3 .backup", moved.backed_up_s),
        ):
            figures.append(
                Figure(
                    name=named,
                    value=moved.size_mb / run.seconds,
                    unit="MB/s",
                    floor=moved.size_mb / floor_s,
                    floor_name=floor_name,
                    direction="at least",
                    bound=None,
                )
            )
        figures.append(
            allowed(f"memory grown by an {named}", run.growth_mb, unit="MB", at_most=GROWTH_MB)
        )
    return figures
