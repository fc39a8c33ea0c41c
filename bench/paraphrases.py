"""Share of questions whose message is found though it has no word of them, at once and later."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench.figures import Figure
from bench.pairs import PAIRS, Pair, hidden
from engram.clock import RandomIds, SystemClock
from engram.model.access import OrganizationDraft, Principal
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.search import SearchRequest
from engram.service import Service
from engram.service.work.indexing import Indexer
from engram.settings import load_settings
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import build_embedders, build_service

OTHERS = 2_000
CONVERSATION_MESSAGES = 30
FIRST = 5


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the shares found among the first five messages."""
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        return asyncio.run(_measure(Path(directory), among=OTHERS // 10 if quick else OTHERS))


async def _measure(directory: Path, *, among: int) -> list[Figure]:
    async with hidden_pairs(directory, among=among) as memory:
        at_once = await memory.share_found()
        started = time.perf_counter()
        await memory.index()
        seconds = time.perf_counter() - started
        later = await memory.share_found()
    print(f"deep vectors of {among + len(PAIRS):,} messages: {seconds:.1f} s", flush=True)
    return [_figure("at once", at_once, among), _figure("after deep indexing", later, among)]


def _figure(when: str, share: float, among: int) -> Figure:
    return Figure(
        name=f"paraphrases found {when} in the first {FIRST} messages, among {among:,} others",
        value=100 * share,
        unit="%",
        floor=100,
        floor_name="all of them",
        direction="at least",
        bound=None,
    )


class Memory:
    """An organisation that holds the messages of the pairs among others."""

    def __init__(self, service: Service, principal: Principal, indexer: Indexer) -> None:
        self._service = service
        self._principal = principal
        self._indexer = indexer

    async def share_found(self) -> float:
        """Return how many of the questions find their message."""
        return sum([await self._is_found(pair) for pair in PAIRS]) / len(PAIRS)

    async def index(self) -> None:
        """Give every message its deep vectors."""
        while await self._indexer.work(self._principal.organization_id):
            pass

    async def _is_found(self, pair: Pair) -> bool:
        request = SearchRequest(query=pair.question, explain=True, min_score=0)
        answer = await self._service.search.search(self._principal, request)
        assert answer.degraded == (), answer.degraded
        found = [
            (item.breakdown.order, item.message.content)
            for result in answer.results
            for item in result.messages
            if item.breakdown is not None
        ]
        return pair.message in [text for _, text in sorted(found, reverse=True)[:FIRST]]


@asynccontextmanager
async def hidden_pairs(directory: Path, *, among: int) -> AsyncGenerator[Memory]:
    """Store the messages of the pairs among others, and yield the memory of them."""
    settings = load_settings({"home": directory, "embedder": "local"})
    clock, ids = SystemClock(), RandomIds()
    store = SqliteStore(directory, clock=clock, ids=ids)
    await store.open()
    tiers = build_embedders(settings, clock=clock)
    try:
        service = build_service(store, tiers, settings, clock=clock, ids=ids)
        made, _ = await service.operator.create_organization(OrganizationDraft(name="bench"))
        principal = await service.operator.act_for(made.id)
        await _store_all(service, principal, hidden(among=among))
        yield Memory(service, principal, Indexer(store, tiers, owner=ids.new("job_")))
    finally:
        await tiers.close()
        await store.close()


async def _store_all(service: Service, principal: Principal, texts: Sequence[str]) -> None:
    for start in range(0, len(texts), CONVERSATION_MESSAGES):
        conversation_id = await service.conversations.create_conversation(
            principal, ConversationDraft()
        )
        drafts = tuple(
            MessageDraft(role="user", content=text)
            for text in texts[start : start + CONVERSATION_MESSAGES]
        )
        await service.conversations.append_messages(
            principal, AppendRequest(conversation_id=conversation_id, messages=drafts)
        )
