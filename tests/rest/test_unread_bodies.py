"""Bodies that are refused unread: their clients get the answer, on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import anyio
import httpx
import pytest

from engram.http.asgi import create_app
from engram.settings import Settings
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, new_key, scoped_key
from tests.serving import serving

LENGTH = 4_000_000
PIECE = b"x" * 100_000


@pytest.fixture
async def client(settings: Settings) -> AsyncGenerator[httpx.AsyncClient]:
    """A client whose key may only search, over TCP."""
    async with serving(create_app(settings)) as url:
        operator = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        async with httpx.AsyncClient(base_url=url, headers=operator) as opened:
            opened.headers["Authorization"] = f"Bearer {await new_key(opened)}"
            opened.headers["Authorization"] = f"Bearer {await scoped_key(opened, 'search')}"
            yield opened


def head(token: str, *headers: str) -> bytes:
    lines = [
        "POST /api/v1/messages HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: {token}",
        "Content-Type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def connection(
    client: httpx.AsyncClient,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(client.base_url.host, client.base_url.port)


@pytest.mark.parametrize("token", ["allowed to search", "Bearer nobody"])
@pytest.mark.parametrize("ending", ["close", "keep-alive"])
async def test_a_client_that_sends_all_of_a_refused_body_reads_the_answer(
    client: httpx.AsyncClient, token: str, ending: str
) -> None:
    sent_token = client.headers["authorization"] if token.startswith("allowed") else token
    reader, writer = await connection(client)

    writer.write(head(sent_token, f"Content-Length: {LENGTH}", f"Connection: {ending}"))
    with anyio.fail_after(60):
        for _ in range(LENGTH // len(PIECE)):
            writer.write(PIECE)
            await writer.drain()
        status = await reader.readline()
    writer.close()

    assert (b" 403 " in status) or (b" 401 " in status)


async def test_a_connection_is_used_again_after_a_refused_body(client: httpx.AsyncClient) -> None:
    reader, writer = await connection(client)
    token = client.headers["authorization"]

    with anyio.fail_after(60):
        for _ in range(2):
            writer.write(head(token, "Content-Length: 100000") + PIECE)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)

            assert b" 403 " in answer.splitlines()[0]
    writer.close()


async def test_the_connection_of_a_refused_body_in_pieces_ends_after_the_answer(
    client: httpx.AsyncClient,
) -> None:
    reader, writer = await connection(client)
    chunk = b"%x\r\n%s\r\n" % (len(PIECE), PIECE)

    writer.write(head(client.headers["authorization"], "Transfer-Encoding: chunked") + chunk)
    writer.write(b"0\r\n\r\n")
    with anyio.fail_after(60):
        answer = await reader.read()
    writer.close()

    assert b" 403 " in answer.splitlines()[0]
    assert b"connection: close" in answer


@promise("bodies")
async def test_a_client_that_waits_to_be_told_sends_nothing_when_refused(
    client: httpx.AsyncClient,
) -> None:
    reader, writer = await connection(client)
    token = client.headers["authorization"]

    writer.write(head(token, f"Content-Length: {LENGTH}", "Expect: 100-continue"))
    with anyio.fail_after(60):
        answer = await reader.read()  # to the end: the connection is closed
    writer.close()

    assert b" 403 " in answer.splitlines()[0]
    assert b"connection: close" in answer


async def test_a_client_that_waits_is_told_to_go_on(client: httpx.AsyncClient) -> None:
    reader, writer = await connection(client)
    body = b'{"query": "harbour"}'
    request = head(
        client.headers["authorization"], f"Content-Length: {len(body)}", "Expect: 100-continue"
    )

    writer.write(request.replace(b"/messages", b"/search"))
    with anyio.fail_after(60):
        assert b" 100 " in await reader.readline()
        await reader.readline()
        writer.write(body)
        status = await reader.readline()
    writer.close()

    assert b" 200 " in status
