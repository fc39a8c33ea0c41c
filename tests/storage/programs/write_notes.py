"""Open one organisation's file together with other processes, and write notes into it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from engram.storage.sqlite.file import FileOwner, SqliteFile
from engram.storage.threads import WorkerThreads
from tests.storage.notes import ORGANIZATION, add, create_notes, texts


async def main(path: str, name: str, rounds: str) -> None:
    """Write two notes a round, and expect to read them at once."""
    threads = WorkerThreads(4)
    owner = FileOwner(1, ORGANIZATION)
    file = SqliteFile(Path(path), kind="organization", threads=threads, owner=owner)
    await file.open(create=True)
    await file.write(create_notes)
    for number in range(int(rounds)):
        mine = [f"{name} {number} {part}" for part in "ab"]
        await asyncio.gather(*[file.write(add(text)) for text in mine])
        if not set(mine) <= set(await texts(file)):
            raise AssertionError(f"{mine} are not there")
    await file.close()
    threads.stop()


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    asyncio.run(main(*sys.argv[1:]))
