"""Finding again what was said."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from engram import limits
from engram.clock import Clock, to_microseconds
from engram.model.access import Principal
from engram.model.search import SearchAnswer, SearchRequest
from engram.retrieval.question import INDEX_LAG, Questions
from engram.service.activity import Activity
from engram.service.indexing import Indexer
from engram.storage.ports import Store


class Recall:
    """The search use case."""

    def __init__(
        self,
        store: Store,
        *,
        questions: Questions,
        indexer: Indexer,
        activity: Activity,
        clock: Clock,
    ) -> None:
        self._store = store
        self._questions = questions
        self._indexer = indexer
        self._activity = activity
        self._clock = clock

    async def search(self, principal: Principal, request: SearchRequest) -> SearchAnswer:
        """Return the best verbatim messages for a question, within its token budget."""
        principal.require("search")
        with self._activity.answering():
            return await self._search(principal, request)

    async def _search(self, principal: Principal, request: SearchRequest) -> SearchAnswer:
        from engram.retrieval.pipeline import search  # noqa: PLC0415 brings NumPy

        organization_id = principal.organization_id
        store = await self._store.organization(organization_id)
        if self._indexer.has_lag:
            await self._indexer.drain(organization_id, limit_s=limits.INDEX_DRAIN_S)
        answer = await search(
            request,
            store,
            embed=partial(self._questions.embed, organization_id=organization_id),
            now=to_microseconds(self._clock.now()),
        )
        self._activity.searches += 1
        if self._indexer.has_lag and answer.pending:
            return replace(answer, degraded=(*answer.degraded, INDEX_LAG))
        return answer
