"""Several processes on one store: they create, migrate and write it at once, and none is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from engram.storage.sqlite.file import SqliteFile
from tests.storage.conftest import OpenFile
from tests.storage.notes import texts

PROCESSES = 8
WRITES = 25

WRITER = """
import asyncio, sys
from pathlib import Path
from engram.storage.sqlite.file import SqliteFile
from engram.storage.sqlite.owner import FileOwner
from engram.storage.sqlite.threads import WorkerThreads
from tests.storage.notes import ORGANIZATION, add, create_notes, texts

async def main(path, name, writes):
    threads = WorkerThreads(4)
    owner = FileOwner(1, ORGANIZATION)
    file = SqliteFile(Path(path), kind="organization", threads=threads, owner=owner)
    print("ready", flush=True)
    sys.stdin.readline()
    await file.open(create=True)
    await file.write(create_notes)
    for number in range(int(writes)):
        mine = [f"{name} {number:03} {part}" for part in "ab"]
        await asyncio.gather(*[file.write(add(text)) for text in mine])
        assert set(mine) <= set(await texts(file))
    await file.close()
    threads.stop()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_eight_processes_create_migrate_and_write_one_file_at_once(
    tmp_path: Path, open_file: OpenFile
) -> None:
    processes = [start(tmp_path / "one.db", name=f"p{number}") for number in range(PROCESSES)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    outcomes = [process.communicate(timeout=120) for process in release(processes)]

    assert [error for _, error in outcomes] == [""] * PROCESSES
    assert [process.returncode for process in processes] == [0] * PROCESSES
    file: SqliteFile = await open_file()
    assert await texts(file) == sorted(
        f"p{process} {number:03} {part}"
        for process in range(PROCESSES)
        for number in range(WRITES)
        for part in "ab"
    )


def start(path: Path, *, name: str) -> subprocess.Popen[str]:
    """Start a process that waits for a line before it opens the file."""
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(WRITES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def release(processes: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    """Let all of them go before waiting for any."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes
