"""Compares a query with messages in context: with the sum of a message and its neighbours.

The cosine with a sum of vectors needs no sum: the numerator adds up the query's products with each
vector, the denominator the products of the vectors with each other. These are integer products of
quantised vectors, exact on every machine. A message of several passages counts with the direction of
their sum, computed on integers so that it does not depend on the order of the passages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from engram.model.row_keys import SEQUENCE_BITS, SEQUENCE_MASK
from engram.vectors.arrays import (
    Cosines,
    Flags,
    Keys,
    Rows,
    clip_cosines,
    distinct,
    run_lengths,
    run_starts,
)
from engram.vectors.kernels import Kernels
from engram.vectors.quantise import QuantisedRows, quantise

_OFFSETS = (-2, -1, 0, 1, 2)
_OFFSETS_COLUMN = np.array(_OFFSETS)[:, np.newaxis]
_OWN = _OFFSETS.index(0)
_REACH = _OFFSETS[-1] - _OFFSETS[0]

_PRODUCT = 1 << 40
"""Fixed-point 1 for products: a float64 holds the exact sum of some thousands."""

_UNIT = 1 << 15
"""Fixed-point 1 for the components of unit vectors."""

_FLOAT32_PASSAGES_MAX = 2**24 // _UNIT
"""Sums of so many vectors are exact in float32, which is twice as fast as float64."""

_CACHED_LENGTHS_MAX = 1 << 17
"""About 2 MB."""


class Vectors(Protocol):
    """What a comparison reads of a `VectorSnapshot`."""

    @property
    def kernels(self) -> Kernels: ...
    def rows_of(self, keys: Keys) -> tuple[Rows, Rows]: ...
    def rows_between(self, firsts: Keys, lasts: Keys) -> tuple[Rows, Rows]: ...
    def keys_of(self, rows: Rows) -> Keys: ...
    def vectors(self, rows: Rows) -> QuantisedRows: ...


class Compared(NamedTuple):
    """The cosines of a query with each of some messages."""

    alone: Cosines
    """With the best vector of the message, or NaN if it has none."""
    together: Cosines
    """With the sum of the message and its neighbours, or NaN if the message has no vector of its own
    or the vectors cancel out."""


class LengthCache:
    """Cache of the lengths of neighbourhoods and of passage sums, which depend on no query.

    Lost updates are harmless: of two threads that compute lengths at the same time, one may overwrite
    what the other added, and it is computed again.
    """

    def __init__(
        self, neighbourhoods: _SortedLengths | None = None, sums: _SortedLengths | None = None
    ) -> None:
        self._neighbourhoods = neighbourhoods or _NO_LENGTHS
        self._sums = sums or _NO_LENGTHS

    def without(self, keys: Keys) -> LengthCache:
        """Return the entries that stay valid when the vectors of some messages change."""
        return LengthCache(
            self._neighbourhoods.without(_around(keys).reshape(-1)), self._sums.without(keys)
        )

    def of_neighbourhoods(self, vectors: Vectors, keys: Keys) -> Cosines:
        """Return the length of each key's neighbourhood, 0 if it is empty."""
        lengths = self._neighbourhoods.look_up(keys)
        missing = np.isnan(lengths).nonzero()[0]
        if len(missing):
            around = _around(keys[missing])
            directions = _directions_of(vectors, distinct(around.reshape(-1)))
            lengths[missing] = _neighbourhood_lengths(vectors.kernels, directions, around)
            self._neighbourhoods = self._neighbourhoods.with_more(keys[missing], lengths[missing])
            self._sums = self._sums.with_more(directions.summed, directions.lengths)
        return lengths

    def of_sums(self, vectors: Vectors, keys: Keys) -> Cosines:
        """Return the length of the sum of each message's passages, 0 if they cancel out."""
        lengths = self._sums.look_up(keys)
        missing = np.isnan(lengths).nonzero()[0]
        if len(missing):
            passages = _passages_of(vectors, distinct(keys[missing]))
            found = passages.sums(vectors).lengths
            lengths[missing] = found.take(passages.messages.searchsorted(keys[missing]))
            self._sums = self._sums.with_more(passages.messages, found)
        return lengths


