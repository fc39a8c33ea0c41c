"""The service of a directory together with the parts that a benchmark drives by itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from engram.clock import RandomIds, SystemClock
from engram.embedding.tiers import Tiers
from engram.service import Service
from engram.service.work.indexing import Indexer
from engram.settings import Settings
from engram.storage.sqlite.store import SqliteStore
from engram.storage.store import Store
from engram.wiring import build_embedders, build_service


@dataclass(frozen=True, slots=True)
class Parts:
    """An open service whose background work is left to the benchmark."""

    service: Service
    store: Store
    tiers: Tiers
    indexer: Indexer


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncGenerator[Parts]:
    """Open what `settings` describe as `open_service` does, and yield its parts."""
    clock, ids = SystemClock(), RandomIds()
    store = SqliteStore(settings.home, clock=clock, ids=ids)
    await store.open()
    tiers = build_embedders(settings, clock=clock)
    try:
        service = build_service(store, tiers, settings, clock=clock, ids=ids)
        yield Parts(service, store, tiers, Indexer(store, tiers, owner=ids.new("job_")))
    finally:
        await tiers.close()
        await store.close()
