"""A service in this process on a real store, with embedders and a time of the test's choosing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio

from engram.clock import RandomIds
from engram.embedding.choice import NoEmbedder
from engram.embedding.tiers import Tiers
from engram.model.access import OrganizationDraft, Principal
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.search import ScoreBreakdown, SearchAnswer, SearchRequest
from engram.service import Service
from engram.settings import Settings
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import build_service
from tests.fakes import FakeClock

PATIENCE_S = 60.0
"""What nobody waits longer for, whatever an embedder does; far more than the store takes on a busy machine."""


class House:
    """One organisation's use of the service."""

    def __init__(self, service: Service, principal: Principal, clock: FakeClock) -> None:
        self.service = service
        self.principal = principal
        self._clock = clock

    async def append(self, text: str) -> None:
        """Store a message without waiting for an embedder."""
        request = AppendRequest(messages=(MessageDraft(role="user", content=text),))
        with anyio.fail_after(PATIENCE_S):
            await self.service.conversations.append_messages(self.principal, request)

    async def search(self, query: str) -> SearchAnswer:
        """Search without waiting long for an embedder."""
        with anyio.fail_after(PATIENCE_S):
            return await self.service.search.search(
                self.principal, SearchRequest(query=query, explain=True)
            )

    async def degraded(self) -> tuple[str, ...]:
        """Return what the status says that searches have to do without."""
        return (await self.service.account.status(self.principal)).degraded

    async def pending(self) -> int:
        """Return how many messages wait for vectors."""
        return (await self.service.account.status(self.principal)).counters.pending

    async def index_all(self) -> None:
        """Let minutes pass until the background has given every message its vectors."""
        with anyio.fail_after(PATIENCE_S):
            while await self.pending():
                self._clock.advance(timedelta(seconds=60))
                await self.service.background.take_due()


@asynccontextmanager
async def opened_house(directory: Path, tiers: Tiers, *, clock: FakeClock) -> AsyncGenerator[House]:
    """Open a store and let the background work on it."""
    ids = RandomIds()
    store = SqliteStore(directory, clock=clock, ids=ids)
    await store.open()
    settings = Settings(home=directory, embedder=NoEmbedder())
    service = build_service(store, tiers, settings, clock=clock, ids=ids, sleep=nap)
    made, _ = await service.operator.create_organization(OrganizationDraft(name="local"))
    try:
        async with service.background_work():
            yield House(service, await service.operator.act_for(made.id), clock)
    finally:
        await tiers.close()
        await store.close()


async def nap(_: float) -> None:
    """Wait as short as the test's patience is."""
    await asyncio.sleep(0.01)


def explained(answer: SearchAnswer) -> ScoreBreakdown:
    """Return how the score of the best message came about."""
    breakdown = answer.results[0].messages[0].breakdown
    assert breakdown is not None
    return breakdown
