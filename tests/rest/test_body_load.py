"""Many clients that send the worst bodies a real server takes, while others look whether it lives."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import anyio
import httpx
import pytest

from tools.server import Server, running_server

CLIENTS = 64
RSS_BYTES_MAX = 1_000_000_000
CHUNK = 1 << 18
TIMEOUT_S = 300

TEXT = "🦝".encode() + b"x" * 9_990_000
MESSAGE = b'{"role":"user","content":"%s"}' % TEXT
BODIES = (
    b"[" + b"{}," * 3_300_000 + b"{}]",
    b'{"messages":[' + b"{}," * 9_000 + b"{}]}",
    b"[" * 10_000_000,
    b'{"messages":[' + b",".join([MESSAGE] * 3) + b"]}",
    b'{"messages":[{"role":"user","content":"' + b"\\u0001" * 9_000_000 + b'"}]}',
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server(LOG="error", EMBEDDER="none") as running:
        yield running


async def send(server: Server, token: str, body: bytes, *, is_announced: bool) -> int:
    """Send an append and return the status of its answer."""
    url = httpx.URL(server.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    length = f"Content-Length: {len(body)}" if is_announced else "Transfer-Encoding: chunked"
    head = f"POST /api/v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\n{length}\r\n\r\n".encode())
    for start in range(0, len(body), CHUNK):
        piece = body[start : start + CHUNK]
        writer.write(piece if is_announced else b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()
    if not is_announced:
        writer.write(b"0\r\n\r\n")
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def look(server: Server, answered: Counter[int]) -> None:
    """Ask for the server's health until cancelled."""
    async with httpx.AsyncClient(base_url=server.url, timeout=TIMEOUT_S) as client:
        while True:
            answered[(await client.get("/healthz")).status_code] += 1
            await anyio.sleep(0.05)


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
async def test_the_worst_bodies_of_many_clients_neither_fill_nor_stop_the_server(
    server: Server,
) -> None:
    tokens = [server.create_organization(f"organisation {number}") for number in range(4)]
    statuses, healthy = Counter[int](), Counter[int]()

    async def attack(number: int, body: bytes) -> None:
        token = tokens[number % len(tokens)]
        statuses[await send(server, token, body, is_announced=number % 3 > 0)] += 1

    with anyio.fail_after(TIMEOUT_S):
        async with anyio.create_task_group() as watching:
            watching.start_soon(look, server, healthy)
            async with anyio.create_task_group() as attacking:
                for number, body in enumerate(islice(cycle(BODIES), CLIENTS)):
                    attacking.start_soon(attack, number, body)
            watching.cancel_scope.cancel()

    # What is too wide or too deep is refused; of what is large some is kept, the rest may come back.
    assert statuses.total() == CLIENTS
    assert statuses.keys() <= {200, 400, 503}, server.log.read_text()
    assert statuses[200] >= 1
    assert healthy.keys() == {200}
    assert peak_bytes(server.pid) < RSS_BYTES_MAX
