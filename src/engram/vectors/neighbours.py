"""Compares a query with messages in the company of their neighbours.

The cosine with a sum of vectors needs no sum: above are the query's products with each vector, below
the products of the vectors with each other. These are products of bytes, exact on every machine.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from engram.limits import CONVERSATION_MESSAGES_MAX
from engram.vectors.arrays import Cosines, Keys, Rows
from engram.vectors.kernels import Kernels
from engram.vectors.quantise import QuantisedRows, quantise
from engram.vectors.runs import distinct, run_lengths, run_starts

_SEQUENCE_BITS = CONVERSATION_MESSAGES_MAX.bit_length()
_OFFSETS = (-2, -1, 0, 1, 2)
_REACH = _OFFSETS[-1] - _OFFSETS[0]

_UNIT = 1 << 15
"""A length of 1 in whole numbers, whose sums are exact in whatever order passages are added."""

_LENGTHS_KEPT = 1 << 17
"""About 2 MB."""


class _Vectors(Protocol):
    @property
    def kernels(self) -> Kernels: ...
    def rows_of(self, keys: Keys) -> tuple[Rows, Rows]: ...
    def vectors(self, rows: Rows) -> QuantisedRows: ...


class _Comparison(Protocol):
    """A query, compared with whatever has a direction."""

    def of_rows(self, rows: Rows) -> Cosines: ...
    def of_vectors(self, vectors: QuantisedRows) -> Cosines: ...


class KnownLengths:
    """The lengths of neighbourhoods, which depend on no query.

    Those of messages without a neighbour to come stay when vectors are added. None stays when one
    is removed.
    """

    def __init__(self, known: _Known | None = None) -> None:
        self._known = known or _NOTHING_KNOWN

    def after_adding(self) -> KnownLengths:
        """Return those that vectors added later do not change."""
        return KnownLengths(self._known.take(np.flatnonzero(self._known.are_final)))

    def of(self, vectors: _Vectors, keys: Keys) -> Cosines:
        """Return the length of each key's neighbourhood, 0 where it is empty."""
        known = self._known
        lengths = known.look_up(keys)
        missing = np.isnan(lengths).nonzero()[0]
        if len(missing):
            lengths[missing], are_final = _lengths(vectors, keys[missing])
            found = _Known(keys[missing], lengths[missing], are_final)
            # Two threads may find out the same at once: then what one of them knew is lost.
            self._known = known.with_more(found)
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
        places = np.searchsorted(self.keys, keys)
        is_here = self.keys.take(places, mode="clip") == keys
        return np.where(is_here, self.lengths.take(places, mode="clip"), np.nan)

    def with_more(self, more: _Known) -> _Known:
        """Return both, by ascending keys; the older ones are forgotten when there are many."""
        older = self if len(self.keys) <= _LENGTHS_KEPT else _NOTHING_KNOWN
        both = _Known(
            np.concatenate((older.keys, more.keys)),
            np.concatenate((older.lengths, more.lengths)),
            np.concatenate((older.are_final, more.are_final)),
        )
        return both.take(np.argsort(both.keys))


_NOTHING_KNOWN = _Known(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0, dtype=np.bool_))


def neighbourhood_cosines(
    vectors: _Vectors, query: _Comparison, keys: Keys, known: KnownLengths
) -> Cosines:
    """Return the cosine of a query with each key's neighbourhood, or NaN where it is empty."""
    around = _around(keys)
    messages, products = _message_products(vectors, query, distinct(around.reshape(-1)))
    summed = np.append(products, 0).take(_places(messages, around)).sum(axis=0)
    lengths = known.of(vectors, keys)
    out = np.full(len(keys), np.nan)
    np.divide(summed, lengths, out=out, where=lengths > 0)
    return np.clip(out, -1, 1)


def _around(keys: Keys) -> Keys:
    """Return the keys of each key's neighbourhood, a row for each offset."""
    return _shifted(keys, np.array(_OFFSETS)[:, np.newaxis])


def _lengths(vectors: _Vectors, keys: Keys) -> tuple[Cosines, NDArray[np.bool_]]:
    """Return the length of each neighbourhood, and whether no neighbour can come to it."""
    around = _around(keys)
    messages, units = _message_vectors(vectors, distinct(around.reshape(-1)))
    places = _places(messages, around)
    squared = _squared_lengths(vectors.kernels, messages, units, places)
    may_come = (around >= 0) & (places == len(messages))
    return np.sqrt(squared), ~may_come.any(axis=0)


def _shifted(keys: Keys, offsets: Keys) -> Keys:
    """Return the keys some messages further on, or -1 past an end of the conversation."""
    moved = keys + offsets
    return np.where(moved >> _SEQUENCE_BITS == keys >> _SEQUENCE_BITS, moved, -1)


def _places(messages: Keys, keys: Keys) -> Rows:
    """Return where each key is among the messages, or one past their end where it is not."""
    places = np.searchsorted(messages, keys)
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


def _message_products(vectors: _Vectors, query: _Comparison, keys: Keys) -> tuple[Keys, Cosines]:
    """Return those of `keys`, which ascend, that have a direction, and what each has of the query."""
    passages = _passages_of(vectors, keys)
    products = query.of_rows(passages.firsts)
    if not len(passages.several):
        return passages.messages, products
    summed, pointing = passages.sums(vectors)
    products[passages.several[pointing]] = query.of_vectors(summed)
    kept = passages.kept(pointing)
    return passages.messages[kept], products[kept]


def _message_vectors(vectors: _Vectors, keys: Keys) -> tuple[Keys, QuantisedRows]:
    """Return those of `keys`, which ascend, that have a direction, and one vector for each."""
    passages = _passages_of(vectors, keys)
    units = vectors.vectors(passages.firsts)
    if not len(passages.several):
        return passages.messages, units
    summed, pointing = passages.sums(vectors)
    units.codes[passages.several[pointing]] = summed.codes
    units.scales[passages.several[pointing]] = summed.scales
    kept = passages.kept(pointing)
    return passages.messages[kept], QuantisedRows(units.codes[kept], units.scales[kept])


class _Passages(NamedTuple):
    """The rows of messages that have any, by ascending keys."""

    messages: Keys
    rows: Rows
    """Those of a message side by side."""
    starts: Rows
    """Where the rows of each message begin."""
    counts: Rows
    """How many each has."""

    @property
    def firsts(self) -> Rows:
        """Return the first row of each message."""
        return self.rows.take(self.starts)

    @property
    def several(self) -> Rows:
        """Return which messages have more than one."""
        return np.flatnonzero(self.counts > 1)

    def sums(self, vectors: _Vectors) -> tuple[QuantisedRows, NDArray[np.bool_]]:
        """Return the direction of the sum of the passages of each message that has several.

        Says of which of them there is one: passages may cancel each other out.
        """
        counts = self.counts[self.several]
        units = vectors.vectors(self.rows[np.repeat(self.counts > 1, self.counts)])
        scaled = np.rint(units.codes * (units.scales * np.float64(_UNIT))[:, np.newaxis])
        sums = np.add.reduceat(scaled, np.cumsum(counts) - counts, axis=0)
        pointing = np.abs(sums).max(axis=1) > 0
        return quantise(sums[pointing], dimensions=sums.shape[1]), pointing

    def kept(self, pointing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which messages have a direction."""
        kept = np.ones(len(self.messages), dtype=np.bool_)
        kept[self.several] = pointing
        return kept


def _passages_of(vectors: _Vectors, keys: Keys) -> _Passages:
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