class _SortedLengths(NamedTuple):
    """Lengths by sorted key."""

    keys: Keys
    lengths: Cosines

    def look_up(self, keys: Keys) -> Cosines:
        """Return the length of each key, NaN for those that are not cached."""
        if not len(self.keys):
            return np.full(len(keys), np.nan)
        places = self.keys.searchsorted(keys)
        is_cached = self.keys.take(places, mode="clip") == keys
        return np.where(is_cached, self.lengths.take(places, mode="clip"), np.nan)

    def with_more(self, keys: Keys, lengths: Cosines) -> _SortedLengths:
        """Return these and new entries; a full cache drops the old ones."""
        if not len(keys):
            return self
        older = self if len(self.keys) <= _CACHED_LENGTHS_MAX else _NO_LENGTHS
        both = np.concatenate((older.keys, keys))
        order = both.argsort(kind="stable")
        ordered = both.take(order)
        starts = run_starts(ordered)
        all_lengths = np.concatenate((older.lengths, lengths))
        return _SortedLengths(ordered.take(starts), all_lengths.take(order.take(starts)))

    def without(self, keys: Keys) -> _SortedLengths:
        """Return the entries of other keys."""
        if not len(self.keys):
            return self
        places = self.keys.searchsorted(keys)
        is_cached = self.keys.take(places, mode="clip") == keys
        kept = np.ones(len(self.keys), dtype=np.bool_)
        kept[places[is_cached]] = False
        return _SortedLengths(self.keys[kept], self.lengths[kept])


_NO_LENGTHS = _SortedLengths(np.empty(0, dtype=np.int64), np.empty(0))


def compare_messages(
    vectors: Vectors, cosines_of: Callable[[Rows], Cosines], keys: Keys, cache: LengthCache
) -> Compared:
    """Return the cosines of a query with each message alone and together with its neighbours.

    `cosines_of` returns the cosines of the query with some rows.
    """
    rows, places = _rows_around(vectors, keys)
    cosines = cosines_of(rows)
    best = np.full(len(keys) * len(_OFFSETS), np.nan)
    np.fmax.at(best, places, cosines)
    alone = best[_OWN :: len(_OFFSETS)]
    own = (~np.isnan(alone)).nonzero()[0]
    summed = _products(vectors, cosines, places, keys, cache).sum(axis=1).take(own)
    lengths = cache.of_neighbourhoods(vectors, keys.take(own))
    together = np.full(len(keys), np.nan)
    together[own] = np.divide(summed, lengths, out=np.full(len(own), np.nan), where=lengths > 0)
    return Compared(alone, clip_cosines(together))


def _products(
    vectors: Vectors, cosines: Cosines, places: Rows, keys: Keys, cache: LengthCache
) -> Cosines:
    """Return the product of a query with the message at each offset of each key, 0 if there is none.

    `cosines` are those of the rows of the messages at `places`.
    """
    size = len(keys) * len(_OFFSETS)
    products = np.bincount(places, cosines, minlength=size).astype(np.float64)
    several = (np.bincount(places, minlength=size) > 1).nonzero()[0]
    if len(several):
        # Summed as integers, so that the order of the passages makes no difference.
        whole = np.bincount(places, np.rint(cosines * _PRODUCT)).take(several)
        lengths = cache.of_sums(vectors, _keys_at(several, keys))
        products[several] = whole / _PRODUCT / np.where(lengths > 0, lengths, np.inf)
    return products.reshape(-1, len(_OFFSETS))


def _rows_around(vectors: Vectors, keys: Keys) -> tuple[Rows, Rows]:
    """Return the rows of the messages and their neighbours, and the place of each.

    A place is `index of the key * len(_OFFSETS) + index of the offset`.
    """
    first, last = _OFFSETS[0], _OFFSETS[-1]
    conversations = keys & ~SEQUENCE_MASK
    rows, owners = vectors.rows_between(
        np.maximum(keys + first, conversations),
        np.minimum(keys + last, conversations + SEQUENCE_MASK),
    )
    return rows, vectors.keys_of(rows) - keys.take(owners) + (owners * len(_OFFSETS) - first)


def _keys_at(places: Rows, keys: Keys) -> Keys:
    """Return the keys of the messages at places around `keys`."""
    owners, offsets = np.divmod(places, len(_OFFSETS))
    return keys.take(owners) + offsets + _OFFSETS[0]


def _around(keys: Keys) -> Keys:
    """Return the keys of each neighbourhood, a row for each offset; -1 beyond the conversation."""
    moved = keys + _OFFSETS_COLUMN
    return np.where(moved >> SEQUENCE_BITS == keys >> SEQUENCE_BITS, moved, -1)


def _neighbourhood_lengths(kernels: Kernels, directions: _Directions, around: Keys) -> Cosines:
    messages = directions.messages
    places = _places(messages, around)
    return np.sqrt(_squared_lengths(kernels, messages, directions.units, places))


def _places(messages: Keys, keys: Keys) -> Rows:
    """Return the index of each key in `messages`, or the length of `messages` if it is missing."""
    places = messages.searchsorted(keys)
    if len(messages):
        places[messages.take(places, mode="clip") != keys] = len(messages)
    return places


def _squared_lengths(
    kernels: Kernels, messages: Keys, units: QuantisedRows, places: Rows
) -> Cosines:
    """Return the squared length of the sum of the vectors at `places`, which has a row per offset.

    That is 1 for each unit vector, plus twice the product of each pair.
    """
    out = np.count_nonzero(places < len(messages), axis=0).astype(np.float64)
    ahead = _products_ahead(kernels, messages, units)
    for step in range(1, _REACH + 1):
        out += 2 * ahead[step].take(places[: len(_OFFSETS) - step]).sum(axis=0)
    # Vectors that cancel out leave a rounding error.
    return np.where(out > 1e-6, out, 0)


