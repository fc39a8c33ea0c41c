"""Export the local organisation of a store to a file, or import one, in a process of its own.

    python -m bench.moving HOME export|import FILE

Prints the seconds and by how many MB the process grew. Neither its start nor indexing in the background, which
goes on after an import, is part of that.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench.growth import Growth
from bench.opening import open_parts
from engram.embedding.choice import NoEmbedder
from engram.model.access import Principal
from engram.model.export import ExportRequest
from engram.service import Service
from engram.settings import Settings

_READ_BYTES = 262_144


async def main(home: str, action: str, path: str) -> None:
    """Move everything out of a store or into it."""
    async with open_parts(Settings(home=Path(home), embedder=NoEmbedder())) as parts:
        me = await parts.service.access.local_principal()
        work = _export if action == "export" else _import
        growth, started = Growth(os.getpid()), time.perf_counter()
        await work(parts.service, me, Path(path))
        seconds = time.perf_counter() - started
        json.dump([seconds, growth.peak_mb()], sys.stdout)


async def _export(service: Service, me: Principal, path: Path) -> None:
    with path.open("wb") as file:
        async for piece in await service.exports.export(me, ExportRequest()):
            await asyncio.to_thread(file.write, piece)
        file.flush()
        os.fsync(file.fileno())


async def _import(service: Service, me: Principal, path: Path) -> None:
    receipt = await service.exports.import_stream(me, _pieces(path))
    assert not receipt.problems, receipt.problems


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _READ_BYTES):
            yield piece


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
