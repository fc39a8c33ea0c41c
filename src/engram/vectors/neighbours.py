"""Compares a query with messages in the company of their neighbours.

The cosine with a sum of vectors needs no sum: above are the query's products with each vector, below
the products of the vectors with each other. These are products of bytes, exact on every machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engram.limits import CONVERSATION_MESSAGES_MAX
from engram.vectors.arrays import Cosines, Keys, Rows, clip_cosines
from engram.vectors.kernels import Kernels
from engram.vectors.passages import (
    Comparison,
    Directions,
    Vectors,
    directions_of,
    passages_of,
)
from engram.vectors.quantise import QuantisedRows
from engram.vectors.runs import distinct, run_starts

_SEQUENCE_BITS = CONVERSATION_MESSAGES_MAX.bit_length()
_SEQUENCE_MASK = (1 << _SEQUENCE_BITS) - 1
_OFFSETS = (-2, -1, 0, 1, 2)
_OFFSETS_COLUMN = np.array(_OFFSETS)[:, np.newaxis]
_OWN = _OFFSETS.index(0)
_REACH = _OFFSETS[-1] - _OFFSETS[0]
_PRODUCT = 1 << 40
"""A product of 1 in whole numbers, of which floats hold the sum of some thousands."""

_LENGTHS_KEPT = 1 << 17
"""About 2 MB."""


class KnownLengths:
    """The lengths of neighbourhoods and of the sums of passages, which depend on no query."""

    def __init__(self, known: _Known | None = None, sums: _Known | None = None) -> None:
        self._known = known or _NOTHING_KNOWN
        self._sums = sums or _NOTHING_KNOWN

    def without(self, keys: Keys) -> KnownLengths:
        """Return those that stay when the vectors of some messages change."""
        return KnownLengths(
            self._known.without(_around(keys).reshape(-1)), self._sums.without(keys)
        )

    # Two threads may find out the same at once: then what one of them knew is lost.

    def of(self, vectors: Vectors, keys: Keys) -> Cosines:
        """Return the length of each key's neighbourhood, 0 where it is empty."""
        lengths = self._known.look_up(keys)
        missing = np.isnan(lengths).nonzero()[0]
        if len(missing):
            around = _around(keys[missing])
            directions = directions_of(vectors, distinct(around.reshape(-1)))
            lengths[missing] = _lengths(vectors.kernels, directions, around)
            self._known = self._known.with_more(keys[missing], lengths[missing])
            self._sums = self._sums.with_more(directions.summed, directions.lengths)
        return lengths

    def of_sums(self, vectors: Vectors, keys: Keys) -> Cosines:
        """Return the length of the sum of each message's passages, 0 where they cancel out."""
        lengths = self._sums.look_up(keys)
        missing = np.isnan(lengths).nonzero()[0]
        if len(missing):
            passages = passages_of(vectors, distinct(keys[missing]))
            found = passages.sums(vectors).lengths
            lengths[missing] = found.take(passages.messages.searchsorted(keys[missing]))
            self._sums = self._sums.with_more(passages.messages, found)
        return lengths


class _Known(NamedTuple):
    """Lengths by ascending keys."""

    keys: Keys
    lengths: Cosines

    def look_up(self, keys: Keys) -> Cosines:
        """Return the length for each key, NaN where it is not known."""
        if not len(self.keys):
            return np.full(len(keys), np.nan)
        places = self.keys.searchsorted(keys)
        is_here = self.keys.take(places, mode="clip") == keys
        return np.where(is_here, self.lengths.take(places, mode="clip"), np.nan)

    def with_more(self, keys: Keys, lengths: Cosines) -> _Known:
        """Return both; the older ones are forgotten when there are many."""
        if not len(keys):
            return self
        older = self if len(self.keys) <= _LENGTHS_KEPT else _NOTHING_KNOWN
        both = np.concatenate((older.keys, keys))
        order = both.argsort(kind="stable")
        ordered = both.take(order)
        starts = run_starts(ordered)
        all_lengths = np.concatenate((older.lengths, lengths))
        return _Known(ordered.take(starts), all_lengths.take(order.take(starts)))

    def without(self, keys: Keys) -> _Known:
        """Return those of other keys."""
        if not len(self.keys):
            return self
        places = self.keys.searchsorted(keys)
        is_here = self.keys.take(places, mode="clip") == keys
        kept = np.ones(len(self.keys), dtype=np.bool_)
        kept[places[is_here]] = False
        return _Known(self.keys[kept], self.lengths[kept])


_NOTHING_KNOWN = _Known(np.empty(0, dtype=np.int64), np.empty(0))


class Compared(NamedTuple):
    """What a query has in common with each of some messages."""

    alone: Cosines
    """The best cosine of its vectors, or NaN where it has none."""
    together: Cosines
    """The cosine with the sum of the message and its neighbours, or NaN where it has no vector of its
    own or they cancel out."""


