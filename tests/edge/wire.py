"""A client that writes bytes of its own making and reads until it is hung up on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import anyio

PATIENCE_S = 120
"""No test waits for this long unless the server does nothing."""


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Write, as far as the server still takes it."""
        with suppress(ConnectionError):
            if not self.writer.is_closing():
                self.writer.write(data)
                await self.writer.drain()

    async def answer(self) -> bytes:
        """Return everything that the server sends until it closes the connection."""
        received = bytearray()
        with anyio.fail_after(PATIENCE_S), suppress(ConnectionError):
            while data := await self.reader.read(65_536):
                received += data
        return bytes(received)

    async def head(self) -> bytes:
        """Return the head of the next answer."""
        with anyio.fail_after(PATIENCE_S):
            return await self.reader.readuntil(b"\r\n\r\n")


@asynccontextmanager
async def raw_client(url: str) -> AsyncGenerator[RawClient]:
    """Yield a connection to the server at `url`."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def get(path: str, *fields: str) -> bytes:
    """Return a request as it goes over the wire."""
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *fields, "", ""]
    return "\r\n".join(lines).encode()


def post(path: str, *fields: str) -> bytes:
    """Return the head of a request with a body."""
    return get(path, *fields).replace(b"GET", b"POST", 1)


def status_of(answer: bytes) -> int | None:
    """Return the status of an answer, None if there was none."""
    return int(answer.split(b" ", 2)[1]) if answer else None
