"""Move a directory's organisations to PostgreSQL, and die by kill -9 before a page is noted.

Arguments: the directory, the address of the database, and how many notes it lives for. Exits with 0
only when everything has been moved.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engram.clock import RandomIds, SystemClock
from engram.storage.postgres.database import PostgresDatabase
from engram.storage.postgres.move import PostgresTarget
from engram.storage.rows.database import Connection
from engram.storage.sqlite.move import SqliteSource
from engram.transfer import tables
from engram.transfer.move import Mover

T = TypeVar("T")


class MortalControl:
    """Control tables that a process writes to for the last time after so many times."""

    def __init__(self, database: PostgresDatabase, writes_left: int) -> None:
        self._database = database
        self._writes_left = writes_left

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._database.read(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        if not self._writes_left:
            os.kill(os.getpid(), signal.SIGKILL)
        self._writes_left -= 1
        return await self._database.write(work)


class MortalTarget(PostgresTarget):
    """A target that the process does not live to finish."""

    writes_left = 0

    @property
    def control(self) -> MortalControl:  # pyright: ignore[reportIncompatibleMethodOverride] it does the same
        return self._mortal

    async def open(self, *, only_look: bool = False) -> None:
        await super().open(only_look=only_look)
        self._mortal = MortalControl(super().control, self.writes_left)


async def move_all(directory: Path, url: str, *, writes: int) -> None:
    target = MortalTarget(url, clock=SystemClock(), ids=RandomIds())
    target.writes_left = writes
    await target.open()
    mover = Mover(
        SqliteSource(directory),
        target,  # pyright: ignore[reportArgumentType] a move only reads and writes control tables
        clock=SystemClock(),
        address="db",
    )
    for plan in await mover.plan():
        await mover.move(plan)
    await target.close()


if __name__ == "__main__":
    tables.PAGE_ROWS = 100
    asyncio.run(move_all(Path(sys.argv[1]), sys.argv[2], writes=int(sys.argv[3])))
