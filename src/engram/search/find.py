"""Fetch the candidates for a query from a store, by words and by vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from engram import limits
from engram.model.search import KINDS, Candidates, Choice, Kind, Loaded, ProfileName, SearchFilters
from engram.offload import offload
from engram.search.profiles import PROFILES
from engram.search.question import (
    EMBEDDER_CHANGED,
    WITHOUT_VECTORS,
    WORDS_ONLY,
    Embed,
    Question,
)
from engram.search.score import Calibrations, has_vectors
from engram.storage.organization import OrganizationStore
from engram.text.analyse import query_terms

QUERY_SHORTENED = "query_shortened"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A query with its filters, kinds and profile."""

    query: str
    filters: SearchFilters
    kinds: Sequence[Kind] = KINDS
    profile: ProfileName = "default"
    leg_candidates: int = limits.LEG_CANDIDATES
    """The number of candidates that each leg contributes."""


class CandidatesChoice(Choice, Protocol):
    """A choice that also keeps the candidates it was made from."""

    @property
    def candidates(self) -> Candidates:
        """All candidates."""
        ...


ChoiceT = TypeVar("ChoiceT", bound=CandidatesChoice)
Choose = Callable[[Candidates, Calibrations], ChoiceT]


async def find(
    sought: Sought, store: OrganizationStore, *, embed: Embed, now: int, choose: Choose[ChoiceT]
) -> tuple[ChoiceT, Loaded, tuple[str, ...]]:
    """Return the choice that `choose` makes, what was read for it, and the reasons for degradation.

    `choose` runs within the store's snapshot, so everything it chooses can still be read.

    Raises:
        NotFoundError: the filters name a conversation that does not exist here.
    """
    profile = PROFILES[sought.profile]
    is_admitted = bool(sought.filters.admit(sought.kinds))
    query = sought.query if is_admitted and profile.needs_words else ""
    terms = await offload(partial(query_terms, query), characters=len(query))
    searched = shorten(terms)
    question = WITHOUT_VECTORS
    if is_admitted and profile.needs_vectors:
        question = await embed(sought.query, is_instant_needed=False)
    chosen, loaded = await _search(sought, store, searched, question, now=now, choose=choose)
    if chosen.candidates.unasked:
        # Some candidates only have instant vectors: search again with the instant model too.
        question = await embed(sought.query, is_instant_needed=True)
        chosen, loaded = await _search(sought, store, searched, question, now=now, choose=choose)
    degraded = (*question.degraded, *_mismatches(chosen.candidates))
    return chosen, loaded, degraded if searched == terms else (*degraded, QUERY_SHORTENED)


def shorten(terms: Sequence[str]) -> list[str]:
    """Return the terms, repeats included, limited to the first `QUERY_TERMS_MAX` distinct ones."""
    kept = set(list(dict.fromkeys(terms))[: limits.QUERY_TERMS_MAX])
    return [term for term in terms if term in kept]


async def _search(
    sought: Sought,
    store: OrganizationStore,
    terms: Sequence[str],
    question: Question,
    *,
    now: int,
    choose: Choose[ChoiceT],
) -> tuple[ChoiceT, Loaded]:
    return await store.search(
        terms,
        vectors=question.vectors,
        filters=sought.filters,
        kinds=sought.kinds,
        now=now,
        limit=sought.leg_candidates,
        choose=lambda candidates: choose(candidates, question.calibrations),
    )


def _mismatches(candidates: Candidates) -> tuple[str, ...]:
    """Return the reasons to report when stored vectors come from another embedder."""
    if not candidates.mismatched:
        return ()
    return (EMBEDDER_CHANGED,) if has_vectors(candidates) else (WORDS_ONLY, EMBEDDER_CHANGED)
