"""One organisation's use of a service with embedders of the test's choosing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from engram.clock import RandomIds
from engram.embedding.choice import NoEmbedder
from engram.embedding.port import Embedder
from engram.embedding.tiers import Tiers
from engram.model.access import KEY_SCOPES, OrganizationDraft, Principal
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import MemoryId
from engram.model.memory import MemoryDraft
from engram.model.recall import Recalled, RecallRequest
from engram.model.search import SearchAnswer, SearchRequest
from engram.service import Service
from engram.settings import Settings
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import build_service
from tests.fakes import FakeClock


class House:
    """One organisation, reached through its use cases."""

    def __init__(
        self,
        principal: Principal,
        clock: FakeClock,
        *,
        tiers: Tiers,
        build: Callable[[Tiers], Service],
    ) -> None:
        self.service = build(tiers)
        self.principal = principal
        self.clock = clock
        self._build = build

    def with_embedder(self, deep: Embedder) -> House:
        """Return the same organisation as a process with another embedder has it."""
        return House(self.principal, self.clock, tiers=Tiers.of(deep=deep), build=self._build)

    async def append(self, content: str) -> None:
        request = AppendRequest(messages=(MessageDraft(role="user", content=content),))
        await self.service.conversations.append_messages(self.principal, request)

    async def keep(self, content: str, **fields: Any) -> MemoryId:
        draft = MemoryDraft(content=content, **fields)
        (stored,) = (await self.service.memories.store(self.principal, draft)).memories
        return stored.id

    async def search(self, query: str) -> SearchAnswer:
        return await self.service.search.search(self.principal, SearchRequest(query=query))

    async def recall(self, query: str, **fields: Any) -> Recalled:
        request = RecallRequest(query=query, **fields)
        return await self.service.search.recall(self.principal, request)

    async def pending(self) -> int:
        """Return how many texts wait for vectors."""
        return (await self.service.account.status(self.principal)).counters.pending


@asynccontextmanager
async def opened_house(
    home: Path, *, deep: Embedder | None = None, instant: Embedder | None = None
) -> AsyncGenerator[House]:
    """Open a store of one organisation; nothing works in its background."""
    clock, ids = FakeClock(), RandomIds()
    store = SqliteStore(home, clock=clock, ids=ids)
    await store.open()
    tiers = Tiers.of(deep=deep, instant=instant)
    settings = Settings(home=home, embedder=NoEmbedder())
    made = await store.control.create_organization(OrganizationDraft(name="acme"), actor="test")
    principal = Principal(organization_id=made.id, actor="test", scopes=frozenset(KEY_SCOPES))
    build = partial(build_service, store, settings=settings, clock=clock, ids=ids)
    try:
        yield House(principal, clock, tiers=tiers, build=build)
    finally:
        await tiers.close()
        await store.close()
