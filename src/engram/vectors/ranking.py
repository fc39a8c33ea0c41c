"""Chooses the best of many without sorting them all.

A choice is made by value alone, ties included, so it does not depend on the order of the rows.
"""

from __future__ import annotations

import numpy as np

from engram.vectors.arrays import Cosines, Distances, Keys, Rows
from engram.vectors.runs import run_starts

_ROWS_PER_KEY = 2
"""First guess of how many rows hold `k` keys; messages with several passages are rare."""

_GROWTH = 4
"""How much wider to look when those rows held too few keys."""


def best_keys(keys: Keys, cosines: Cosines, k: int) -> tuple[Keys, Cosines]:
    """Return the `k` best keys by their best row, then by key."""
    wanted = _ROWS_PER_KEY * k
    while True:
        rows = highest(cosines, wanted)
        owners, best = _best_of_each(keys.take(rows), cosines.take(rows))
        if len(owners) >= k or len(rows) == len(keys):
            order = (-best).argsort(kind="stable")[:k]
            return owners.take(order), best.take(order)
        wanted *= _GROWTH


def nearest(distances: Distances, wanted: int, *, furthest: int) -> Rows:
    """Return the `wanted` nearest rows, and all that are as near as the last of them.

    Rows further than `furthest` are never chosen.
    """
    counts = np.bincount(distances, minlength=furthest + 1)[: furthest + 1]
    limit = np.searchsorted(np.cumsum(counts), wanted)
    return np.flatnonzero(distances <= min(int(limit), furthest))


def highest(values: Cosines, wanted: int) -> Rows:
    """Return where the `wanted` highest values are, and all that are as high as the last of them."""
    if wanted >= len(values):
        return np.arange(len(values))
    place = len(values) - wanted
    return (values >= np.partition(values, place)[place]).nonzero()[0]


def _best_of_each(keys: Keys, cosines: Cosines) -> tuple[Keys, Cosines]:
    """Return the keys in ascending order, each once, with its best cosine."""
    order = keys.argsort(kind="stable")
    keys, cosines = keys.take(order), cosines.take(order)
    starts = run_starts(keys)
    if len(starts) == len(keys):
        return keys, cosines
    return keys.take(starts), np.maximum.reduceat(cosines, starts)
