"""Legacy sessions belong to the credential that opened them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest

from engram import limits
from tests.mcp.connecting import RunningServer, bearer

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@asynccontextmanager
async def open_session(
    server: RunningServer, key: str
) -> AsyncGenerator[tuple[str, AsyncIterator[str]]]:
    """Yield where to post, and the lines of the stream."""
    async with (
        httpx.AsyncClient(base_url=server.url, headers=bearer(key), timeout=10) as client,
        client.stream("GET", "/sse") as stream,
    ):
        lines = stream.aiter_lines()
        with anyio.fail_after(5):
            assert await anext(lines) == "event: endpoint"
            data = await anext(lines)
        yield data.removeprefix("data: "), lines


async def post(server: RunningServer, endpoint: str, key: str | None) -> int:
    async with httpx.AsyncClient(base_url=server.url, headers=bearer(key)) as client:
        return (await client.post(endpoint, json=PING)).status_code


async def next_data(lines: AsyncIterator[str]) -> str:
    with anyio.fail_after(5):
        while not (line := await anext(lines)).startswith("data: "):
            pass
    return line


async def test_the_stream_says_where_to_post_and_answers_there(server: RunningServer) -> None:
    async with open_session(server, server.key) as (endpoint, lines):
        status = await post(server, endpoint, server.key)

        assert endpoint.startswith("/messages/?session_id=")
        assert status == 202
        assert '"id":1' in await next_data(lines)


async def test_a_session_cannot_be_used_with_another_key(server: RunningServer) -> None:
    stranger = await server.new_organization("stranger")
    colleague = await server.new_key("read")

    async with open_session(server, server.key) as (endpoint, _):
        statuses = [await post(server, endpoint, key) for key in (stranger, colleague, None)]

    assert statuses == [404, 404, 401]


@pytest.mark.parametrize("query", ["", "?session_id=x", f"?session_id={'0' * 32}"])
async def test_an_unknown_session_is_an_error(server: RunningServer, query: str) -> None:
    assert await post(server, f"/messages/{query}", server.key) in {400, 404}


async def test_a_process_keeps_a_bounded_number_of_sessions(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SSE_SESSIONS_MAX", 1)
    async with httpx.AsyncClient(base_url=server.url, headers=bearer(server.key)) as client:

        async def status() -> int:
            async with client.stream("GET", "/sse") as stream:
                return stream.status_code

        async with open_session(server, server.key):
            assert await status() == 503
        with anyio.fail_after(5):
            # The server learns in its own time that the client has left.
            while await status() == 503:
                pass
