"""Stores on servers of a test, opened for the length of a block."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from engram import limits
from engram.clock import RandomIds, SystemClock
from engram.model.access import OrganizationDraft
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.store import PostgresStore
from engram.storage.store import Store
from tests.storage.drafts import ACTOR


@asynccontextmanager
async def opened(
    url: str,
    *,
    read_url: str | None = None,
    direct_url: str | None = None,
    staleness_s: float = 0.0,
    connections_max: int = limits.DATABASE_CONNECTIONS,
) -> AsyncGenerator[PostgresStore]:
    """Yield a store as a process of its own has it."""
    store = PostgresStore(
        url,
        clock=SystemClock(),
        ids=RandomIds(),
        read_url=read_url,
        direct_url=direct_url,
        staleness_s=staleness_s,
        connections_max=connections_max,
    )
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def new_organization(store: Store) -> OrganizationStore:
    """Return the empty store of a new organisation."""
    created = await store.control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)
    return await store.organization(created.id)
