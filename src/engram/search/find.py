"""Ask a store what it holds about a question, by words and by meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from engram import limits
from engram.model.search import KINDS, Candidates, Kind, Loaded, ProfileName, SearchFilters
from engram.offload import offload
from engram.search.fuse import has_vectors
from engram.search.legs import Calibrations
from engram.search.profiles import PROFILES
from engram.search.question import (
    EMBEDDER_CHANGED,
    WITHOUT_VECTORS,
    WORDS_ONLY,
    Embed,
    Question,
)
from engram.storage.ports import Choice, OrganizationStore
from engram.text.analyse import query_terms

QUERY_SHORTENED = "query_shortened"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What is asked of a store."""

    query: str
    filters: SearchFilters
    kinds: Sequence[Kind] = KINDS
    profile: ProfileName = "default"
    leg_candidates: int = limits.LEG_CANDIDATES
    """How many candidates each leg contributes."""


class CandidatesChoice(Choice, Protocol):
    """What was made of candidates, and of which."""

    @property
    def candidates(self) -> Candidates:
        """All that was found."""
        ...


ChoiceT = TypeVar("ChoiceT", bound=CandidatesChoice)
Choose = Callable[[Candidates, Calibrations], ChoiceT]


async def find(
    sought: Sought, store: OrganizationStore, *, embed: Embed, now: int, choose: Choose[ChoiceT]
) -> tuple[ChoiceT, Loaded, tuple[str, ...]]:
    """Return what `choose` made of the candidates, what it wanted read, and what was missing.

    Raises:
        NotFoundError: the filters name a conversation that is not here.
    """
    profile = PROFILES[sought.profile]
    is_asked = bool(sought.filters.admit(sought.kinds))
    query = sought.query if is_asked and profile.needs_words else ""
    terms = await offload(partial(query_terms, query), characters=len(query))
    searched = shorten(terms)
    question = WITHOUT_VECTORS
    if is_asked and profile.needs_vectors:
        question = await embed(sought.query, is_instant_needed=False)
    chosen, loaded = await _ask(sought, store, searched, question, now=now, choose=choose)
    if chosen.candidates.unasked:
        question = await embed(sought.query, is_instant_needed=True)
        chosen, loaded = await _ask(sought, store, searched, question, now=now, choose=choose)
    degraded = (*question.degraded, *_mismatches(chosen.candidates))
    return chosen, loaded, degraded if searched == terms else (*degraded, QUERY_SHORTENED)


def shorten(terms: Sequence[str]) -> list[str]:
    """Return the terms without those that come after the first `QUERY_TERMS_MAX` different ones."""
    known = set(list(dict.fromkeys(terms))[: limits.QUERY_TERMS_MAX])
    return [term for term in terms if term in known]


async def _ask(
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
    """Say when the stored vectors are another embedder's, and when none is left to compare."""
    if not candidates.mismatched:
        return ()
    return (EMBEDDER_CHANGED,) if has_vectors(candidates) else (WORDS_ONLY, EMBEDDER_CHANGED)
