"""HTTP requests prepared as bytes: a client of its own would cost more than the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


def prepare_post(path: str, body: object, *, token: str) -> bytes:
    """Return a request as it goes over the wire."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


class Wire:
    """A connection to the server; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, request: bytes) -> bytes:
        """Return the content of the answer; anything but success is an error."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        content = await self._reader.readexactly(length)
        assert head.split(b" ", 2)[1].startswith(b"20"), head + content
        return content


@asynccontextmanager
async def connected(port: int) -> AsyncGenerator[Wire]:
    """Yield a connection to the server on a loopback port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
