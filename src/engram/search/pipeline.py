"""The search pipeline: find candidates, choose among them, deliver the results."""

from __future__ import annotations

from functools import partial

from engram.model.search import SearchAnswer, SearchRequest
from engram.search.candidates import CandidateQuery, SearchSession, find
from engram.search.choose import choose
from engram.search.deliver import deliver

NOTHING_RELEVANT = "nothing relevant"


async def search(request: SearchRequest, session: SearchSession) -> SearchAnswer:
    """Answer a search request, best results first, within its limits.

    Raises:
        NotFoundError: the filters name a conversation that does not exist here.
    """
    query = CandidateQuery(
        text=request.query,
        filters=request.filters,
        kinds=request.kinds,
        profile=request.profile,
        asked_at=request.asked_at or session.at,
    )
    chosen, loaded, degraded = await find(query, session, choose=partial(choose, request=request))
    delivered = await deliver(chosen, loaded, request=request, store=session.store)
    return SearchAnswer(
        results=delivered.results,
        total_candidates=len(chosen.candidates.keys),
        tokens=delivered.tokens,
        truncated=delivered.cut_by is not None,
        cut_by=delivered.cut_by,
        pending=loaded.pending,
        degraded=degraded,
        weaker=chosen.packed.weaker,
        repeated=delivered.repeated,
        note=None if chosen.is_relevant else NOTHING_RELEVANT,
    )