def compare_messages(
    vectors: Vectors, query: Comparison, keys: Keys, known: KnownLengths
) -> Compared:
    """Return the cosines of a query with each message by itself, and in company."""
    rows, places = _rows_around(vectors, keys)
    cosines = query.of_rows(rows)
    best = np.full(len(keys) * len(_OFFSETS), np.nan)
    np.fmax.at(best, places, cosines)
    alone = best[_OWN :: len(_OFFSETS)]
    own = (~np.isnan(alone)).nonzero()[0]
    summed = _products(vectors, cosines, places, keys, known).sum(axis=1).take(own)
    lengths = known.of(vectors, keys.take(own))
    together = np.full(len(keys), np.nan)
    together[own] = np.divide(summed, lengths, out=np.full(len(own), np.nan), where=lengths > 0)
    return Compared(alone, clip_cosines(together))


def _products(
    vectors: Vectors, cosines: Cosines, places: Rows, keys: Keys, known: KnownLengths
) -> Cosines:
    """Return what a query has in common with the message at each offset of each key, 0 with none.

    The cosines are of the rows of the messages at `places`.
    """
    size = len(keys) * len(_OFFSETS)
    products = np.bincount(places, cosines, minlength=size).astype(np.float64)
    several = (np.bincount(places, minlength=size) > 1).nonzero()[0]
    if len(several):
        # Of whole numbers: the sum is the same in whatever order passages are added.
        whole = np.bincount(places, np.rint(cosines * _PRODUCT)).take(several)
        lengths = known.of_sums(vectors, _keys_at(several, keys))
        products[several] = whole / _PRODUCT / np.where(lengths > 0, lengths, np.inf)
    return products.reshape(-1, len(_OFFSETS))


def _rows_around(vectors: Vectors, keys: Keys) -> tuple[Rows, Rows]:
    """Return the rows of messages and their neighbours, and the place of each.

    There is a place for each offset of each key, those of a key side by side.
    """
    first, last = _OFFSETS[0], _OFFSETS[-1]
    conversations = keys & ~_SEQUENCE_MASK
    rows, owners = vectors.rows_between(
        np.maximum(keys + first, conversations),
        np.minimum(keys + last, conversations + _SEQUENCE_MASK),
    )
    return rows, vectors.keys_of(rows) - keys.take(owners) + (owners * len(_OFFSETS) - first)


def _keys_at(places: Rows, keys: Keys) -> Keys:
    """Return the messages at places around `keys`."""
    owners, offsets = np.divmod(places, len(_OFFSETS))
    return keys.take(owners) + offsets + _OFFSETS[0]


def _around(keys: Keys) -> Keys:
    """Return the keys of each key's neighbourhood, a row for each offset."""
    return _shifted(keys, _OFFSETS_COLUMN)


def _lengths(kernels: Kernels, directions: Directions, around: Keys) -> Cosines:
    """Return the length of each neighbourhood."""
    messages = directions.messages
    places = _places(messages, around)
    return np.sqrt(_squared_lengths(kernels, messages, directions.units, places))


def _shifted(keys: Keys, offsets: Keys) -> Keys:
    """Return the keys some messages further on, or -1 past an end of the conversation."""
    moved = keys + offsets
    return np.where(moved >> _SEQUENCE_BITS == keys >> _SEQUENCE_BITS, moved, -1)


def _places(messages: Keys, keys: Keys) -> Rows:
    """Return where each key is among the messages, or one past their end where it is not."""
    places = messages.searchsorted(keys)
    if len(messages):
        places[messages.take(places, mode="clip") != keys] = len(messages)
    return places


def _squared_lengths(
    kernels: Kernels, messages: Keys, units: QuantisedRows, places: Rows
) -> Cosines:
    """Return the squared length of the sum of the vectors at `places`, a row for each offset."""
    out = np.count_nonzero(places < len(messages), axis=0).astype(np.float64)
    ahead = _products_ahead(kernels, messages, units)
    for step in range(1, _REACH + 1):
        out += 2 * ahead[step].take(places[: len(_OFFSETS) - step]).sum(axis=0)
    # Vectors that cancel out leave what rounding left.
    return np.where(out > 1e-6, out, 0)


def _products_ahead(kernels: Kernels, messages: Keys, units: QuantisedRows) -> Cosines:
    """Return the product of each vector with those of the messages next to it, or 0.

    The row is the step from one message to the other. Messages ascend, so that those up to `_REACH`
    further on are among as many that follow.
    """
    width = len(messages) + 1
    out = np.zeros((_REACH + 1) * width)
    scales, conversations = units.scales.astype(np.float64), messages >> _SEQUENCE_BITS
    for after in range(1, min(_REACH, len(messages) - 1) + 1):
        steps = messages[after:] - messages[:-after]
        is_near = (steps <= _REACH) & (conversations[after:] == conversations[:-after])
        here = is_near.nonzero()[0]
        products = kernels.products_of_pairs(units.codes[:-after], units.codes[after:])
        products *= scales[:-after]
        products *= scales[after:]
        out[steps.take(here) * width + here] = products.take(here)
    return out.reshape(-1, width)
