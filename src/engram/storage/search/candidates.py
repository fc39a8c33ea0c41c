"""Find the candidates of a search: the best of every leg, united, each with the values of all legs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engram.model.memory import IMPORTANCE_DEFAULT
from engram.model.row_keys import KIND_BITS, SEQUENCE_BITS, SEQUENCE_MASK
from engram.model.search import Candidates, Kind, SearchFilters
from engram.model.vectors import QueryVector, Tier
from engram.storage.search.filters import allowed_keys, expect_filters, read_record_filter
from engram.storage.search.found import SearchState, Worth, read_worths
from engram.storage.search.word_search import WordMatches, expect_words, search_words
from engram.storage.tenant import Transaction
from engram.storage.vectors.embedders import expect_embedders, read_embedders
from engram.storage.vectors.index import ComparedVectors, VectorIndex
from engram.vectors.snapshot import Allowed, Asked

Keys = NDArray[np.int64]
Values = NDArray[np.float64]

_NO_KEYS: Keys = np.empty(0, dtype=np.int64)
_FIRST_RECORD = 1 << KIND_BITS
_UNKNOWN_WORTH = Worth(IMPORTANCE_DEFAULT, 0.0)


@dataclass(frozen=True, slots=True)
class _VectorLeg:
    """The vectors of one tier, and the query to compare them with."""

    tier: Tier
    query: Asked
    snapshot: ComparedVectors

    def best(self, limit: int, allowed: Allowed | None) -> Keys:
        """Return the keys nearest to the query."""
        keys, _ = self.snapshot.search(self.query, limit, allowed=allowed)
        return keys


@dataclass(frozen=True, slots=True)
class _Legs:
    """The vectors that can be compared, and the tiers of which there are others."""

    legs: list[_VectorLeg] = field(default_factory=list[_VectorLeg])
    mismatched: list[Tier] = field(default_factory=list[Tier])
    unasked: list[Tier] = field(default_factory=list[Tier])


def expect_candidates(
    tx: Transaction,
    terms: Sequence[str],
    *,
    index: VectorIndex,
    vectors: Sequence[QueryVector],
    filters: SearchFilters,
    kinds: Sequence[Kind],
    now: int,
) -> None:
    """Prepare for `find_candidates`, so that a server answers most of it in one round trip."""
    expect_filters(tx, filters, kinds, now=now)
    expect_embedders(tx)
    index.expect(tx, vectors)
    expect_words(tx, terms)


def find_candidates(
    tx: Transaction,
    terms: Sequence[str],
    *,
    state: SearchState,
    index: VectorIndex,
    vectors: Sequence[QueryVector],
    filters: SearchFilters,
    kinds: Sequence[Kind],
    now: int,
    limit: int,
) -> Candidates:
    """Return the best `limit` messages of each leg, united, each with the values of all legs.

    Raises:
        NotFoundError: the filters name a conversation that does not exist.
        InvalidVectorError: a query vector has other dimensions than its identity's vectors.
    """
    records = read_record_filter(tx, filters, kinds, now=now, leaving=state.leaving)
    allowed = allowed_keys(tx, filters, records)
    found = _vector_legs(tx, index, vectors)
    nearest = np.concatenate([_NO_KEYS, *(leg.best(limit, allowed) for leg in found.legs)])
    words = search_words(tx, terms, state=state, allowed=allowed, limit=limit, also=nearest)
    return _united(words, found, *_worths(tx, words.keys >> SEQUENCE_BITS))


def _vector_legs(tx: Transaction, index: VectorIndex, vectors: Iterable[QueryVector]) -> _Legs:
    """Return the legs that can be compared, and the tiers that cannot."""
    embedders = read_embedders(tx)
    found = _Legs()
    for vector in vectors:
        embedder = embedders.matching(vector.tier, vector.identity)
        if embedder is None:
            if vector.tier in embedders.by_role:
                found.mismatched.append(vector.tier)
            continue
        snapshot = index.current(tx, embedders, tier=vector.tier, embedder=embedder)
        if not snapshot.rows_live:
            continue
        if vector.vector is None:
            found.unasked.append(vector.tier)
        else:
            query = snapshot.prepare(vector.vector)
            found.legs.append(_VectorLeg(vector.tier, query, snapshot))
    return found


def _worths(tx: Transaction, conversations: Keys) -> tuple[Values, Values]:
    """Return the importance and the usefulness of those that are memories; they come last."""
    importance, useful = np.full(len(conversations), np.nan), np.zeros(len(conversations))
    first = int(np.searchsorted(conversations, _FIRST_RECORD))
    records = conversations[first:].tolist()
    if records:
        worths = read_worths(tx, records)
        known = [worths.get(record, _UNKNOWN_WORTH) for record in records]
        importance[first:], useful[first:] = zip(*known, strict=True)
    return importance, useful


def _united(words: WordMatches, found: _Legs, importance: Values, usefulness: Values) -> Candidates:
    """Return every message found, with the values of all legs."""
    cosine, around, is_deep = _cosines(words.keys, found.legs)
    return Candidates(
        keys=words.keys,
        conversations=words.keys >> SEQUENCE_BITS,
        sequences=words.keys & SEQUENCE_MASK,
        characters=words.characters,
        said_at=words.said_at,
        are_documents=words.are_documents,
        share_message=words.messages,
        share_window=words.windows,
        coverage=words.coverages,
        cosine=cosine,
        cosine_around=around,
        is_deep=is_deep,
        importance=importance,
        usefulness=usefulness,
        mismatched=tuple(found.mismatched),
        unasked=tuple(found.unasked),
    )


def _cosines(keys: Keys, legs: Sequence[_VectorLeg]) -> tuple[Values, Values, NDArray[np.bool_]]:
    """Return the cosines of each message alone and among its neighbours, and whether these are deep.

    Messages without deep vectors are compared by their instant ones.
    """
    cosine, around = np.full(len(keys), np.nan), np.full(len(keys), np.nan)
    is_deep = np.zeros(len(keys), dtype=np.bool_)
    for leg in sorted(legs, key=lambda leg: leg.tier):  # deep before instant
        missing = np.isnan(cosine).nonzero()[0]
        if not len(missing):
            break
        compared = leg.snapshot.compare_messages(leg.query, keys[missing])
        cosine[missing], around[missing] = compared
        if leg.tier == "deep":
            is_deep = ~np.isnan(cosine)
    return cosine, around, is_deep
