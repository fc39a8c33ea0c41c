"""A connection asks for automatic episodes in its address, as engram-go's clients do."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Literal

import pytest
from mcp import Client, MCPError

from tests.mcp.connecting import RunningServer, call, http_client, legacy_sse_client

Way = Literal["http", "http-handshake", "sse"]
WAYS: tuple[Way, ...] = ("http", "http-handshake", "sse")


def connected(way: Way, server: RunningServer, query: str) -> AbstractAsyncContextManager[Client]:
    match way:
        case "http":
            return http_client(server.url, server.key, query=query)
        case "http-handshake":
            return http_client(server.url, server.key, mode="legacy", query=query)
        case "sse":
            return legacy_sse_client(server.url, server.key, query=query)


@pytest.mark.parametrize("way", WAYS)
async def test_memories_of_a_connection_that_asks_for_it_belong_to_an_episode(
    server: RunningServer, way: Way
) -> None:
    async with connected(way, server, "?auto_episode=1") as client:
        await call(client, "memory_store", content="the harbour opens", project="port")
        await call(client, "memory_quick_store", content="the harbour closes", project="port")
        (episode,) = (await call(client, "memory_episode_list", project="port"))["episodes"]
        answer = await call(client, "memory_recall", query="harbour", project="port", mode="full")

    assert (episode["project"], episode["memories"]) == ("port", 2)
    assert episode["description"].startswith("auto: key_")
    boosts = [each["score_breakdown"]["episode_boost"] for each in answer["results"]]
    assert boosts == [1.15, 1.15]


@pytest.mark.parametrize("query", ["", "?auto_episode=0", "?auto_episode=false"])
async def test_without_asking_there_are_none(server: RunningServer, query: str) -> None:
    async with http_client(server.url, server.key, query=query) as client:
        await call(client, "memory_store", content="the harbour opens")
        listed = await call(client, "memory_episode_list")
        answer = await call(client, "memory_recall", query="harbour", mode="full")

    assert listed["episodes"] == []
    (found,) = answer["results"]
    assert found["score_breakdown"]["episode_boost"] == 1


async def test_a_wish_that_is_neither_yes_nor_no_is_refused(server: RunningServer) -> None:
    async with http_client(server.url, server.key, query="?auto_episode=perhaps") as client:
        with pytest.raises(MCPError) as refused:
            await client.list_tools()

    assert (refused.value.error.data or {})["field"] == "auto_episode"
