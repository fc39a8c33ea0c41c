"""Export an organisation to a file, or import one into it, and die at the n-th step.

    python -m tests.transfer.programs.killed_import PLACE ORGANIZATION export|import FILE N

Steps are the pieces of the file, half of each written piece, and of each transaction its beginning, the end of
its work before the commit, and the moment after it. Prints how many there were if the work was done before.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from engram.clock import SystemClock
from engram.model.ids import OrganizationId
from engram.storage.organization import OrganizationStore
from tests.storage.places import store_at
from tests.transfer.exports import export_stream, import_stream

PIECE_BYTES = 200_000


class Steps:
    """Counts steps, and kills the process at one of them."""

    def __init__(self, last: int) -> None:
        self._numbers = itertools.count(1)
        self._last = last

    def take(self) -> int:
        number = next(self._numbers)
        if number == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        return number


async def main(place: str, organization_id: str, action: str, path: str, last: str) -> None:
    """Open the store of a place, and move everything out of an organisation or into it."""
    store, steps = store_at(place, clock=SystemClock()), Steps(int(last))
    await store.open()
    mine = await store.organization(OrganizationId(organization_id))
    if action == "export":
        await write_export(mine, Path(path), steps)
    else:
        await read_import(mine, Path(path), steps)
    print(steps.take())  # noqa: T201 for the test
    await store.close()


async def write_export(mine: OrganizationStore, path: Path, steps: Steps) -> None:
    with path.open("wb", buffering=0) as file:
        async for part in export_stream(mine):
            for half in (part[: len(part) // 2], part[len(part) // 2 :]):
                steps.take()
                file.write(half)


async def read_import(mine: OrganizationStore, path: Path, steps: Steps) -> None:
    write = type(mine.tenant.database).write

    async def stepping(database: Any, work: Callable[[Any], Any]) -> Any:
        def worked(connection: Any) -> Any:
            result = work(connection)
            steps.take()
            return result

        steps.take()
        result = await write(database, worked)
        steps.take()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(mine.tenant.database), "write", stepping)
        await import_stream(mine, pieces_of(path.read_bytes(), steps))


async def pieces_of(data: bytes, steps: Steps) -> AsyncIterator[bytes]:
    for start in range(0, len(data), PIECE_BYTES):
        steps.take()
        yield data[start : start + PIECE_BYTES]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
