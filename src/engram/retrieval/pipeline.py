"""Answer a search: the steps from a question to its results, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from engram import limits
from engram.model.search import Candidates, Loaded, SearchAnswer, SearchRequest
from engram.retrieval.choose import Chosen, choose
from engram.retrieval.deliver import deliver
from engram.retrieval.fuse import has_vectors
from engram.retrieval.profiles import PROFILES
from engram.retrieval.question import (
    EMBEDDER_CHANGED,
    WITHOUT_VECTORS,
    WORDS_ONLY,
    Embed,
    Question,
)
from engram.storage.ports import OrganizationStore
from engram.text.analyse import query_terms

NOTHING_RELEVANT = "nothing relevant"
QUERY_SHORTENED = "query_shortened"


async def search(
    request: SearchRequest, store: OrganizationStore, *, embed: Embed, now: int
) -> SearchAnswer:
    """Find what the store holds about a question, best first, within the request's bounds.

    Raises:
        NotFoundError: the filters name a conversation that is not here.
    """
    profile = PROFILES[request.profile]
    is_asked = bool(request.filters.admit(request.kinds))
    terms = query_terms(request.query) if is_asked and profile.needs_words else []
    searched = shorten(terms)
    question = WITHOUT_VECTORS
    if is_asked and profile.needs_vectors:
        question = await embed(request.query, is_instant_needed=False)
    chosen, loaded = await _find(request, store, searched, question, now=now)
    if chosen.candidates.unasked:
        question = await embed(request.query, is_instant_needed=True)
        chosen, loaded = await _find(request, store, searched, question, now=now)
    delivered = await deliver(chosen, loaded, request=request, store=store)
    degraded = (*question.degraded, *_mismatches(chosen.candidates))
    return SearchAnswer(
        results=delivered.results,
        total_candidates=len(chosen.candidates.keys),
        tokens=delivered.tokens,
        truncated=delivered.is_truncated,
        pending=loaded.pending,
        degraded=degraded if searched == terms else (*degraded, QUERY_SHORTENED),
        note=None if chosen.is_relevant else NOTHING_RELEVANT,
    )


def shorten(terms: Sequence[str]) -> list[str]:
    """Return the terms without those that come after the first `QUERY_TERMS_MAX` different ones."""
    known = set(list(dict.fromkeys(terms))[: limits.QUERY_TERMS_MAX])
    return [term for term in terms if term in known]


async def _find(
    request: SearchRequest,
    store: OrganizationStore,
    terms: Sequence[str],
    question: Question,
    *,
    now: int,
) -> tuple[Chosen, Loaded]:
    """Return what is delivered of all that the store holds about a question."""
    return await store.search(
        terms,
        vectors=question.vectors,
        filters=request.filters,
        kinds=request.kinds,
        now=now,
        limit=limits.LEG_CANDIDATES,
        choose=partial(choose, request=request, calibrations=question.calibrations, now=now),
    )


def _mismatches(candidates: Candidates) -> tuple[str, ...]:
    """Say when the stored vectors are another embedder's, and when none is left to compare."""
    if not candidates.mismatched:
        return ()
    return (EMBEDDER_CHANGED,) if has_vectors(candidates) else (WORDS_ONLY, EMBEDDER_CHANGED)
