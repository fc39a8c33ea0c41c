"""A loopback proxy that adds a bearer token and passes every other byte through unchanged.

The conformance suite cannot send a token; Host, Origin and odd spacing must reach the server as sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

HEAD_END = b"\r\n\r\n"
PIECE_BYTES = 65_536


@asynccontextmanager
async def authorizing_proxy(*, port: int, token: str) -> AsyncGenerator[int]:
    """Yield the port of a proxy to the loopback server at `port`."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _relay(reader, writer, port=port, token=token)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The client left; the suite judges what it saw.
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _relay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, port: int, token: str
) -> None:
    head = await reader.readuntil(HEAD_END)
    from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
    try:
        to_server.write(_authorized(head, token))
        pumps = [
            asyncio.ensure_future(_pump(reader, to_server)),
            asyncio.ensure_future(_pump(from_server, writer)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
    finally:
        to_server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()


def _authorized(head: bytes, token: str) -> bytes:
    """Return the head with the token, asking for one request per connection."""
    request_line, *lines = head.removesuffix(HEAD_END).split(b"\r\n")
    kept = [
        line for line in lines if not line.lower().startswith((b"connection:", b"authorization:"))
    ]
    added = [b"Authorization: Bearer " + token.encode(), b"Connection: close"]
    return b"\r\n".join([request_line, *kept, *added]) + HEAD_END
