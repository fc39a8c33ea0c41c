"""Finding again what was said."""

from __future__ import annotations

from engram.model.access import Principal
from engram.model.search import SearchAnswer, SearchRequest
from engram.retrieval.pipeline import search
from engram.service.activity import Activity
from engram.storage.ports import Store


class Recall:
    """The search use case."""

    def __init__(self, store: Store, activity: Activity) -> None:
        self._store = store
        self._activity = activity

    async def search(self, principal: Principal, request: SearchRequest) -> SearchAnswer:
        """Return the best verbatim messages for a question, within its token budget."""
        principal.require("search")
        store = await self._store.organization(principal.organization_id)
        answer = await search(request, store)
        self._activity.searches += 1
        return answer
