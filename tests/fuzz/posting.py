"""Posts to an application in this process, with nothing between that could refuse a message."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from starlette.types import ASGIApp, Message, Scope


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncGenerator[ASGIApp]:
    """Run an application's lifespan around a block."""
    into, incoming = anyio.create_memory_object_stream[Message](2)
    outgoing, out = anyio.create_memory_object_stream[Message](2)
    async with into, incoming, outgoing, out, anyio.create_task_group() as tasks:

        async def live() -> None:
            state: dict[str, object] = {}
            await app({"type": "lifespan", "state": state}, incoming.receive, outgoing.send)

        tasks.start_soon(live)
        await into.send({"type": "lifespan.startup"})
        assert (await out.receive())["type"] == "lifespan.startup.complete"
        yield app
        await into.send({"type": "lifespan.shutdown"})
        assert (await out.receive())["type"] == "lifespan.shutdown.complete"


@dataclass(frozen=True, slots=True)
class Posting:
    """A client with a key."""

    app: ASGIApp
    key: str

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        sent: list[Message] = []
        received = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Message:
            message = next(received, None)
            if message is None:
                await anyio.sleep_forever()
            return message or {}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(self.scope(path, body, headers), receive, send)
        parts = [message.get("body", b"") for message in sent[1:]]
        return sent[0]["status"], b"".join(parts)

    def scope(self, path: str, body: bytes, headers: Mapping[str, str]) -> Scope:
        path, _, query = path.partition("?")
        own = {
            "host": "127.0.0.1",
            "content-type": "application/json",
            "content-length": str(len(body)),
            "authorization": f"Bearer {self.key}",
            **{name.lower(): value for name, value in headers.items()},
        }
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in own.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
