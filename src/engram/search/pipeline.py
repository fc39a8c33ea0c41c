"""The search pipeline: find candidates, choose among them, deliver the results."""

from __future__ import annotations

from functools import partial

from engram.model.search import SearchAnswer, SearchRequest
from engram.search.choose import choose
from engram.search.deliver import deliver
from engram.search.find import Sought, find
from engram.search.question import Embed
from engram.storage.organization import OrganizationStore

NOTHING_RELEVANT = "nothing relevant"


async def search(
    request: SearchRequest, store: OrganizationStore, *, embed: Embed, now: int
) -> SearchAnswer:
    """Answer a search request, best results first, within its limits.

    Raises:
        NotFoundError: the filters name a conversation that does not exist here.
    """
    sought = Sought(
        query=request.query, filters=request.filters, kinds=request.kinds, profile=request.profile
    )
    chosen, loaded, degraded = await find(
        sought, store, embed=embed, now=now, choose=partial(choose, request=request, now=now)
    )
    delivered = await deliver(chosen, loaded, request=request, store=store)
    return SearchAnswer(
        results=delivered.results,
        total_candidates=len(chosen.candidates.keys),
        tokens=delivered.tokens,
        truncated=delivered.is_truncated,
        pending=loaded.pending,
        degraded=degraded,
        note=None if chosen.is_relevant else NOTHING_RELEVANT,
    )
