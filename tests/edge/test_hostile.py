"""Clients that send too much, too little, too slowly or too often, while a good one works on.

The server is a process of its own, with one worker and with two.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
import psutil
import pytest

from tests.edge.wire import PATIENCE_S, get, post, raw_client
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, append, new_conversation, new_key

pytestmark = promise("fair")

PROGRAM = Path(__file__).parent / "programs" / "small_bounds.py"
GROWTH_BYTES_MAX = 150_000_000
CLIENTS = 20
DOCUMENT = bytes(20_000_000)


@dataclass(frozen=True, slots=True)
class Server:
    """A server process and a key for it."""

    url: str
    key: str
    process: psutil.Process

    def rss(self) -> int:
        """Return the memory of the process and its workers, in bytes."""
        processes = [self.process, *self.process.children(recursive=True)]
        return sum(process.memory_info().rss for process in processes)


@asynccontextmanager
async def serving_process(home: Path, *, workers: int) -> AsyncGenerator[Server]:
    """Yield a server with small bounds."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAM), str(home), ADMIN_TOKEN, str(workers)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    try:
        with anyio.fail_after(PATIENCE_S):
            url = (await process.stdout.readline()).decode().strip()
        operator = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        async with httpx.AsyncClient(base_url=url, headers=operator, timeout=PATIENCE_S) as client:
            key = await new_key(client)
        yield Server(url, key, psutil.Process(process.pid))
    finally:
        process.terminate()
        await process.wait()


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Server]:
    async with serving_process(tmp_path, workers=request.param) as started:
        yield started


async def huge_headers(server: Server) -> None:
    """Send megabytes of a header that never ends."""
    async with raw_client(server.url) as client:
        await client.send(get("/api/v1/status")[:-2] + b"x: ")
        for _ in range(100):
            await client.send(b"v" * 200_000)
        await client.answer()


async def many_headers(server: Server) -> None:
    async with raw_client(server.url) as client:
        await client.send(get("/api/v1/status")[:-2] + b"x: v\r\n" * 500_000)
        await client.answer()


async def half_a_head(server: Server) -> None:
    async with raw_client(server.url) as client:
        await client.send(get("/api/v1/status")[:-2] + b"x: " + b"v" * 60_000)
        await client.answer()


async def half_a_body(server: Server) -> None:
    bearer = f"Authorization: Bearer {server.key}"
    async with raw_client(server.url) as client:
        await client.send(post("/api/v1/search", bearer, "Content-Length: 900000"))
        await client.send(b'{"query": "' + b"v" * 60_000)
        await client.answer()


async def byte_by_byte(server: Server) -> None:
    """Send a byte whenever the server has had time for many more."""
    async with raw_client(server.url) as client:
        reading = asyncio.create_task(client.answer())
        for byte in get("/api/v1/status", "x: " + "v" * 1_000):
            await client.send(bytes([byte]))
            done, _ = await asyncio.wait([reading], timeout=0.2)
            if done:
                break
        await reading


async def many_requests(server: Server) -> None:
    async with raw_client(server.url) as client:
        await client.send(get("/api/v1/status") * 20_000)
        await client.answer()


async def idle_sockets(server: Server) -> None:
    async with AsyncExitStack() as sockets:
        clients = [await sockets.enter_async_context(raw_client(server.url)) for _ in range(300)]
        await asyncio.gather(*(client.answer() for client in clients))


ATTACKS: tuple[Callable[[Server], Awaitable[None]], ...] = (
    huge_headers,
    many_headers,
    half_a_head,
    half_a_body,
    byte_by_byte,
    many_requests,
)


async def work_until(stopped: asyncio.Event, server: Server) -> int:
    """Append and search over kept and new connections; return how many answers were as they should be."""
    answers = 0
    bearer = {"Authorization": f"Bearer {server.key}"}
    async with httpx.AsyncClient(base_url=server.url, headers=bearer, timeout=PATIENCE_S) as client:
        conversation_id = await new_conversation(client)
        while not stopped.is_set() or answers < CLIENTS:
            await append(client, conversation_id, f"word{answers}")
            found = await client.get("/api/v1/search", params={"q": f"word{answers}"})
            assert len(found.json()["results"]) >= 1
            async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S) as fresh:
                assert (await fresh.get("/healthz")).status_code == 200
            answers += 1
    return answers


async def test_a_good_client_does_not_notice_hostile_ones(server: Server) -> None:
    stopped = asyncio.Event()
    before = server.rss()
    working = asyncio.create_task(work_until(stopped, server))

    attacks = [attack(server) for attack in ATTACKS for _ in range(CLIENTS)]
    await asyncio.gather(idle_sockets(server), *attacks)
    growth = server.rss() - before
    stopped.set()

    assert await working >= CLIENTS
    assert growth < GROWTH_BYTES_MAX


async def test_clients_that_never_read_hold_neither_memory_nor_requests(tmp_path: Path) -> None:
    async with serving_process(tmp_path, workers=1) as server, AsyncExitStack() as sockets:
        bearer = {"Authorization": f"Bearer {server.key}"}
        async with httpx.AsyncClient(
            base_url=server.url, headers=bearer, timeout=PATIENCE_S
        ) as client:
            kind = {"Content-Type": "application/octet-stream"}
            made = await client.post("/api/v1/documents", content=DOCUMENT, headers=kind)
            path = f"/api/v1/documents/{made.json()['id']}"
            before = server.rss()
            for _ in range(CLIENTS):
                reader = await sockets.enter_async_context(raw_client(server.url))
                await reader.send(get(path, f"Authorization: {bearer['Authorization']}"))
                await reader.head()
            most = await requests_in_progress(client)
            growth = server.rss() - before

            with anyio.fail_after(PATIENCE_S):
                while await requests_in_progress(client) > 1:
                    pass

    assert most > CLIENTS // 2
    assert growth < GROWTH_BYTES_MAX


async def requests_in_progress(client: httpx.AsyncClient) -> float:
    """Return how many requests the server works at, the question among them."""
    metrics = (await client.get("/metrics")).text
    found = re.search(r"^engram_requests_in_progress (.+)$", metrics, re.MULTILINE)
    assert found is not None
    return float(found[1])
