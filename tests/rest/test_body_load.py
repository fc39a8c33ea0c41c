"""Many clients that send the worst bodies a real server takes, while others look whether it lives."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path

import anyio
import httpx
import pytest

from tests.promises import promise
from tools.server import Server, running_server

CLIENTS = 32
RSS_BYTES_MAX = 1_000_000_000
HEALTH_S_MAX = 5.0
"""A server that computes on its event loop is silent for longer; a busy machine is not."""
CHUNK = 1 << 18
TIMEOUT_S = 300

FIRST = {"role": "user", "content": "tanuki are tricksters"}
TEXT = "🦝".encode() + b"x" * 9_990_000
MESSAGE = b'{"role":"user","content":"%s"}' % TEXT
REFUSED_MESSAGE = MESSAGE.replace(b'"user"', b'"nobody"')
BODIES = (
    b"[" + b"{}," * 3_300_000 + b"{}]",
    b'{"messages":[' + b"{}," * 9_000 + b"{}]}",
    b"[" * 10_000_000,
    b'{"messages":[' + b",".join([MESSAGE] * 3) + b"]}",
    b'{"messages":[{"role":"user","content":"' + b"\\u0001" * 9_000_000 + b'"}]}',
)
REFUSED = b'{"messages":[' + b",".join([REFUSED_MESSAGE] * 3) + b"]}"
"""Parsed whole before it is refused; a wide character makes each text four times its bytes."""


@pytest.fixture
def server() -> Iterator[Server]:
    """Yield a server with models, which take memory and work on what was kept."""
    with running_server(LOG="error", EMBEDDER="local") as running:
        yield running


async def send(server: Server, token: str, body: bytes, *, is_announced: bool) -> int:
    """Send an append and return the status of its answer, which may come before all was sent."""
    url = httpx.URL(server.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    answer = asyncio.create_task(reader.readline())
    length = f"Content-Length: {len(body)}" if is_announced else "Transfer-Encoding: chunked"
    head = f"POST /api/v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\n{length}\r\n\r\n".encode())
    with suppress(ConnectionError):  # whoever is refused and sends on is cut off in the end
        for start in range(0, len(body), CHUNK):
            piece = body[start : start + CHUNK]
            writer.write(piece if is_announced else b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if not is_announced:
            writer.write(b"0\r\n\r\n")
    status = int((await answer).split()[1])
    writer.transport.abort()  # what was not sent is of no use any more
    with suppress(ConnectionError):
        await writer.wait_closed()
    return status


async def look(server: Server, answered: Counter[int], taken_s: list[float]) -> None:
    """Ask for the server's health until cancelled."""
    async with httpx.AsyncClient(base_url=server.url, timeout=TIMEOUT_S) as client:
        while True:
            answer = await client.get("/healthz")
            answered[answer.status_code] += 1
            taken_s.append(answer.elapsed.total_seconds())
            await anyio.sleep(0.05)


async def index_one(server: Server, tokens: Sequence[str]) -> None:
    """Return when the background has embedded one more of the messages that wait for it."""

    async def pending() -> int:
        async with httpx.AsyncClient(base_url=server.url, timeout=TIMEOUT_S) as client:
            headers = [{"Authorization": f"Bearer {token}"} for token in tokens]
            found = [await client.get("/api/v1/status", headers=each) for each in headers]
        return sum(answer.json()["pending"] for answer in found)

    before = await pending()
    while before:
        if await pending() < before:
            return
        await anyio.sleep(0.5)


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


pytestmark = [
    promise("fair"),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc"),
]


async def attack(server: Server, bodies: Sequence[bytes]) -> Counter[int]:
    """Have many clients send bodies; return the statuses of the answers.

    The server's memory is bounded and its health is told in time meanwhile, until the background has
    embedded one of the messages that were kept.
    """
    tokens = [server.create_organization(f"organisation {number}") for number in range(4)]
    statuses, healthy, taken_s = Counter[int](), Counter[int](), list[float]()
    server.post("/api/v1/messages", {"messages": [FIRST]}, token=tokens[0])
    server.wait_until_indexed(token=tokens[0], timeout_s=TIMEOUT_S)  # so every model is loaded

    async def send_one(number: int, body: bytes) -> None:
        token = tokens[number % len(tokens)]
        statuses[await send(server, token, body, is_announced=number % 3 > 0)] += 1

    with anyio.fail_after(TIMEOUT_S):
        async with anyio.create_task_group() as watching:
            watching.start_soon(look, server, healthy, taken_s)
            async with anyio.create_task_group() as attacking:
                for number, body in enumerate(islice(cycle(bodies), CLIENTS)):
                    attacking.start_soon(send_one, number, body)
            await index_one(server, tokens)
            watching.cancel_scope.cancel()

    assert statuses.total() == CLIENTS
    assert healthy.keys() == {200}
    assert max(taken_s) < HEALTH_S_MAX
    assert peak_bytes(server.pid) < RSS_BYTES_MAX
    return statuses


async def test_the_worst_bodies_of_many_clients_neither_fill_nor_stop_the_server(
    server: Server,
) -> None:
    statuses = await attack(server, BODIES)

    # What is too wide or too deep is refused; of what is large some is kept, the rest may come back.
    assert statuses.keys() <= {200, 400, 503}, server.log.read_text()
    assert statuses[200] >= 1


async def test_large_bodies_that_are_refused_do_not_fill_the_server(server: Server) -> None:
    statuses = await attack(server, [REFUSED])

    assert statuses.keys() <= {400, 503}, server.log.read_text()
    assert statuses[400] >= 1
