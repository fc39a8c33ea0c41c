"""Answer a search: the steps from a question to its results, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from engram import limits
from engram.model.search import SearchAnswer, SearchRequest, WordMatches
from engram.retrieval.deliver import deliver
from engram.retrieval.fuse import WORD_LEGS, Scored, rank
from engram.storage.ports import OrganizationStore
from engram.text.analyse import query_terms

SCORE_RELEVANT = 0.3
"""An answer whose best score is lower says that nothing is relevant.

With words alone that keeps 94 to 100 of 100 questions that have an answer, and catches more than
half of those about people and things the store has never heard of. It cannot tell a question about
a known subject whose answer was never said.
"""

NOTHING_RELEVANT = "nothing relevant"
WORDS_ONLY = "words_only"
QUERY_SHORTENED = "query_shortened"


async def search(request: SearchRequest, store: OrganizationStore) -> SearchAnswer:
    """Find what the store holds about a question, best first, within the request's bounds.

    Raises:
        NotFoundError: the filters name a conversation that is not here.
    """
    terms = query_terms(request.query)
    searched = shorten(terms)
    matches = await _find_candidates(request, store, searched)
    ranked = rank(matches.candidates, legs=WORD_LEGS, score_min=request.min_score)
    delivered = await deliver(ranked, request=request, store=store, legs=WORD_LEGS)
    return SearchAnswer(
        results=delivered.results,
        total_candidates=matches.total,
        tokens=delivered.tokens,
        truncated=delivered.is_truncated,
        pending=(await store.counters()).pending,
        degraded=(WORDS_ONLY,) if searched == terms else (WORDS_ONLY, QUERY_SHORTENED),
        note=None if is_relevant(ranked) else NOTHING_RELEVANT,
    )


def shorten(terms: Sequence[str]) -> list[str]:
    """Return the terms without those that come after the first `QUERY_TERMS_MAX` different ones."""
    known = set(list(dict.fromkeys(terms))[: limits.QUERY_TERMS_MAX])
    return [term for term in terms if term in known]


def is_relevant(ranked: Sequence[Scored]) -> bool:
    """Say whether the best of the messages found is good enough to be an answer."""
    return max((item.score for item in ranked), default=0.0) >= SCORE_RELEVANT


async def _find_candidates(
    request: SearchRequest, store: OrganizationStore, terms: Sequence[str]
) -> WordMatches:
    if "conversation" not in request.kinds:
        return WordMatches(candidates=(), total=0)
    return await store.search_words(terms, filters=request.filters, limit=limits.LEG_CANDIDATES)
