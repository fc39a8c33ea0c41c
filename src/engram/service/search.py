"""The use cases that search: authorise, wait for pending vectors within a bound, count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING

from engram import limits
from engram.errors import NotFoundError
from engram.model.access import Principal
from engram.model.value import replace
from engram.search.query import QueryEmbedder
from engram.service.use_case import Tools, UseCases

if TYPE_CHECKING:
    from engram.model.document_query import DocumentQuery, QueriedDocuments
    from engram.model.ids import EpisodeId
    from engram.model.recall import Context, ContextRequest, Recalled, RecallRequest
    from engram.model.search import SearchAnswer, SearchRequest
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

    async def query_document(self, principal: Principal, query: DocumentQuery) -> QueriedDocuments:
        """Return the spans of texts that answer a question, and an answer if a model can write one.

        Raises:
            InvalidRequestError: the filter is malformed.
            NotFoundError: there is no such memory in the project.
        """
        from engram.search.document_query import patterns_of, query_documents

        patterns = patterns_of(query)
        async with self._session(principal) as session:
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
    async def _session(self, principal: Principal) -> AsyncGenerator[SearchSession]:
        """Yield the caller's store for one search, after a bounded wait for its pending vectors."""
        from engram.search.candidates import SearchSession

        organization_id, indexer = principal.organization_id, self._tools.indexer
        with self._tools.activity.answering():
            store = await self._open(principal, "search")
            if indexer.has_lag:
                await indexer.drain(organization_id, limit_s=limits.INDEX_DRAIN_S)
            yield SearchSession(
                store=store,
                embed=partial(self._embedder.embed, organization_id=organization_id),
                at=self._tools.clock.now(),
                has_lag=indexer.has_lag,
            )
        self._tools.activity.searches += 1
        self._tools.meter.count(organization_id, searches=1)


async def _check_episode(
    memories: MemoryStore, episode_id: EpisodeId, projects: Collection[str] | None
) -> None:
    episode = await memories.get_episode(episode_id)
    if projects is not None and episode.project not in projects:
        raise NotFoundError("episode", episode_id)
