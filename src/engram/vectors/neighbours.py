"""Compares a query with messages in the company of their neighbours.

The cosine with a sum of vectors needs no sum: above are the query's products with each vector, below
the products of the vectors with each other. These are products of bytes, exact on every machine.
"""

from __future__ import annotations

from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engram.limits import CONVERSATION_MESSAGES_MAX
from engram.vectors.arrays import Cosines, Keys, Rows
from engram.vectors.kernels import Kernels
from engram.vectors.quantise import QuantisedRows, quantise

_SEQUENCE_BITS = CONVERSATION_MESSAGES_MAX.bit_length()
_OFFSETS = (-2, -1, 0, 1, 2)
_REACH = _OFFSETS[-1] - _OFFSETS[0]

_UNIT = 1 << 15
"""A length of 1 in whole numbers, whose sums are exact in whatever order passages are added."""


class _Vectors(Protocol):
    @property
    def kernels(self) -> Kernels: ...
    def rows_of(self, keys: Keys) -> tuple[Rows, Rows]: ...
    def vectors(self, rows: Rows) -> QuantisedRows: ...


def neighbourhood_cosines(vectors: _Vectors, query: QuantisedRows, keys: Keys) -> Cosines:
    """Return the cosine of a query with each key's neighbourhood, or NaN where it is empty."""
    around = [_shifted(keys, offset) for offset in _OFFSETS]
    messages, units = _message_vectors(vectors, _distinct(np.concatenate(around)))
    places = [_places(messages, column) for column in around]
    products = vectors.kernels.products(query.codes[0], units.codes) * units.scales
    summed = _sum(np.append(products * np.float64(query.scales[0]), 0), places)
    lengths = np.sqrt(_squared_lengths(vectors.kernels, messages, units, places))
    out = np.full(len(keys), np.nan)
    np.divide(summed, lengths, out=out, where=lengths > 0)
    return np.clip(out, -1, 1)


def _shifted(keys: Keys, offset: int) -> Keys:
    """Return the keys some messages further on, or -1 past an end of the conversation."""
    moved = keys + offset
    return np.where(moved >> _SEQUENCE_BITS == keys >> _SEQUENCE_BITS, moved, -1)


def _distinct(keys: Keys) -> Keys:
    """Return the keys in ascending order, each once; quicker for so few than `np.unique`."""
    ordered = np.sort(keys)
    is_new = np.ones(len(ordered), dtype=np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


def _places(messages: Keys, keys: Keys) -> Rows:
    """Return where each key is among the messages, or one past their end where it is not."""
    places = np.searchsorted(messages, keys)
    places[np.append(messages, -1)[places] != keys] = len(messages)
    return places


def _sum(values: Cosines, places: list[Rows]) -> Cosines:
    return np.sum([values[column] for column in places], axis=0)


def _squared_lengths(
    kernels: Kernels, messages: Keys, units: QuantisedRows, places: list[Rows]
) -> Cosines:
    """Return the squared length of the sum of the vectors at `places`."""
    present = np.append(np.ones(len(messages)), 0)
    out = _sum(present, places)
    between = [_products_ahead(kernels, messages, units, step) for step in range(1, _REACH + 1)]
    for first, second in combinations(range(len(_OFFSETS)), 2):
        out += 2 * between[second - first - 1][places[first]]
    # Vectors that cancel out leave what rounding left.
    return np.where(out > 1e-6, out, 0)


def _products_ahead(kernels: Kernels, messages: Keys, units: QuantisedRows, step: int) -> Cosines:
    """Return the product of each vector with that of the message `step` further on, or 0."""
    out = np.zeros(len(messages) + 1)
    ahead = _places(messages, _shifted(messages, step))
    here = np.flatnonzero(ahead < len(messages))
    there = ahead[here]
    products = kernels.products_of_pairs(
        units.codes.take(here, axis=0), units.codes.take(there, axis=0)
    )
    out[here] = products * units.scales[here].astype(np.float64) * units.scales[there]
    return out


def _message_vectors(vectors: _Vectors, keys: Keys) -> tuple[Keys, QuantisedRows]:
    """Return those of `keys`, which ascend, that have vectors, and one vector for each."""
    rows, owners = vectors.rows_of(keys)
    order = np.argsort(owners, kind="stable")
    owners, units = owners[order], vectors.vectors(rows[order])
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    present, counts = keys[owners[starts]], np.diff(starts, append=len(owners))
    if len(present) == len(owners):
        return present, units
    whole = QuantisedRows(codes=units.codes[starts], scales=units.scales[starts])
    several = np.flatnonzero(counts > 1)
    pointing = np.ones(len(present), dtype=np.bool_)
    pointing[several] = _sum_passages(whole, several, units, counts)
    return present[pointing], QuantisedRows(whole.codes[pointing], whole.scales[pointing])


def _sum_passages(
    whole: QuantisedRows, several: Rows, units: QuantisedRows, counts: Rows
) -> NDArray[np.bool_]:
    """Put the direction of their sum in the place of messages with several passages.

    Returns of which of them there is one: passages may cancel each other out.
    """
    among = np.repeat(counts > 1, counts)
    scaled = np.rint(units.codes[among] * (units.scales[among] * np.float64(_UNIT))[:, np.newaxis])
    sums = np.add.reduceat(scaled, np.cumsum(counts[several]) - counts[several], axis=0)
    pointing = np.abs(sums).max(axis=1) > 0
    summed = quantise(sums[pointing], dimensions=sums.shape[1])
    whole.codes[several[pointing]] = summed.codes
    whole.scales[several[pointing]] = summed.scales
    return pointing
