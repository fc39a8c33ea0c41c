"""The use cases that search: authorise, wait for pending vectors within a bound, count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING

from engram import limits
from engram.errors import NotFoundError
from engram.model.access import Principal
from engram.model.value import replace
from engram.search.query import QueryEmbedder
from engram.service import Tools, UseCases

if TYPE_CHECKING:
    from datetime import datetime

    from engram.model.document import DocumentQuery, QueriedDocuments
    from engram.model.ids import EpisodeId
    from engram.model.recall import Context, ContextRequest, Recalled, RecallRequest
    from engram.model.reminder import Delivery, DeliveryDay, Reminder, ReminderRequest
    from engram.model.search import SearchAnswer, SearchRequest
    from engram.model.status import SearchTimes
    from engram.search.candidates import SearchSession
    from engram.search.context import ContextCache
    from engram.storage.memories.store import MemoryStore

SCANS_AT_ONCE = 2
"""Documents that are scanned for patterns at the same time; each takes a processor."""


class Search(UseCases):
    """Searches of an organisation; each kind is imported when it is first used."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._embedder = QueryEmbedder(tools.tiers)
        self._scans = asyncio.Semaphore(SCANS_AT_ONCE)

    async def search(self, principal: Principal, request: SearchRequest) -> SearchAnswer:
        """Return the best verbatim messages and memories for a query, within its token budget."""
        from engram.search.pipeline import search

        async with self._session(principal) as session:
            return await search(request, session)

    async def recall(self, principal: Principal, request: RecallRequest) -> Recalled:
        """Return the memories that answer a query, best first, those of the caller's episode raised.

        Raises:
            NotFoundError: there is no such episode in the projects that are searched.
        """
        from engram.search.recall import recall

        async with self._session(principal) as session:
            memories = session.store.memories
            for episode_id in request.episode_ids:
                await _check_episode(memories, episode_id, request.filters.projects)
            if principal.auto_episode and not request.episode_ids:
                episodes = await memories.open_episodes(principal.actor)
                request = replace(request, episode_ids=episodes)
            return await recall(request, session)

    async def fetch_context(self, principal: Principal, request: ContextRequest) -> Context:
        """Return what is relevant to a model's work, within its token budget."""
        async with self._session(principal) as session:
            return await self._contexts.fetch(request, session)

    async def remind(self, principal: Principal, request: ReminderRequest) -> Reminder:
        """Return what an agent needs to be told that did not ask; empty if there is nothing."""
        from engram.search.remind import remind

        async with self._session(principal) as session:
            return await remind(request, session)

    async def record_delivery(self, principal: Principal, delivery: Delivery) -> None:
        """Note what an agent was told; nothing that ranks reads it."""
        store = await self._open(principal, "search")
        await store.record_deliveries(delivery)

    async def list_deliveries(
        self,
        principal: Principal,
        *,
        limit: int,
        before: datetime | None = None,
        client: str | None = None,
        events: Sequence[str] | None = None,
    ) -> tuple[Delivery, ...]:
        """Return what agents were given last, newest first; what this process has noted is written before."""
        store = await self._open(principal, "read")
        await self._tools.deliveries.record_of(principal.organization_id)
        return await store.list_deliveries(limit=limit, before=before, client=client, events=events)

    async def delivered_by_day(self, principal: Principal, *, days: int) -> tuple[DeliveryDay, ...]:
        """Return how much agents were given on each of the last days, the newest first."""
        store = await self._open(principal, "read")
        await self._tools.deliveries.record_of(principal.organization_id)
        since = self._tools.clock.now().date() - timedelta(days=days - 1)
        return await store.delivered_by_day(since=since)

    def search_times(self, principal: Principal) -> SearchTimes | None:
        """Return how long the organisation's latest searches took in this process."""
        principal.require("read")
        return self._tools.meter.latencies.of(principal.organization_id)

    async def query_document(self, principal: Principal, query: DocumentQuery) -> QueriedDocuments:
        """Return the spans of texts that answer a question, and an answer if a model can write one.

        Raises:
            InvalidRequestError: the filter is malformed.
            NotFoundError: there is no such memory in the project.
        """
        from engram.search.document_query import patterns_of, query_documents

        patterns = patterns_of(query)
        async with self._session(principal, is_long=True) as session:
            queried = await query_documents(query, patterns, session, scans=self._scans)
        model = self._tools.language
        if model is None or not queried.spans:
            return queried
        from engram.language.citing import answer_from

        answer, failures = await answer_from(model, query.question, queried.spans)
        return replace(queried, answer=answer, degraded=(*queried.degraded, *failures))

    @cached_property
    def _contexts(self) -> ContextCache:
        from engram.search.context import ContextCache

        return ContextCache()

    @asynccontextmanager
    async def _session(
        self, principal: Principal, *, is_long: bool = False
    ) -> AsyncGenerator[SearchSession]:
        """Yield the caller's store for one search, after a bounded wait for its pending vectors.

        Appends wait for a search, unless it `is_long` by nature.
        """
        from engram.search.candidates import SearchSession

        organization_id, indexer = principal.organization_id, self._tools.indexer
        began = perf_counter()
        with self._tools.activity.answering():
            store = await self._open(principal, "search")
            if indexer.has_lag:
                await indexer.drain(organization_id, limit_s=limits.INDEX_DRAIN_S)
            turn = partial(self._tools.alternation.turn, organization_id, "search")
            yield SearchSession(
                store=store,
                embed=partial(self._embedder.embed, organization_id=organization_id),
                at=self._tools.clock.now(),
                has_lag=indexer.has_lag,
                turn=nullcontext if is_long else turn,
            )
        self._tools.activity.searches += 1
        self._tools.meter.count(organization_id, searches=1)
        self._tools.meter.latencies.note(organization_id, perf_counter() - began)


async def _check_episode(
    memories: MemoryStore, episode_id: EpisodeId, projects: Collection[str] | None
) -> None:
    episode = await memories.get_episode(episode_id)
    if projects is not None and episode.project not in projects:
        raise NotFoundError("episode", episode_id)
