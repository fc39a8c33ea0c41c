"""Compares a query with messages in the company of their neighbours.

The cosine with a sum of vectors needs no sum: above are the query's products with each vector, below
the products of the vectors with each other. These are products of bytes, exact on every machine.
"""

from __future__ import annotations

from typing import Protocol

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


class _Vectors(Protocol):
    @property
    def kernels(self) -> Kernels: ...
    def rows_of(self, keys: Keys) -> tuple[Rows, Rows]: ...
    def vectors(self, rows: Rows) -> QuantisedRows: ...


def neighbourhood_cosines(vectors: _Vectors, query: QuantisedRows, keys: Keys) -> Cosines:
    """Return the cosine of a query with each key's neighbourhood, or NaN where it is empty."""
    around = _shifted(keys, np.array(_OFFSETS)[:, np.newaxis])
    messages, units = _message_vectors(vectors, distinct(around.reshape(-1)))
    places = _places(messages, around)
    products = vectors.kernels.products(query.codes[0], units.codes) * units.scales
    summed = np.append(products * np.float64(query.scales[0]), 0).take(places).sum(axis=0)
    lengths = np.sqrt(_squared_lengths(vectors.kernels, messages, units, places))
    out = np.full(len(keys), np.nan)
    np.divide(summed, lengths, out=out, where=lengths > 0)
    return np.clip(out, -1, 1)


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


def _message_vectors(vectors: _Vectors, keys: Keys) -> tuple[Keys, QuantisedRows]:
    """Return those of `keys`, which ascend, that have vectors, and one vector for each."""
    rows, owners = vectors.rows_of(keys)
    order = np.argsort(owners, kind="stable")
    owners, units = owners[order], vectors.vectors(rows[order])
    starts = run_starts(owners)
    present, counts = keys[owners[starts]], run_lengths(starts, len(owners))
    if len(present) == len(owners):
        return present, units
    whole = QuantisedRows(units.codes.take(starts, axis=0), units.scales.take(starts))
    several = np.flatnonzero(counts > 1)
    pointing = np.ones(len(present), dtype=np.bool_)
    pointing[several] = _sum_passages(whole, several, units, counts)
    if pointing.all():
        return present, whole
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
