"""The work nobody waits for, for as long as a transport serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from engram.service import Service


@asynccontextmanager
async def background_work(service: Service) -> AsyncGenerator[None]:
    """Index and tidy up while the block runs."""
    worker = asyncio.create_task(service.background.run(service.record_use))
    try:
        yield
    finally:
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker
        await service.record_use()
