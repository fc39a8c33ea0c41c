"""The costs that the model is fed with, measured at some sizes on PostgreSQL; what it says of the largest size beside
what was measured there.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import psutil

from bench.bare import bare_model
from bench.figures import Figure, allowed
from bench.filling import append_chat, fill_messages, new_organization
from bench.idle import add_organizations, store_at
from bench.model import COSTS, MILLION, Costs, Model, line_through
from bench.nearest import used_cpu_s
from bench.search import queries
from bench.spread import plant_deep_vectors
from bench.texts import chat
from engram.embedding.choice import NoEmbedder
from engram.model.access import Principal
from engram.model.search import SearchRequest
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.postgres.servers import Server, running_servers

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 3_000, 10_000)
ORGANIZATIONS = 10_000
STORED = 500

EMBEDDED = 200
ROUNDS = range(1, 6)
EXCESS_MAX = 1.2
"""By how much more may be needed than the model says."""

RESERVE_MAX = 2.0
"""By how much less: a search does not read all that a line through two smaller sizes says."""

_BYTES = "SELECT pg_database_size(current_database())"


@dataclass(frozen=True, slots=True)
class _Cost:
    """Milliseconds of processors."""

    process_ms: float
    server_ms: float

    @staticmethod
    def median(costs: Sequence[_Cost]) -> _Cost:
        """Return the median of each part."""
        return _Cost(
            median(each.process_ms for each in costs), median(each.server_ms for each in costs)
        )

    def of_each(self, count: int) -> _Cost:
        """Return the share of one of so many."""
        return _Cost(self.process_ms / count, self.server_ms / count)


@dataclass(frozen=True, slots=True)
class _Filled:
    """An organisation in a database."""

    principal: Principal
    messages: int
    bytes: int
    server_pid: int


@dataclass(frozen=True, slots=True)
class _Point:
    """What was measured in an organisation of one size."""

    messages: int
    bytes: int
    process_mb: float
    """Before it has read the vectors."""
    vectors_mb: float
    search: _Cost
    storing: _Cost


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the model beside what was measured at the largest size; a full run keeps the costs."""
    points = [_measure_size(size) for size in (QUICK_SIZES if quick else SIZES)]
    costs = _costs(
        points,
        organization_bytes=_organization_bytes(200 if quick else ORGANIZATIONS),
        embedding_ms=_embedding_ms(),
    )
    if not quick:
        COSTS.write_text(json.dumps(asdict(costs), indent=2) + "\n")
    return _figures(costs, points, is_bound=not quick)


def _costs(points: Sequence[_Point], *, organization_bytes: float, embedding_ms: float) -> Costs:
    """Return the costs by all sizes but the largest, which the model is to foretell."""
    few, many, _ = points
    return Costs(
        message_bytes=(many.bytes - few.bytes) / (many.messages - few.messages),
        organization_bytes=organization_bytes,
        vector_bytes=MILLION * many.vectors_mb / many.messages,
        process_mb=many.process_mb,
        storing_ms=many.storing.process_ms,
        storing_server_ms=many.storing.server_ms,
        embedding_ms=embedding_ms,
        search_ms=line_through(
            (few.messages, few.search.process_ms), (many.messages, many.search.process_ms)
        ),
        search_server_ms=line_through(
            (few.messages, few.search.server_ms), (many.messages, many.search.server_ms)
        ),
    )


def _figures(costs: Costs, points: Sequence[_Point], *, is_bound: bool) -> list[Figure]:
    few, _, largest = points
    model, size = Model(costs), f"{largest.messages:,} messages"
    added_mb = (largest.bytes - few.bytes) / MILLION
    said_mb = model.disk_bytes(largest.messages - few.messages, 0) / MILLION
    memory_mb = largest.process_mb + largest.vectors_mb
    said_memory_mb = model.process_bytes(largest.messages) / MILLION
    said_ms = costs.search_ms.at(largest.messages)
    said_server_ms = costs.search_server_ms.at(largest.messages)
    storing, said_storing_ms = largest.storing, costs.storing_ms
    figures = [
        _beside(f"disk of {size}", added_mb, said_mb, unit="MB"),
        _beside(
            f"memory of a process that has searched {size}", memory_mb, said_memory_mb, unit="MB"
        ),
        _beside(
            f"cold search over {size}, process and server",
            largest.search.process_ms + largest.search.server_ms,
            said_ms + said_server_ms,
        ),
        _beside(f"storing one of {size}", storing.process_ms, said_storing_ms),
        _beside(
            f"storing one of {size}, in the server", storing.server_ms, costs.storing_server_ms
        ),
    ]
    excess = max(figure.ratio for figure in figures)
    reserve = 1 / min(figure.ratio for figure in figures)
    in_server = _beside(
        f"cold search over {size}, in the server alone", largest.search.server_ms, said_server_ms
    )
    return [
        *figures,
        # Of a few milliseconds, which grow less than a line says: in no bound by itself.
        in_server,
        allowed(
            "most that was measured above the model",
            excess,
            unit="times",
            at_most=EXCESS_MAX,
            is_bound=is_bound,
        ),
        allowed(
            "most that the model is above a measurement",
            reserve,
            unit="times",
            at_most=RESERVE_MAX,
            is_bound=is_bound,
        ),
    ]


