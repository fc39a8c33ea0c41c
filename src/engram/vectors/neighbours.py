"""Compares a query with messages in the company of their neighbours.

The cosine with a sum of vectors needs no sum: above are the query's products with each vector, below
the products of the vectors with each other. These are products of bytes, exact on every machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.limits import CONVERSATION_MESSAGES_MAX
from engram.vectors.arrays import Cosines, Keys, Rows, clip_cosines
from engram.vectors.kernels import Kernels
from engram.vectors.passages import (
    Comparison,
    Directions,
    Passages,
    Vectors,
    directions_of,
    passages_of,
)
from engram.vectors.quantise import QuantisedRows
from engram.vectors.runs import distinct, run_starts

_SEQUENCE_BITS = CONVERSATION_MESSAGES_MAX.bit_length()
_OFFSETS = (-2, -1, 0, 1, 2)
_OFFSETS_COLUMN = np.array(_OFFSETS)[:, np.newaxis]
_REACH = _OFFSETS[-1] - _OFFSETS[0]
_NO_PRODUCT = np.zeros(1)

_LENGTHS_KEPT = 1 << 17
"""About 2 MB."""


class KnownLengths:
    """The lengths of neighbourhoods and of the sums of passages, which depend on no query.

    Those of messages without a neighbour to come stay when vectors are added to others. None stays
    when one is removed.
    """

    def __init__(self, known: _Known | None = None, sums: _Known | None = None) -> None:
        self._known = known or _NOTHING_KNOWN
        self._sums = sums or _NOTHING_KNOWN

    def after_adding(self) -> KnownLengths:
        """Return those that vectors added later do not change."""
        return KnownLengths(self._known.take(np.flatnonzero(self._known.are_final)), self._sums)

    # Two threads may find out the same at once: then what one of them knew is lost.

    def of(self, vectors: Vectors, keys: Keys) -> Cosines:
        """Return the length of each key's neighbourhood, 0 where it is empty."""
        lengths = self._known.look_up(keys)
        missing = np.isnan(lengths).nonzero()[0]
        if len(missing):
            around = _around(keys[missing])
            directions = directions_of(vectors, distinct(around.reshape(-1)))
            lengths[missing], are_final = _lengths(vectors.kernels, directions, around)
            self._known = self._known.with_more(keys[missing], lengths[missing], are_final)
            self._sums = self._sums.with_more(directions.summed, directions.lengths)
        return lengths

    def of_sums(self, vectors: Vectors, passages: Passages) -> Cosines:
        """Return the length of the sum of each message's passages, 0 where they cancel out."""
        lengths = self._sums.look_up(passages.messages)
        missing = np.isnan(lengths).nonzero()[0]
        if len(missing):
            lengths[missing] = passages.only(missing).sums(vectors).lengths
            self._sums = self._sums.with_more(passages.messages[missing], lengths[missing])
        return lengths


class _Known(NamedTuple):
    keys: Keys
    lengths: Cosines
    are_final: NDArray[np.bool_]

    def take(self, wanted: Rows) -> _Known:
        """Return some of them."""
        return _Known(self.keys[wanted], self.lengths[wanted], self.are_final[wanted])

    def look_up(self, keys: Keys) -> Cosines:
        """Return the length for each key, NaN where it is not known."""
        if not len(self.keys):
            return np.full(len(keys), np.nan)
        places = self.keys.searchsorted(keys)
        is_here = self.keys.take(places, mode="clip") == keys
        return np.where(is_here, self.lengths.take(places, mode="clip"), np.nan)

    def with_more(
        self, keys: Keys, lengths: Cosines, are_final: NDArray[np.bool_] | None = None
    ) -> _Known:
        """Return both, by ascending keys; the older ones are forgotten when there are many."""
        if not len(keys):
            return self
        older = self if len(self.keys) <= _LENGTHS_KEPT else _NOTHING_KNOWN
        final = np.ones(len(keys), dtype=np.bool_) if are_final is None else are_final
        both = _Known(
            np.concatenate((older.keys, keys)),
            np.concatenate((older.lengths, lengths)),
            np.concatenate((older.are_final, final)),
        )
        ordered = both.take(np.argsort(both.keys))
        return ordered.take(run_starts(ordered.keys))


_NOTHING_KNOWN = _Known(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0, dtype=np.bool_))


def neighbourhood_cosines(
    vectors: Vectors, query: Comparison, keys: Keys, known: KnownLengths
) -> Cosines:
    """Return the cosine of a query with each key's neighbourhood, or NaN where it is empty."""
    lengths = known.of(vectors, keys)
    around = _around(keys)
    messages, products = _message_products(vectors, query, distinct(around.reshape(-1)), known)
    summed = np.concatenate((products, _NO_PRODUCT)).take(_places(messages, around)).sum(axis=0)
    out = np.full(len(keys), np.nan)
    np.divide(summed, lengths, out=out, where=lengths > 0)
    return clip_cosines(out)


def _around(keys: Keys) -> Keys:
    """Return the keys of each key's neighbourhood, a row for each offset."""
    return _shifted(keys, _OFFSETS_COLUMN)


def _lengths(
    kernels: Kernels, directions: Directions, around: Keys
) -> tuple[Cosines, NDArray[np.bool_]]:
    """Return the length of each neighbourhood, and whether no neighbour can come to it."""
    messages = directions.messages
    places = _places(messages, around)
    squared = _squared_lengths(kernels, messages, directions.units, places)
    may_come = (around >= 0) & (places == len(messages))
    return np.sqrt(squared), ~may_come.any(axis=0)


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


def _message_products(
    vectors: Vectors, query: Comparison, keys: Keys, known: KnownLengths
) -> tuple[Keys, Cosines]:
    """Return those of `keys`, which ascend, that have a direction, and what each has of the query."""
    passages = passages_of(vectors, keys)
    products, several = query.of_rows(passages.firsts), passages.several
    if not len(several):
        return passages.messages, products
    summed = passages.only(several)
    lengths = known.of_sums(vectors, summed)
    products[several] = summed.products(query) / np.where(lengths > 0, lengths, np.nan)
    kept = ~np.isnan(products)
    return passages.messages[kept], products[kept]
