"""Late interaction: compare each token of a query with those of the best candidates.

A token counts by the best one of a message or, less, of neighbours that are among these candidates: what
answers a question often stands beside its words. Other neighbours were tried too, and bring nothing more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engram.model.row_keys import SEQUENCE_BITS
from engram.model.search import Candidates
from engram.model.value import replace
from engram.model.vectors import QueryTokens, QueryVector
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.storage.vectors.embedders import read_embedders
from engram.vectors.kernels import best_kernels
from engram.vectors.tokens import best_cosines

Keys = NDArray[np.int64]
Values = NDArray[np.float64]

_SQL = load_queries("vectors/vectors.sql")

NEIGHBOR_SHARES = {-2: 0.765, -1: 0.9, 1: 0.9, 2: 0.765}
"""What a match in the message at this distance counts of one in the message itself."""

_NO_MATCH = -1.0


def compare_tokens(
    tx: Transaction,
    candidates: Candidates,
    *,
    vectors: Sequence[QueryVector],
    best: Callable[[Candidates], Keys],
) -> Candidates:
    """Return the candidates, those in the rows that `best` returns with how well their tokens match.

    Candidates without token vectors of the query's embedder are left without.
    """
    asked = next((vector for vector in vectors if vector.tokens is not None), None)
    if asked is None or asked.tokens is None:
        return candidates
    embedder = read_embedders(tx).matching(asked.tier, asked.identity)
    if embedder is None:
        return candidates
    rows = best(candidates)
    keys = candidates.keys[rows]
    found = tx.execute(
        _SQL["tokens_of_messages"],
        embedder=embedder.number,
        keys=json.dumps(keys.tolist()),
    ).fetchall()
    match = np.full(len(candidates.keys), np.nan)
    if found:
        stored = np.array([key for key, _ in found])
        cosines = best_cosines(
            asked.tokens.vectors, [tokens for _, tokens in found], best_kernels()
        )
        match[rows] = _matches(keys, stored, cosines, asked.tokens)
    return replace(candidates, token_match=match)


def _matches(keys: Keys, stored: Keys, cosines: Values, asked: QueryTokens) -> Values:
    """Return the weighted mean over the query's tokens for each message; NaN if it has no tokens."""
    own, has_own = _rows_of(keys, stored, cosines)
    for offset, share in NEIGHBOR_SHARES.items():
        around, exists = _rows_of(keys + offset, stored, cosines)
        is_near = exists & ((keys + offset) >> SEQUENCE_BITS == keys >> SEQUENCE_BITS)
        own = np.maximum(own, np.where(is_near[:, np.newaxis], share * around, _NO_MATCH))
    mean = own @ (asked.weights / asked.weights.sum())
    return np.where(has_own, mean, np.nan)


def _rows_of(keys: Keys, stored: Keys, cosines: Values) -> tuple[Values, NDArray[np.bool_]]:
    """Return the cosines of each message's tokens, and whether it has any."""
    places = np.minimum(stored.searchsorted(keys), len(stored) - 1)
    return cosines[places], stored[places] == keys
