"""Array types, and the NumPy operations on sorted keys and on scores that searches share.

`np.unique` is avoided throughout: it is slower for few values, and its first call imports masked
arrays, which takes 25 ms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
"""Vectors as a model returns them."""

Query: TypeAlias = Floats | Sequence[float]
"""One query vector."""

Codes: TypeAlias = NDArray[np.int8]
Scales: TypeAlias = NDArray[np.float32]
Bits: TypeAlias = NDArray[np.uint64]
"""Sign bits of vectors: a column for each vector, a row for each machine word of it."""

Keys: TypeAlias = NDArray[np.int64]
"""Row ids of the messages that vectors belong to."""

Rows: TypeAlias = NDArray[np.int64]
"""Indexes into a matrix or an array."""

Cosines: TypeAlias = NDArray[np.float64]
Distances: TypeAlias = NDArray[np.int16]
Flags: TypeAlias = NDArray[np.bool_]

_ROWS_PER_KEY = 2
"""First guess of how many rows contain `k` keys; few messages have more vectors."""

_GROWTH = 4
"""Factor by which to widen the selection when it contained too few keys."""


def clip_cosines(cosines: Cosines) -> Cosines:
    """Clip cosines that rounding moved outside -1..1, in place."""
    return np.minimum(np.maximum(cosines, -1.0, out=cosines), 1.0, out=cosines)


def run_starts(values: NDArray[np.int64] | NDArray[np.int32]) -> Rows:
    """Return the index at which each run of equal values starts in a sorted array."""
    is_first = np.empty(len(values), dtype=np.bool_)
    is_first[:1] = True
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return is_first.nonzero()[0]


def run_lengths(starts: Rows, total: int) -> Rows:
    """Return the length of each run, given the run starts and the length of the array."""
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    if len(starts):
        lengths[-1] = total - starts[-1]
    return lengths


def distinct(keys: Keys) -> Keys:
    """Return the keys sorted and without duplicates."""
    ordered = np.sort(keys)
    return ordered.take(run_starts(ordered))


def distinct_places(keys: Keys) -> tuple[Keys, Rows]:
    """Return the keys sorted and without duplicates, and the index of each input key among them.

    Fastest when `keys` consists of long sorted stretches.
    """
    order = keys.argsort(kind="stable")
    ordered = keys.take(order)
    starts = run_starts(ordered)
    places = np.empty_like(order)
    places[order] = np.arange(len(starts)).repeat(run_lengths(starts, len(keys)))
    return ordered.take(starts), places


def are_among(keys: Keys, ascending: Keys) -> Flags:
    """Return a mask of the keys that are in a sorted array."""
    if not len(ascending):
        return np.zeros(len(keys), dtype=np.bool_)
    return ascending.take(ascending.searchsorted(keys), mode="clip") == keys


def highest(values: Cosines, wanted: int) -> Rows:
    """Return the indexes of the `wanted` highest values, including all ties with the last one.

    With every tie included, the selection does not depend on the order of the rows.
    """
    if wanted >= len(values):
        return np.arange(len(values))
    place = len(values) - wanted
    return (values >= np.partition(values, place)[place]).nonzero()[0]


def nearest(distances: Distances, wanted: int, *, furthest: int) -> Rows:
    """Return the indexes of the `wanted` smallest distances, including all ties with the last one.

    Rows with a distance above `furthest` are never selected.
    """

    def within(limit: int) -> int:
        return int(np.count_nonzero(distances <= limit))

    # Nine such counts take a quarter of the time of one histogram.
    limit = bisect_left(range(furthest), wanted, key=within)
    return np.flatnonzero(distances <= limit)


def best_keys(keys: Keys, cosines: Cosines, k: int) -> tuple[Keys, Cosines]:
    """Return the top `k` keys by their best row, ties ordered by key."""
    wanted = _ROWS_PER_KEY * k
    while True:
        rows = highest(cosines, wanted)
        owners, best = _best_of_each(keys.take(rows), cosines.take(rows))
        if len(owners) >= k or len(rows) == len(keys):
            order = (-best).argsort(kind="stable")[:k]
            return owners.take(order), best.take(order)
        wanted *= _GROWTH


def _best_of_each(keys: Keys, cosines: Cosines) -> tuple[Keys, Cosines]:
    """Return the distinct keys, sorted, each with its highest cosine."""
    order = keys.argsort(kind="stable")
    keys, cosines = keys.take(order), cosines.take(order)
    starts = run_starts(keys)
    if len(starts) == len(keys):
        return keys, cosines
    return keys.take(starts), np.maximum.reduceat(cosines, starts)
