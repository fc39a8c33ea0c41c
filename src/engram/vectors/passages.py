"""Adds up the vectors of messages that have several: such a message points where their sum does.

Sums are of whole numbers, so that they are the same in whatever order passages are added.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from engram.vectors.arrays import Cosines, Keys, Rows
from engram.vectors.kernels import Kernels
from engram.vectors.quantise import QuantisedRows, quantise
from engram.vectors.runs import run_lengths, run_starts

_UNIT = 1 << 15
"""A length of 1 in whole numbers."""

_FLOAT32_PASSAGES_MAX = 2**24 // _UNIT
"""Sums of so many vectors are exact in float32, which is twice as fast as float64."""


class Vectors(Protocol):
    """The vectors of one moment."""

    @property
    def kernels(self) -> Kernels: ...
    def rows_of(self, keys: Keys) -> tuple[Rows, Rows]: ...
    def rows_between(self, firsts: Keys, lasts: Keys) -> tuple[Rows, Rows]: ...
    def keys_of(self, rows: Rows) -> Keys: ...
    def vectors(self, rows: Rows) -> QuantisedRows: ...


class Comparison(Protocol):
    """A query, compared with whatever has a direction."""

    def of_rows(self, rows: Rows) -> Cosines: ...


class Sums(NamedTuple):
    """The sums of the passages of some messages."""

    units: QuantisedRows
    """Their directions; any one where passages cancel each other out."""
    lengths: Cosines
    """0 where they do."""


class Passages(NamedTuple):
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

    def only(self, wanted: Rows) -> Passages:
        """Return some of the messages with their rows; they ascend."""
        is_wanted = np.zeros(len(self.messages), dtype=np.bool_)
        is_wanted[wanted] = True
        counts = self.counts[wanted]
        return Passages(
            messages=self.messages[wanted],
            rows=self.rows[np.repeat(is_wanted, self.counts)],
            starts=np.cumsum(counts) - counts,
            counts=counts,
        )

    def sums(self, vectors: Vectors) -> Sums:
        """Return the sum of the passages of each message; there must be one."""
        units = vectors.vectors(self.rows)
        kind = np.float32 if self.counts.max() <= _FLOAT32_PASSAGES_MAX else np.float64
        scaled = units.codes * (units.scales * kind(_UNIT))[:, np.newaxis]
        sums = np.add.reduceat(np.rint(scaled, out=scaled), self.starts, axis=0)
        squares = np.einsum("ij,ij->i", sums, sums, dtype=np.int64, casting="unsafe")
        sums[squares == 0] = 1
        return Sums(quantise(sums, dimensions=sums.shape[1]), np.sqrt(squares) / _UNIT)


def passages_of(vectors: Vectors, keys: Keys) -> Passages:
    """Return the rows of those of `keys`, which ascend, that have any."""
    rows, owners = vectors.rows_of(keys)
    order = np.argsort(owners, kind="stable")
    owners = owners.take(order)
    starts = run_starts(owners)
    return Passages(
        messages=keys.take(owners.take(starts)),
        rows=rows.take(order),
        starts=starts,
        counts=run_lengths(starts, len(owners)),
    )


class Directions(NamedTuple):
    """Where messages point that point anywhere, by ascending keys."""

    messages: Keys
    units: QuantisedRows
    summed: Keys
    """The messages of several passages, whether or not they point anywhere."""
    lengths: Cosines
    """Of their sums."""


def directions_of(vectors: Vectors, keys: Keys) -> Directions:
    """Return the directions of those of `keys`, which ascend, that have one."""
    passages = passages_of(vectors, keys)
    units, several = vectors.vectors(passages.firsts), passages.several
    if not len(several):
        return Directions(passages.messages, units, several, np.empty(0))
    sums = passages.only(several).sums(vectors)
    units.codes[several], units.scales[several] = sums.units.codes, sums.units.scales
    kept = _pointing(passages, sums.lengths)
    return Directions(
        messages=passages.messages[kept],
        units=QuantisedRows(units.codes[kept], units.scales[kept]),
        summed=passages.messages[several],
        lengths=sums.lengths,
    )


def _pointing(passages: Passages, lengths: Cosines) -> NDArray[np.bool_]:
    kept = np.ones(len(passages.messages), dtype=np.bool_)
    kept[passages.several] = lengths > 0
    return kept
