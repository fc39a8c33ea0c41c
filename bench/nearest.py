"""A search by meaning through the HNSW index of a big organisation beside the exact one in memory.

The processor time of this process and of the server together: where the index is cheaper, it is worth a partition.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import numpy as np
import psutil

from bench.figures import Figure
from bench.planting import planted_vectors
from bench.postgres import nearest, plant, prepare
from bench.processes import cpu_s
from engram.clock import RandomIds, SystemClock
from engram.storage.organization import OrganizationStore
from engram.storage.postgres import hnsw
from engram.storage.postgres.store import PostgresStore
from engram.vectors.arrays import Floats
from tests.postgres.servers import Server, running_servers

QUERIES = 20
ROUNDS = 5
SIZES = (50_000, 100_000, 200_000)


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the cost of both ways at some sizes."""
    with running_servers() as servers:
        server = servers.primary()
        sizes = SIZES[:1] if quick else SIZES
        return [asyncio.run(_compare(server, vectors=size)) for size in sizes]


async def _compare(server: Server, *, vectors: int) -> Figure:
    database = f"near_{vectors}"
    server.execute(f"CREATE DATABASE {database}")
    url = server.socket_url(database)
    organization_id, _ = await prepare(url)
    random = np.random.default_rng(11)
    plant(url, organization_id, planted_vectors(random, vectors))
    _rest(server, database)
    asked = planted_vectors(random, QUERIES)
    costs = list[float]()
    for is_indexed in (False, True):
        store = PostgresStore(url, clock=SystemClock(), ids=RandomIds())
        await store.open()
        try:
            organization = await store.organization(organization_id)
            if is_indexed:
                hnsw.VECTORS_MIN = 1
                await organization.tend_vectors()
                _rest(server, database)
            costs.append(await _cost(server, partial(_ask, organization, asked)) / QUERIES)
        finally:
            await store.close()
    exact, indexed = costs
    return Figure(
        name=f"search by meaning over {vectors:,} vectors through HNSW",
        value=1000 * indexed,
        unit="CPU ms, server included",
        floor=1000 * exact,
        floor_name="exact, in memory",
        direction="at most",
        bound=None,
    )


def _rest(server: Server, database: str) -> None:
    """Do what the server would do by itself while it is measured."""
    server.execute("VACUUM ANALYZE", database=database)
    server.execute("CHECKPOINT")


async def _ask(organization: OrganizationStore, queries: Floats) -> None:
    for query in queries:
        await nearest(organization, query)


async def _cost(server: Server, work: Callable[[], Awaitable[None]]) -> float:
    """Return the processor time of work that was done before, here and on the server; the median of some rounds."""
    await work()
    times = list[float]()
    for _ in range(ROUNDS):
        began = used_cpu_s(server.pid)
        await work()
        times.append(used_cpu_s(server.pid) - began)
    return statistics.median(times)


def used_cpu_s(server_pid: int) -> float:
    """Return the processor time of this process and of a server's so far."""
    postmaster = psutil.Process(server_pid)
    own = postmaster.cpu_times()
    ended = own.children_user + own.children_system
    running = [cpu_s(each.pid) for each in (postmaster, *postmaster.children())]
    return time.process_time() + ended + sum(running)
