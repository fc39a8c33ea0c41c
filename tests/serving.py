"""Real sockets for the application, for the length of a block."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import uvicorn
from starlette.types import ASGIApp

from engram.http.connections import EdgeBounds
from engram.http.protocol import EdgeConfig


class _Server(uvicorn.Server):
    """A server that says when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_started = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_started.set()


@asynccontextmanager
async def serving(app: ASGIApp, bounds: EdgeBounds | None = None) -> AsyncGenerator[str]:
    """Serve `app` on a free port of this machine and yield its URL."""
    config = EdgeConfig(
        app,
        bounds=bounds or EdgeBounds(),
        log_config=None,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            with anyio.fail_after(60):
                await server.is_started.wait()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running
