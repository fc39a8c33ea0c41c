"""The same clients and the same model over PostgreSQL, through wires that are cut, slowed and truncated.

Threads and the server are real here, so that a seed chooses the faults and not the whole history.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest

from engram.clock import RandomIds, SystemClock
from engram.embedding.choice import Hashed
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.model.access import OrganizationDraft
from engram.service import Service
from engram.settings import Settings
from engram.storage.postgres.store import PostgresStore
from engram.wiring import build_service
from tests.postgres.servers import Server, running_servers, url_of
from tests.postgres.wire import Wire
from tests.relays import connected, relayed
from tests.simulation.clients import LOST, Client
from tests.simulation.model import Tenant
from tests.simulation.texts import Texts
from tests.simulation.verification import verify

T = TypeVar("T")

SEEDS = range(4)
OPERATIONS = 20
"""Of each client."""
RETRIES = 20
"""Connections that were cut may still be in the pool, and each costs one call."""


class FaultyWire(Wire):
    """A wire that loses connections, parts of messages, and time."""

    def __init__(self, server: Server, chance: random.Random) -> None:
        super().__init__(server)
        self.rate = 0.0
        self.faults = 0
        self._random = chance
        self._to = server

    async def carry(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Carry what both sides say, until one of them leaves or a fault cuts the connection."""
        async with connected(self._to.port) as (answers, server):
            ways = [
                asyncio.create_task(self._carry_some(client, server)),
                asyncio.create_task(self._carry_some(answers, back)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.wait(ways)
                for side in (server, back):
                    side.transport.abort()

    async def _carry_some(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while said := await _read(source):
            if self._random.random() < self.rate:
                self.faults += 1
                fault = self._random.choice(("cut", "truncate", "delay"))
                if fault == "truncate":
                    target.write(said[: self._random.randrange(len(said))])
                if fault != "delay":
                    return
                await asyncio.sleep(self._random.expovariate(50.0))
            target.write(said)


async def _read(source: asyncio.StreamReader) -> bytes:
    try:
        return await source.read(65_536)
    except ConnectionError:
        return b""  # the other side is gone, as after an empty read


class Servers:
    """Processes on one database, each behind a wire of its own."""

    def __init__(self, services: list[Service], chance: random.Random) -> None:
        self.has_wrong_clocks = False
        self.are_well = False
        """Whether calls are repeated until they succeed."""
        self._services = services
        self._random = chance

    async def call(self, work: Callable[[Service], Awaitable[T]]) -> T:
        """Return the answer of one of them."""
        for _ in range(RETRIES if self.are_well else 0):
            with suppress(*LOST):
                return await work(self._random.choice(self._services))
        return await work(self._random.choice(self._services))

    def log(self, event: str) -> None:
        """Keep nothing: the history is another one each time."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_servers() as servers:
        yield servers.primary()


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_is_lost_or_mixed_though_wires_are_cut(
    seed: int, server: Server, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # noqa: S311 repeatable on purpose
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(_wire(server, chance)) for _ in range(2)]
        services = [await stack.enter_async_context(_service(wire, tmp_path)) for wire in wires]
        servers, texts = Servers(services, chance), Texts(chance)
        tenants = [await _tenant(services[0], f"{seed}-{number}") for number in range(2)]
        pairs = [
            (
                each,
                Client(
                    "c",
                    each,
                    [o for o in tenants if o is not each],
                    installation=servers,
                    chance=chance,
                    texts=texts,
                ),
            )
            for each in tenants
        ]

        for wire in wires:
            wire.rate = 0.01
        await asyncio.gather(*(_act(client) for _, client in pairs * 2))
        for wire in wires:
            wire.rate = 0.0
        servers.are_well = True

        await verify(servers, pairs, chance)
        assert sum(wire.faults for wire in wires) > 0


async def _act(client: Client) -> None:
    for _ in range(OPERATIONS):
        await client.act()


async def _tenant(service: Service, name: str) -> Tenant:
    organization, _ = await service.operator.create_organization(OrganizationDraft(name=name))
    return Tenant(organization.id, await service.operator.act_for(organization.id))


@asynccontextmanager
async def _wire(server: Server, chance: random.Random) -> AsyncGenerator[FaultyWire]:
    wire = FaultyWire(server, chance)
    async with relayed(wire.carry) as wire.port:
        yield wire


@asynccontextmanager
async def _service(wire: FaultyWire, home: Path) -> AsyncGenerator[Service]:
    clock, ids = SystemClock(), RandomIds()
    store = PostgresStore(url_of([wire]), clock=clock, ids=ids)
    await store.open()
    settings = Settings(home=home, embedder=Hashed())
    tiers = Tiers.of(deep=HashedEmbedder())
    service = build_service(store, tiers, settings, clock=clock, ids=ids)
    async with service.background_work():
        yield service
    await store.close()
