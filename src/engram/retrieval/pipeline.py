"""Answer a search: the steps from a question to its results, in their order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from engram import limits
from engram.model.search import Candidates, SearchAnswer, SearchRequest
from engram.retrieval.deliver import deliver
from engram.retrieval.fuse import Scored, has_vectors, score
from engram.retrieval.profiles import PROFILES, Profile, usable_profile
from engram.retrieval.question import EMBEDDER_CHANGED, WITHOUT_VECTORS, WORDS_ONLY, Question
from engram.storage.ports import OrganizationStore
from engram.text.analyse import query_terms

NOTHING_RELEVANT = "nothing relevant"
QUERY_SHORTENED = "query_shortened"

Embed = Callable[[str], Awaitable[Question]]


async def search(
    request: SearchRequest, store: OrganizationStore, *, embed: Embed, now: int
) -> SearchAnswer:
    """Find what the store holds about a question, best first, within the request's bounds.

    Raises:
        NotFoundError: the filters name a conversation that is not here.
    """
    profile = PROFILES[request.profile]
    is_asked = "conversation" in request.kinds
    terms = query_terms(request.query) if is_asked and profile.needs_words else []
    searched = shorten(terms)
    question = WITHOUT_VECTORS
    if is_asked and profile.needs_vectors:
        question = await embed(request.query)
    candidates = await store.find_candidates(
        searched, vectors=question.vectors, filters=request.filters, limit=limits.LEG_CANDIDATES
    )
    profile = usable_profile(request.profile, has_vectors=has_vectors(candidates))
    scoring = score(candidates, profile=profile, calibrations=question.calibrations, now=now)
    ranked = scoring.rank(score_min=request.min_score)
    delivered = await deliver(ranked, request=request, store=store, scoring=scoring)
    degraded = (*question.degraded, *_mismatches(candidates))
    return SearchAnswer(
        results=delivered.results,
        total_candidates=len(candidates.keys),
        tokens=delivered.tokens,
        truncated=delivered.is_truncated,
        pending=delivered.pending,
        degraded=degraded if searched == terms else (*degraded, QUERY_SHORTENED),
        note=None if is_relevant(ranked, profile) else NOTHING_RELEVANT,
    )


def shorten(terms: Sequence[str]) -> list[str]:
    """Return the terms without those that come after the first `QUERY_TERMS_MAX` different ones."""
    known = set(list(dict.fromkeys(terms))[: limits.QUERY_TERMS_MAX])
    return [term for term in terms if term in known]


def is_relevant(ranked: Sequence[Scored], profile: Profile) -> bool:
    """Say whether the best of the messages found is good enough to be an answer."""
    return max((item.score for item in ranked), default=0.0) >= profile.relevant


def _mismatches(candidates: Candidates) -> tuple[str, ...]:
    """Say when the stored vectors are another embedder's, and when none is left to compare."""
    if not candidates.mismatched:
        return ()
    return (EMBEDDER_CHANGED,) if has_vectors(candidates) else (WORDS_ONLY, EMBEDDER_CHANGED)
