"""Two servers on one database: what one has stored, the other finds; a client may use both in turn."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from bench.pairs import PAIRS
from tests.mcp.connecting import bearer, call
from tests.meaning.servers import Server, append, found, search, serve
from tests.promises import promise

pytestmark = promise("processes")

CALLS = 20


@pytest.fixture
def servers(tmp_path: Path, database_url: str) -> Generator[tuple[Server, Server]]:
    """Yield two servers, of which the first has made the key."""
    chosen = {"database_url": database_url, "embedder": "local"}
    with serve(tmp_path / "one", **chosen) as first, serve(tmp_path / "two", **chosen) as second:
        assert second.key is None
        yield first, second


@promise("findable")
async def test_what_one_server_stored_the_other_finds_by_its_meaning_at_once(
    servers: tuple[Server, Server],
) -> None:
    first, second = servers
    async with first.client() as one, second.client(first.key) as other:
        ways = itertools.cycle([(one, other), (other, one)])
        missed = [
            pair.message
            for pair, (here, there) in zip(PAIRS, ways, strict=False)
            if not await is_found(here, there, pair.message, pair.question)
        ]

    assert len(PAIRS) == 100
    assert missed == []


async def is_found(
    here: httpx.AsyncClient, there: httpx.AsyncClient, message: str, question: str
) -> bool:
    """Store a message, and ask another server a question that shares no word with it."""
    (stored,) = await append(here, message)

    answer = await search(
        there, question, profile="vectors", limit=200, token_budget=50_000, min_score=0
    )

    assert answer["degraded"] == []
    return any(
        one["id"] == stored and "message_vector" in one["score_breakdown"]["raw"]
        for one in found(answer)
    )


async def test_a_client_of_mcp_may_reach_another_server_with_every_request(
    servers: tuple[Server, Server],
) -> None:
    urls = [server.url for server in servers]

    for mode in ("auto", "legacy"):
        balancer = Balancer(urls)
        async with mcp_client(balancer, servers[0].key, mode=mode) as client:
            for number in range(CALLS):
                await expect_to_find(client, f"{mode}{number}")
                # With a third request, it is not always the same server that stores.
                assert await client.list_tools()
        assert min(map(balancer.used.count, urls)) >= CALLS


async def expect_to_find(client: Client, word: str) -> None:
    """Store a message, and find it."""
    message = {"role": "user", "content": f"the lantern {word}"}
    stored = await call(client, "append_messages", messages=[message])

    answer = await call(client, "search", query=word)

    assert stored["message_ids"][0] in ids_in(answer)


def ids_in(answer: Any) -> list[str]:
    """Return the messages of an answer."""
    return [message["id"] for result in answer["results"] for message in result["messages"]]


class Balancer(httpx2.AsyncHTTPTransport):
    """Sends every request to the next server."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__()
        self._next = itertools.cycle(urls)
        self.used: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.used.append(next(self._next))
        request.url = httpx2.URL(self.used[-1]).copy_with(raw_path=request.url.raw_path)
        return await super().handle_async_request(request)


@asynccontextmanager
async def mcp_client(balancer: Balancer, key: str | None, *, mode: str) -> AsyncGenerator[Client]:
    """Yield a client that knows one address, behind which both servers are."""
    async with httpx2.AsyncClient(headers=bearer(key), transport=balancer, timeout=30) as http:
        transport = streamable_http_client("http://127.0.0.1/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client
