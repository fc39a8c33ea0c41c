"""A service with the local model on a store of its own, for one organisation."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from engram.clock import RandomIds
from engram.embedding.choice import LocalModel
from engram.model.access import OrganizationDraft, Principal
from engram.service import Service
from engram.service.work.indexing import Indexer
from engram.settings import Settings
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import build_embedders, build_service
from tests.fakes import FakeClock


@dataclass(frozen=True, slots=True)
class LocalService:
    """The service, the credential of its organisation, and its background work."""

    service: Service
    me: Principal
    indexer: Indexer

    async def index(self) -> None:
        """Compute all deep vectors that are missing."""
        while await self.indexer.work(self.me.organization_id):
            pass


@asynccontextmanager
async def open_local_service(directory: Path) -> AsyncGenerator[LocalService]:
    """Yield a service on a new store, whose background work waits to be asked for."""
    settings = Settings(home=directory, embedder=LocalModel())
    clock, ids = FakeClock(), RandomIds()
    store = SqliteStore(directory, clock=clock, ids=ids)
    await store.open()
    tiers = build_embedders(settings, clock=clock)
    try:
        service = build_service(store, tiers, settings, clock=clock, ids=ids)
        made, _ = await service.operator.create_organization(OrganizationDraft(name="Acme"))
        me = await service.operator.act_for(made.id)
        yield LocalService(service, me, Indexer(store, tiers, owner="job_test"))
    finally:
        await tiers.close()
        await store.close()
