"""A process on a store of many organisations, most of them idle, beside one of few.

It starts, looks for work, serves one organisation and stops; what is counted does not depend on the machine.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from bench.figures import Figure
from engram.clock import RandomIds, SystemClock
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.model.access import OrganizationDraft
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import OrganizationId
from engram.model.search import SearchRequest
from engram.settings import Settings
from engram.storage.postgres.store import PostgresStore
from engram.storage.sqlite.store import SqliteStore
from engram.storage.store import Store
from engram.wiring import build_service
from tests.postgres.servers import Server, running_servers
from tests.postgres.trips import counted_wire

FEW = 10
USED = 100
"""Organisations with a file of their own; a tenth of a second each to make. Others were created and not used yet."""

_LEASE = timedelta(minutes=5)
ADDED_AT_ONCE = 200

_SETTLE = """
INSERT INTO engram.meta (organization_id, public_id)
SELECT number, organization_id FROM engram.organization ON CONFLICT DO NOTHING;
INSERT INTO engram.word_index (organization_id) SELECT number FROM engram.organization
ON CONFLICT DO NOTHING;
DELETE FROM engram.due;
INSERT INTO engram.due (organization_id, kind, due_at)
SELECT number, 'scrub', 1000000 * extract(epoch FROM now() + interval '7 days')
FROM engram.organization;
"""
"""Gives every organisation its first rows, and what it has left after it was looked at."""

Build = Callable[[], Store]


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return what idle organisations cost on a directory and on PostgreSQL."""
    count = 200 if quick else 10_000
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        figures = asyncio.run(_on_files(Path(directory), count=count))
    with running_servers() as servers:
        return [*figures, *asyncio.run(_on_server(servers.primary(), count=count))]


async def _on_files(directory: Path, *, count: int) -> list[Figure]:
    opened = list[str]()

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "sqlite3.connect":
            opened.append(str(arguments[0]))

    sys.addaudithook(note)
    costs = list[tuple[int, float]]()

    def build() -> Store:
        return SqliteStore(directory, clock=SystemClock(), ids=RandomIds())

    for wanted in (FEW, count):
        chosen = await add_organizations(build, wanted)
        await _settle_files(build)
        await _use(build, chosen)
        opened.clear()
        cpu_s = await _use(build, chosen)
        costs.append((len(opened), cpu_s))
    return _figures("a directory", "connections to files", costs, count=count)


async def _on_server(server: Server, *, count: int) -> list[Figure]:
    server.execute("CREATE DATABASE idle")
    costs = list[tuple[int, float]]()
    async with counted_wire(server) as wire:
        for wanted in (FEW, count):
            chosen = await add_organizations(lambda: store_at(server.socket_url("idle")), wanted)
            server.execute(_SETTLE, database="idle")
            await _use(lambda: store_at(wire.url("idle")), chosen)
            wire.statements.clear()
            cpu_s = await _use(lambda: store_at(wire.url("idle")), chosen)
            costs.append((len(wire.statements), cpu_s))
    return _figures("PostgreSQL", "statements", costs, count=count)


def store_at(url: str) -> Store:
    """Return a store in a database, not open yet."""
    return PostgresStore(url, clock=SystemClock(), ids=RandomIds())


def _figures(
    where: str, unit: str, costs: Sequence[tuple[int, float]], *, count: int
) -> list[Figure]:
    (few, few_s), (many, many_s) = costs
    what = f"a process that serves one of {count:,} organisations on {where}"
    return [
        Figure(
            name=f"{what}, from start to stop",
            value=many,
            unit=unit,
            floor=few,
            floor_name=f"one of {FEW}",
            direction="at most",
            bound=1.0,
        ),
        Figure(
            name=f"CPU of {what}",
            value=1000 * many_s,
            unit="CPU ms",
            floor=1000 * few_s,
            floor_name=f"one of {FEW}",
            direction="at most",
            bound=None,
        ),
    ]


async def add_organizations(build: Build, wanted: int) -> OrganizationId:
    """Add organisations, some with files or rows, until there are so many; return the last."""
    store = build()
    await store.open()
    try:
        present = len(await store.control.list_organizations())
        last = list[OrganizationId]()
        for first in range(present, wanted, ADDED_AT_ONCE):
            drafts = [
                OrganizationDraft(name=f"organisation {number}")
                for number in range(first, min(first + ADDED_AT_ONCE, wanted))
            ]
            last = [
                made.id
                for made in await asyncio.gather(
                    *(store.control.create_organization(each, actor="bench") for each in drafts)
                )
            ]
        used = last[-USED:]
        for each in used:
            await store.organization(each)
        return used[-1]
    finally:
        await store.close()


async def _settle_files(build: Build) -> None:
    """Settle what a new organisation is looked at for; the pass of the scrubber is left to its day."""
    store = build()
    await store.open()
    try:
        while due := await store.claim_due(
            ["vectors", "documents", "erasing", "jobs"], lease=_LEASE, limit=1_000
        ):
            for each in due:
                await (await store.organization(each.organization_id)).settle_due(each.kind)
    finally:
        await store.close()


async def _use(build: Build, organization_id: OrganizationId) -> float:
    """Start, look for work, append, search and stop; return the processor time."""
    began = time.process_time()
    store, clock, ids = build(), SystemClock(), RandomIds()
    await store.open()
    tiers = Tiers.of(deep=HashedEmbedder())
    settings = Settings(home=Path(tempfile.gettempdir()), scrub_rate=0)
    service = build_service(store, tiers, settings, clock=clock, ids=ids)
    await service.background.take_due()
    principal = await service.operator.act_for(organization_id)
    message = MessageDraft(role="user", content="tanuki are tricksters")
    await service.conversations.append_messages(principal, AppendRequest(messages=(message,)))
    await service.indexer.work_queued()
    await service.background.take_due()
    await service.search.search(principal, SearchRequest(query="tricksters"))
    await tiers.close()
    await store.close()
    return time.process_time() - began
