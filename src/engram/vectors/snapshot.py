"""Answers questions about the vectors of one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from engram.vectors.arrays import (
    Bits,
    Cosines,
    Distances,
    Flags,
    Keys,
    Query,
    Rows,
    clip_cosines,
)
from engram.vectors.blocks import Blocks
from engram.vectors.kernels import Kernels
from engram.vectors.neighbours import Compared, KnownLengths, compare_messages
from engram.vectors.owners import Owners
from engram.vectors.quantise import QuantisedRows, quantise, sign_bits
from engram.vectors.ranking import best_keys, nearest
from engram.vectors.runs import distinct

SCAN_ROWS_MAX = 1 << 16
"""Up to here every byte is compared, which takes a millisecond or two and misses nothing."""

RESCORED_PER_RESULT = 40
RESCORED_MIN = 4_000
RESCORED_SHARE = 32
"""Rows that bits choose for the bytes to compare: so many for each result, at least so many, and at
least one in so many of all rows. Real vectors of 256 dimensions: 0.997 of the ten best are there."""

_SPARSE = 8
"""When fewer than one row in so many is allowed, bits are gathered instead of all compared."""


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Keys that a search may return: from `firsts` to `lasts`, both included.

    A whole conversation is one range. Ranges do not overlap.
    """

    firsts: Keys
    lasts: Keys

    @classmethod
    def of_keys(cls, keys: Keys) -> KeyRanges:
        """Return a range for each of these keys, quickest when they ascend."""
        single = keys if (keys[1:] > keys[:-1]).all() else distinct(keys)
        return cls(single, single)