def _products_ahead(kernels: Kernels, messages: Keys, units: QuantisedRows) -> Cosines:
    """Return the products of each vector with those of the messages after it, 0 if there is none.

    The row is the step from one message to the other. Messages are sorted, so that those up to
    `_REACH` steps ahead are among the next `_REACH` entries.
    """
    width = len(messages) + 1
    out = np.zeros((_REACH + 1) * width)
    scales, conversations = units.scales.astype(np.float64), messages >> SEQUENCE_BITS
    for after in range(1, min(_REACH, len(messages) - 1) + 1):
        steps = messages[after:] - messages[:-after]
        is_near = (steps <= _REACH) & (conversations[after:] == conversations[:-after])
        here = is_near.nonzero()[0]
        products = kernels.products_of_pairs(units.codes[:-after], units.codes[after:])
        products *= scales[:-after]
        products *= scales[after:]
        out[steps.take(here) * width + here] = products.take(here)
    return out.reshape(-1, width)


class _Sums(NamedTuple):
    """The sums of the passages of some messages."""

    units: QuantisedRows
    """Their directions; arbitrary where passages cancel out."""
    lengths: Cosines
    """0 where they do."""


class _Passages(NamedTuple):
    """The rows of the messages that have any, by sorted key."""

    messages: Keys
    rows: Rows
    """Grouped by message."""
    starts: Rows
    """Index in `rows` at which each message starts."""
    counts: Rows
    """Rows of each message."""

    @property
    def firsts(self) -> Rows:
        """Return the first row of each message."""
        return self.rows.take(self.starts)

    @property
    def several(self) -> Rows:
        """Return the indexes of the messages with more than one row."""
        return np.flatnonzero(self.counts > 1)

    def only(self, wanted: Rows) -> _Passages:
        """Return the messages at the sorted indexes `wanted`."""
        is_wanted = np.zeros(len(self.messages), dtype=np.bool_)
        is_wanted[wanted] = True
        counts = self.counts[wanted]
        return _Passages(
            messages=self.messages[wanted],
            rows=self.rows[np.repeat(is_wanted, self.counts)],
            starts=np.cumsum(counts) - counts,
            counts=counts,
        )

    def sums(self, vectors: Vectors) -> _Sums:
        """Return the sum of each message's passages; there must be at least one message."""
        units = vectors.vectors(self.rows)
        kind = np.float32 if self.counts.max() <= _FLOAT32_PASSAGES_MAX else np.float64
        scaled = units.codes * (units.scales * kind(_UNIT))[:, np.newaxis]
        sums = np.add.reduceat(np.rint(scaled, out=scaled), self.starts, axis=0)
        squares = np.einsum("ij,ij->i", sums, sums, dtype=np.int64, casting="unsafe")
        sums[squares == 0] = 1
        return _Sums(quantise(sums, dimensions=sums.shape[1]), np.sqrt(squares) / _UNIT)


def _passages_of(vectors: Vectors, keys: Keys) -> _Passages:
    """Return the rows of sorted `keys`, without keys that have none."""
    rows, owners = vectors.rows_of(keys)
    order = np.argsort(owners, kind="stable")
    owners = owners.take(order)
    starts = run_starts(owners)
    return _Passages(
        messages=keys.take(owners.take(starts)),
        rows=rows.take(order),
        starts=starts,
        counts=run_lengths(starts, len(owners)),
    )


class _Directions(NamedTuple):
    """The unit vectors of messages that have a direction, by sorted key."""

    messages: Keys
    units: QuantisedRows
    summed: Keys
    """The messages of several passages, whether or not these cancel out."""
    lengths: Cosines
    """The lengths of their sums."""


def _directions_of(vectors: Vectors, keys: Keys) -> _Directions:
    """Return the directions of sorted `keys`, without keys that have none."""
    passages = _passages_of(vectors, keys)
    units, several = vectors.vectors(passages.firsts), passages.several
    if not len(several):
        return _Directions(passages.messages, units, several, np.empty(0))
    sums = passages.only(several).sums(vectors)
    units.codes[several], units.scales[several] = sums.units.codes, sums.units.scales
    kept = _has_direction(passages, sums.lengths)
    return _Directions(
        messages=passages.messages[kept],
        units=QuantisedRows(units.codes[kept], units.scales[kept]),
        summed=passages.messages[several],
        lengths=sums.lengths,
    )


def _has_direction(passages: _Passages, lengths: Cosines) -> Flags:
    flags = np.ones(len(passages.messages), dtype=np.bool_)
    flags[passages.several] = lengths > 0
    return flags
