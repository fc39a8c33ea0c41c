"""What a tenant notices of another that sends the worst of everything."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench.figures import Figure, allowed
from bench.planting import plant_store
from bench.search import queries
from bench.wire import connected, prepare_post
from tools.server import Server, running_server

MESSAGES = 600
PAUSE_S = 0.05
"""Between two searches: a tenant at work, not a load test."""

SLOWER_MAX = 3.0
"""How many times its median search may take while another tenant does its worst."""

ANSWER_S_MAX = 30.0
"""A search that takes longer has failed."""

RSS_MB_MAX = 1_000
START_S = 1.0
"""Until the attacks are under way."""


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return what a tenant's searches take alone and beside a hostile tenant."""
    alone_s, beside_s = (3.0, 10.0) if quick else (20.0, 120.0)
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        home = Path(directory)
        planted = asyncio.run(plant_store(home, messages=MESSAGES))
        with running_server(LOG="error", HOME=str(home), RATE_LIMIT="500") as server:
            good = _Tenant(server, planted.api_key)
            asyncio.run(good.search_for(1.0))
            alone = asyncio.run(good.search_for(alone_s))
            beside, rss_mb = _beside_attacks(server, good, seconds=beside_s)
    return [
        Figure(
            name="median search beside a hostile tenant",
            value=statistics.median(beside),
            unit="ms",
            floor=statistics.median(alone),
            floor_name="alone",
            direction="at most",
            bound=SLOWER_MAX,
        ),
        _worst(beside, alone),
        allowed("memory beside a hostile tenant, at most", rss_mb, unit="MB", at_most=RSS_MB_MAX),
    ]


def _worst(beside: Sequence[float], alone: Sequence[float]) -> Figure:
    return Figure(
        name="slowest search beside a hostile tenant",
        value=max(beside),
        unit="ms",
        floor=max(alone),
        floor_name="alone",
        direction="at most",
        bound=None,
    )


class _Tenant:
    """Searches over one connection that stays open; a search that fails ends the benchmark."""

    def __init__(self, server: Server, key: str) -> None:
        self._port = server.port
        self._requests = itertools.cycle(
            prepare_post("/api/v1/search", {"query": query}, token=key) for query in queries()
        )

    async def search_for(self, seconds: float) -> list[float]:
        """Return the milliseconds of each search."""
        spent, deadline = list[float](), time.perf_counter() + seconds
        async with connected(self._port) as wire:
            while (begun := time.perf_counter()) < deadline:
                async with asyncio.timeout(ANSWER_S_MAX):
                    await wire.send(next(self._requests))
                spent.append(1000 * (time.perf_counter() - begun))
                await asyncio.sleep(PAUSE_S)
        return spent


def _beside_attacks(server: Server, good: _Tenant, *, seconds: float) -> tuple[list[float], float]:
    """Return the milliseconds of the tenant's searches and the most memory that the server took."""
    key = server.create_organization("hostile")
    arguments = [str(server.port), key, str(seconds + START_S)]
    attacker = subprocess.Popen([sys.executable, "-m", "bench.attacks", *arguments])
    try:
        return asyncio.run(_search_and_watch(server, good, seconds=seconds))
    finally:
        attacker.terminate()
        attacker.wait()


async def _search_and_watch(
    server: Server, good: _Tenant, *, seconds: float
) -> tuple[list[float], float]:
    await asyncio.sleep(START_S)
    most = 0.0

    async def watch() -> None:
        nonlocal most
        process = psutil.Process(server.pid)
        while True:
            most = max(most, process.memory_info().rss / 1e6)
            await asyncio.sleep(PAUSE_S)

    watching = asyncio.create_task(watch())
    try:
        return await good.search_for(seconds), most
    finally:
        watching.cancel()
