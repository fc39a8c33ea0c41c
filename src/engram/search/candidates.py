"""Fetch the candidates for a query from a store, by words and by vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from engram import limits
from engram.clock import to_microseconds
from engram.model.search import KINDS, Candidates, Choice, Kind, Loaded, ProfileName, SearchFilters
from engram.model.value import Value, replace
from engram.search.profiles import PROFILES, usable_profile
from engram.search.query import (
    EMBEDDER_CHANGED,
    INDEX_LAG,
    WITHOUT_VECTORS,
    WORDS_ONLY,
    EmbeddedQuery,
    EmbedQuery,
)
from engram.search.score import Calibrations, best_rows, has_vectors
from engram.search.time_asked import mark_in_time
from engram.storage.organization import OrganizationStore
from engram.text.analyse import query_terms
from engram.text.relative_time import TimeRange, find_range
from engram.yielding import offload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QUERY_SHORTENED = "query_shortened"


class SearchSession(Value):
    """What every search needs beside its request."""

    store: OrganizationStore
    embed: EmbedQuery
    at: datetime
    has_lag: bool = False
    """Whether new texts have no vectors until the background has embedded them."""
    turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Waits until the store may be searched, and has appends wait in the block."""

    @property
    def now(self) -> int:
        """Return the moment of the search in microseconds."""
        return to_microseconds(self.at)


class CandidateQuery(Value):
    """The text of a query with its filters, kinds and profile."""

    text: str
    filters: SearchFilters
    kinds: Sequence[Kind] = KINDS
    profile: ProfileName = "default"
    leg_candidates: int = limits.LEG_CANDIDATES
    """The number of candidates that each leg contributes."""
    asked_at: datetime | None = None
    """What relative time in the text is counted from; None leaves it unread."""


class CandidatesChoice(Choice, Protocol):
    """A choice that also keeps the candidates it was made from."""

    @property
    def candidates(self) -> Candidates:
        """All candidates."""
        ...


ChoiceT = TypeVar("ChoiceT", bound=CandidatesChoice)
ChoiceT_co = TypeVar("ChoiceT_co", bound=CandidatesChoice, covariant=True)


class Choose(Protocol[ChoiceT_co]):
    """Scores candidates and chooses which of them to read."""

    def __call__(
        self, candidates: Candidates, calibrations: Calibrations, *, now: int
    ) -> ChoiceT_co: ...


async def find(
    query: CandidateQuery, session: SearchSession, *, choose: Choose[ChoiceT]
) -> tuple[ChoiceT, Loaded, tuple[str, ...]]:
    """Return the choice that `choose` makes, what was read for it, and the reasons for degradation.

    `choose` runs within the store's snapshot, so everything it chooses can still be read.

    Raises:
        NotFoundError: the filters name a conversation that does not exist here.
    """
    said_in = None if query.asked_at is None else find_range(query.text, query.asked_at)
    if said_in is not None:
        leg_candidates = max(query.leg_candidates, limits.LEG_CANDIDATES_IN_TIME)
        query = replace(query, leg_candidates=leg_candidates)

    profile = PROFILES[query.profile]
    is_admitted = bool(query.filters.admit(query.kinds))
    text = query.text if is_admitted and profile.needs_words else ""
    terms = await offload(partial(query_terms, text), characters=len(text))
    searched = shorten(terms)
    embedded = WITHOUT_VECTORS
    if is_admitted and profile.needs_vectors:
        embedded = await session.embed(query.text, is_instant_needed=False)
    # Entered with the query's vector: a model computes that without the interpreter, so that appends go on meanwhile.
    async with session.turn():
        chosen, loaded = await _search(query, session, searched, embedded, choose, said_in=said_in)
        if chosen.candidates.unasked:
            # Some candidates only have instant vectors: search again with the instant model too.
            embedded = await session.embed(query.text, is_instant_needed=True)
            chosen, loaded = await _search(
                query, session, searched, embedded, choose, said_in=said_in
            )
    degraded = [*embedded.degraded, *_mismatches(chosen.candidates)]
    if searched != terms:
        degraded.append(QUERY_SHORTENED)
    if session.has_lag and loaded.pending:
        degraded.append(INDEX_LAG)
    return chosen, loaded, tuple(degraded)


def shorten(terms: Sequence[str]) -> list[str]:
    """Return the terms, repeats included, limited to the first `QUERY_TERMS_MAX` distinct ones."""
    kept = set(list(dict.fromkeys(terms))[: limits.QUERY_TERMS_MAX])
    return [term for term in terms if term in kept]


async def _search(
    query: CandidateQuery,
    session: SearchSession,
    terms: Sequence[str],
    embedded: EmbeddedQuery,
    choose: Choose[ChoiceT],
    *,
    said_in: TimeRange | None,
) -> tuple[ChoiceT, Loaded]:
    now, calibrations = session.now, embedded.calibrations

    def find_best(candidates: Candidates) -> NDArray[np.int64]:
        marked = mark_in_time(candidates, said_in)
        profile = usable_profile(query.profile, has_vectors=has_vectors(candidates))
        return best_rows(
            marked,
            profile=profile,
            calibrations=calibrations,
            now=now,
            limit=limits.LATE_CANDIDATES,
        )

    return await session.store.search(
        terms,
        vectors=embedded.vectors,
        filters=query.filters,
        kinds=query.kinds,
        now=now,
        limit=query.leg_candidates,
        choose=lambda found: choose(mark_in_time(found, said_in), calibrations, now=now),
        best=find_best,
    )


def _mismatches(candidates: Candidates) -> tuple[str, ...]:
    """Return the reasons to report when stored vectors come from another embedder."""
    if not candidates.mismatched:
        return ()
    return (EMBEDDER_CHANGED,) if has_vectors(candidates) else (WORDS_ONLY, EMBEDDER_CHANGED)