def _beside(name: str, value: float, said: float, *, unit: str = "CPU ms") -> Figure:
    return Figure(
        name=name,
        value=value,
        unit=unit,
        floor=said,
        floor_name="foretold from a tenth of it",
        direction="at most",
        bound=None,
    )


def _measure_size(messages: int) -> _Point:
    with running_servers() as servers, tempfile.TemporaryDirectory() as directory:
        server = servers.primary()
        server.execute("CREATE DATABASE engram")
        url = server.socket_url("engram")
        settings = Settings(home=Path(directory), embedder=NoEmbedder(), database_url=url)
        principal = asyncio.run(_fill(settings, messages))
        plant_deep_vectors(url)
        stored = _bytes(server)
        # In a process of its own, whose memory is that of a server.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
            asked = Settings(home=Path(directory), database_url=url)
            filled = _Filled(principal, messages, stored, server.pid)
            return processes.submit(_measure_filled, asked, filled).result()


def _measure_filled(settings: Settings, filled: _Filled) -> _Point:
    return asyncio.run(_measure(settings, filled))


async def _fill(settings: Settings, messages: int) -> Principal:
    async with open_service(settings) as service:
        principal = await new_organization(service)
        await fill_messages(service, principal, messages=messages)
        await service.background.work(principal.organization_id)
        return principal


async def _measure(settings: Settings, filled: _Filled) -> _Point:
    principal, server_pid = filled.principal, filled.server_pid
    async with open_service(settings) as service:
        # What a process does once, as loading the models, is not what a request costs.
        other = await new_organization(service)
        await _ask_all(service, other, number=0)
        before = _resident_mb()
        await _ask_all(service, principal, number=0)
        vectors_mb = max(_resident_mb() - before, 0.0)
        searching = [
            await _search_cost(service, server_pid, principal, number) for number in ROUNDS
        ]
        texts = list(chat(STORED))
        storing = await _cost(server_pid, append_chat(service, principal, texts))
    return _Point(
        messages=filled.messages,
        bytes=filled.bytes,
        process_mb=before,
        vectors_mb=vectors_mb,
        search=_Cost.median(searching).of_each(len(queries())),
        storing=storing.of_each(STORED),
    )


async def _search_cost(
    service: Service, server_pid: int, principal: Principal, number: int
) -> _Cost:
    # An append, so that nothing of the organisation that was remembered is true.
    await append_chat(service, principal, [f"Round {number} begins."])
    return await _cost(server_pid, _ask_all(service, principal, number=number))


async def _ask_all(service: Service, principal: Principal, *, number: int) -> None:
    """Ask queries that no other round asks."""
    for query in queries():
        await service.search.search(principal, SearchRequest(query=f"{query} {number}"))


async def _cost(server_pid: int, work: Awaitable[None]) -> _Cost:
    here, all_of_it = time.process_time(), used_cpu_s(server_pid)
    await work
    here = time.process_time() - here
    return _Cost(1000 * here, 1000 * (used_cpu_s(server_pid) - all_of_it - here))


def _resident_mb() -> float:
    return psutil.Process().memory_info().rss / MILLION


def _embedding_ms() -> float:
    """Return the cost of a deep vector."""
    model, texts = bare_model(), list(chat(EMBEDDED))
    model.embed_passage(texts[0])
    started = time.process_time()
    for text in texts:
        model.embed_passage(text)
    return 1000 * (time.process_time() - started) / EMBEDDED


def _organization_bytes(count: int) -> float:
    """Return the bytes of an organisation that was made and never used."""
    with running_servers() as servers:
        server = servers.primary()
        server.execute("CREATE DATABASE engram")
        url = server.socket_url("engram")
        asyncio.run(add_organizations(lambda: store_at(url), 1))
        one = _bytes(server)
        asyncio.run(add_organizations(lambda: store_at(url), count))
        return (_bytes(server) - one) / (count - 1)


def _bytes(server: Server) -> int:
    server.execute("VACUUM ANALYZE", database="engram")
    ((found,),) = server.execute(_BYTES, database="engram")
    return found
