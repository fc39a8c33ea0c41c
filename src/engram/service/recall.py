"""Finding again what was said."""

from __future__ import annotations

from dataclasses import replace

from engram.model.access import Principal
from engram.model.search import SearchAnswer, SearchRequest
from engram.service.searching import Searching


class Recall:
    """The search use case."""

    def __init__(self, searching: Searching) -> None:
        self._searching = searching

    async def search(self, principal: Principal, request: SearchRequest) -> SearchAnswer:
        """Return the best verbatim messages and memories for a question, within its token budget."""
        from engram.search.pipeline import search  # noqa: PLC0415 brings NumPy

        async with self._searching.open(principal) as opened:
            answer = await search(request, opened.store, embed=opened.embed, now=opened.now)
        missing = self._searching.missing(answer.pending)
        return replace(answer, degraded=(*answer.degraded, *missing)) if missing else answer