Allowed: TypeAlias = KeyRanges | Keys


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as one snapshot compares it; to ask that several questions, prepare it once."""

    rows: QuantisedRows
    every: list[Cosines] = field(default_factory=list[Cosines], compare=False)
    """What it has in common with every row, once all have been compared with it."""

    @property
    def bits(self) -> Bits:
        """Return one bit for each dimension."""
        return sign_bits(self.rows.codes)[0]


@dataclass(frozen=True, slots=True)
class VectorSnapshot:
    """Vectors that never change; any number of threads may ask at once."""

    blocks: Blocks
    kernels: Kernels
    owners: Owners = field(default_factory=Owners)
    dead: Flags | None = None
    """A flag for each row once one has been removed."""
    lengths: KnownLengths = field(default_factory=KnownLengths)
    """Of the neighbourhoods that were asked about."""

    @property
    def rows_live(self) -> int:
        """Return how many rows can be found."""
        return self.blocks.count - self.rows_dead

    @property
    def rows_dead(self) -> int:
        """Return how many rows only wait for their place to be reused."""
        return 0 if self.dead is None else int(np.count_nonzero(self.dead))

    @property
    def bytes(self) -> int:
        """Return the memory that this takes."""
        dead = 0 if self.dead is None else self.dead.nbytes
        return self.blocks.bytes + self.owners.bytes + dead

    def search(
        self, query: Query | Asked, k: int, *, allowed: Allowed | None = None
    ) -> tuple[Keys, Cosines]:
        """Return the `k` keys nearest to a query with their cosines, best first, then by key.

        A key counts with its best row. Up to `SCAN_ROWS_MAX` rows the order is exact; above, one
        bit for each dimension chooses which rows are compared. Only allowed keys are ever looked at.

        Raises:
            InvalidVectorError: the query is not finite, is zero, or has other dimensions.
        """
        if k < 1:
            raise ValueError("a search for nothing")
        asked = self.prepare(query)
        rows = None if allowed is None else self._allowed_rows(allowed)
        count = self.blocks.count if rows is None else len(rows)
        if count > SCAN_ROWS_MAX:
            return self._search_bits(asked, k, rows)
        if rows is None:
            return best_keys(*self._all_cosines(asked), k)
        return best_keys(self.keys_of(rows), self.compare(asked, rows), k)

    def compare_messages(self, query: Query | Asked, keys: Keys) -> Compared:
        """Return the cosines of each message by itself, and in company.

        Its company are two messages before and two after, of the same conversation. A message with
        several vectors takes part with the direction of their sum.

        Raises:
            InvalidVectorError: the query is not finite, is zero, or has other dimensions.
        """
        comparison = _Comparison(self, self.prepare(query))
        return compare_messages(self, comparison, keys, self.lengths)

    def rows_of(self, keys: Keys) -> tuple[Rows, Rows]:
        """Return the rows of keys that can be found, and the place in `keys` of each."""
        return self.rows_between(keys, keys)

    def rows_between(self, firsts: Keys, lasts: Keys) -> tuple[Rows, Rows]:
        """Return the rows of keys in ranges that can be found, and the range of each."""
        rows, ranges = self.owners.rows_between(firsts, lasts)
        if self.dead is None:
            return rows, ranges
        live = ~self.dead[rows]
        return rows[live], ranges[live]

    def vectors(self, rows: Rows) -> QuantisedRows:
        """Return the bytes of some rows."""
        if len(self.blocks.parts) == 1:
            return self.blocks.parts[0].rows(rows)[1]
        codes = np.empty((len(rows), self.blocks.dimensions), dtype=np.int8)
        scales = np.empty(len(rows), dtype=np.float32)
        for places, block, local in self.blocks.pieces(rows):
            codes[places], scales[places] = block.codes[local], block.scales[local]
        return QuantisedRows(codes=codes, scales=scales)

    def _search_bits(self, asked: Asked, k: int, rows: Rows | None) -> tuple[Keys, Cosines]:
        distances = self._distances(asked, rows)
        furthest = self.blocks.dimensions
        wanted = max(RESCORED_PER_RESULT * k, RESCORED_MIN, len(distances) // RESCORED_SHARE)
        while True:
            places = nearest(distances, wanted, furthest=furthest)
            chosen = places if rows is None else rows[places]
            found, cosines = best_keys(self.keys_of(chosen), self.compare(asked, chosen), k)
            if len(found) == k or len(chosen) < wanted:
                return found, cosines
            wanted *= 4  # Few keys with very many rows were in front of all others.

    def _distances(self, asked: Asked, rows: Rows | None) -> Distances:
        if rows is not None and len(rows) * _SPARSE < self.blocks.count:
            return self._distances_of(asked, rows)
        out, bits = np.empty(self.blocks.count, dtype=np.int16), asked.bits
        for places, block, used in self.blocks.filled():
            out[places] = self.kernels.distances(bits, block.bits[used])
        if self.dead is not None:
            out[self.dead] = self.blocks.dimensions + 1
        return out if rows is None else out[rows]

    def _distances_of(self, asked: Asked, rows: Rows) -> Distances:
        out, bits = np.empty(len(rows), dtype=np.int16), asked.bits
        for places, block, local in self.blocks.pieces(rows):
            out[places] = self.kernels.distances(bits, block.bits.take(local, axis=0))
        return out

    def compare(self, asked: Asked, rows: Rows) -> Cosines:
        """Return the cosines of some rows."""
        if asked.every:
            return asked.every[0].take(rows)
        out = np.empty(len(rows), dtype=np.float64)
        for places, block, local in self.blocks.pieces(rows):
            out[places] = self.compare_vectors(asked, block.rows(local)[1])
        return out

    def _all_cosines(self, asked: Asked) -> tuple[Keys, Cosines]:
        keys = np.empty(self.blocks.count, dtype=np.int64)
        out = np.empty(self.blocks.count, dtype=np.float64)
        for places, block, used in self.blocks.filled():
            keys[places] = block.keys[used]
            chosen = QuantisedRows(codes=block.codes[used], scales=block.scales[used])
            out[places] = self.compare_vectors(asked, chosen)
        asked.every.append(out)
        return (keys, out) if self.dead is None else (keys[~self.dead], out[~self.dead])

    def compare_vectors(self, asked: Asked, vectors: QuantisedRows) -> Cosines:
        """Return the cosine of each vector."""
        products = self.kernels.products(asked.rows.codes[0], vectors.codes)
        products *= vectors.scales
        products *= np.float64(asked.rows.scales[0])
        return clip_cosines(products)

    def keys_of(self, rows: Rows) -> Keys:
        """Return whose rows they are."""
        out = np.empty(len(rows), dtype=np.int64)
        for places, block, local in self.blocks.pieces(rows):
            out[places] = block.keys.take(local)
        return out

    def _allowed_rows(self, allowed: Allowed) -> Rows:
        ranges = allowed if isinstance(allowed, KeyRanges) else KeyRanges.of_keys(allowed)
        rows, _ = self.rows_between(ranges.firsts, ranges.lasts)
        return np.sort(rows)

    def prepare(self, query: Query | Asked) -> Asked:
        """Return a query as it is compared with these vectors.

        Raises:
            InvalidVectorError: the query is not finite, is zero, or has other dimensions.
        """
        if isinstance(query, Asked):
            return query
        return Asked(quantise(np.asarray(query)[np.newaxis], dimensions=self.blocks.dimensions))


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A query, compared with vectors of one moment."""

    snapshot: VectorSnapshot
    asked: Asked

    def of_rows(self, rows: Rows) -> Cosines:
        return self.snapshot.compare(self.asked, rows)
