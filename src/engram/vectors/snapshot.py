"""Searches an immutable snapshot of vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
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
    best_keys,
    clip_cosines,
    distinct,
    nearest,
)
from engram.vectors.blocks import Blocks, KeyIndex
from engram.vectors.kernels import Kernels, distances
from engram.vectors.neighbours import Compared, LengthCache, compare_messages
from engram.vectors.quantise import QuantisedRows, quantise, sign_bits

SCAN_ROWS_MAX = 1 << 16
"""Up to here a search scans the codes of all rows: exact, in a millisecond or two."""

RESCORED_PER_RESULT = 40
RESCORED_MIN = 4_000
RESCORED_SHARE = 32
"""Rows that sign bits preselect for comparison by code: so many for each result, at least so many,
and at least one in so many of all rows. On real vectors of 256 dimensions this has a recall of 0.997
at 10."""

_SPARSE = 8
"""If fewer than one row in so many is allowed, gather their bits instead of scanning all rows."""


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Keys that a search may return: from `firsts` to `lasts`, both included.

    A whole conversation is one range. Ranges do not overlap.
    """

    firsts: Keys
    lasts: Keys

    @classmethod
    def of_keys(cls, keys: Keys) -> KeyRanges:
        """Return a range for each of these keys; fastest when they are sorted."""
        single = keys if (keys[1:] > keys[:-1]).all() else distinct(keys)
        return cls(single, single)


Allowed: TypeAlias = KeyRanges | Keys


@dataclass(frozen=True, slots=True)
class Asked:
    """A query quantised for one snapshot, to be shared by several reads of that snapshot."""

    rows: QuantisedRows
    every: list[Cosines] = field(default_factory=list[Cosines], compare=False)
    """Cache of the cosines with every row, filled by the first full scan; empty before."""

    @property
    def bits(self) -> Bits:
        """Return the sign bits of the query."""
        return sign_bits(self.rows.codes)


@dataclass(frozen=True, slots=True)
class VectorSnapshot:
    """An immutable set of vectors; safe for concurrent reads."""

    blocks: Blocks
    kernels: Kernels
    index: KeyIndex = field(default_factory=KeyIndex)
    dead: Flags | None = None
    """Marks removed rows; None until the first removal."""
    lengths: LengthCache = field(default_factory=LengthCache)

    @property
    def rows_live(self) -> int:
        """Return the number of rows that are not removed."""
        return self.blocks.count - self.rows_dead

    @property
    def rows_dead(self) -> int:
        """Return the number of removed rows that still take up space."""
        return 0 if self.dead is None else int(np.count_nonzero(self.dead))

    @property
    def bytes(self) -> int:
        """Return the memory that the rows use."""
        dead = 0 if self.dead is None else self.dead.nbytes
        return self.blocks.bytes + self.index.bytes + dead

    def search(
        self, query: Query | Asked, k: int, *, allowed: Allowed | None = None
    ) -> tuple[Keys, Cosines]:
        """Return the `k` keys nearest to a query with their cosines, best first, then by key.

        A key counts with its best row. Up to `SCAN_ROWS_MAX` rows the order is exact; above, sign
        bits preselect the rows to compare. The filter applies before any selection.

        Raises:
            InvalidVectorError: the query is zero, not finite, or of the wrong dimensions.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        prepared = self.prepare(query)
        rows = None if allowed is None else self._allowed_rows(allowed)
        count = self.blocks.count if rows is None else len(rows)
        if count > SCAN_ROWS_MAX:
            return self._search_bits(prepared, k, rows)
        if rows is None:
            return best_keys(*self._all_cosines(prepared), k)
        return best_keys(self.keys_of(rows), self.compare(prepared, rows), k)

    def compare_messages(self, query: Query | Asked, keys: Keys) -> Compared:
        """Return the cosines of each message alone and together with its neighbours.

        Neighbours are the two messages before and the two after, in the same conversation. A message
        with several vectors counts with the direction of their sum.

        Raises:
            InvalidVectorError: the query is zero, not finite, or of the wrong dimensions.
        """
        cosines_of = partial(self.compare, self.prepare(query))
        return compare_messages(self, cosines_of, keys, self.lengths)

    def rows_of(self, keys: Keys) -> tuple[Rows, Rows]:
        """Return the live rows of some keys, and the index in `keys` of each."""
        return self.rows_between(keys, keys)

    def rows_between(self, firsts: Keys, lasts: Keys) -> tuple[Rows, Rows]:
        """Return the live rows whose key is in one of the closed ranges, and the range each is in."""
        rows, ranges = self.index.rows_between(firsts, lasts)
        if self.dead is None:
            return rows, ranges
        live = ~self.dead[rows]
        return rows[live], ranges[live]

    def vectors(self, rows: Rows) -> QuantisedRows:
        """Return the codes and scales of some rows."""
        if len(self.blocks.parts) == 1:
            return self.blocks.parts[0].rows(rows)[1]
        codes = np.empty((len(rows), self.blocks.dimensions), dtype=np.int8)
        scales = np.empty(len(rows), dtype=np.float32)
        for places, block, local in self.blocks.pieces(rows):
            _, found = block.rows(local)
            codes[places], scales[places] = found.codes, found.scales
        return QuantisedRows(codes=codes, scales=scales)

    def _search_bits(self, query: Asked, k: int, rows: Rows | None) -> tuple[Keys, Cosines]:
        apart = self._distances(query, rows)
        furthest = self.blocks.dimensions
        wanted = max(RESCORED_PER_RESULT * k, RESCORED_MIN, len(apart) // RESCORED_SHARE)
        while True:
            places = nearest(apart, wanted, furthest=furthest)
            chosen = places if rows is None else rows[places]
            found, cosines = best_keys(self.keys_of(chosen), self.compare(query, chosen), k)
            if len(found) == k or len(chosen) < wanted:
                return found, cosines
            wanted *= 4  # A few keys with very many rows filled the selection.

    def _distances(self, query: Asked, rows: Rows | None) -> Distances:
        if rows is not None and len(rows) * _SPARSE < self.blocks.count:
            return self._distances_of(query, rows)
        out, bits = np.empty(self.blocks.count, dtype=np.int16), query.bits
        for places, block, used in self.blocks.filled():
            out[places] = distances(bits, block.bits[:, used])
        if self.dead is not None:
            out[self.dead] = self.blocks.dimensions + 1
        return out if rows is None else out[rows]

    def _distances_of(self, query: Asked, rows: Rows) -> Distances:
        out, bits = np.empty(len(rows), dtype=np.int16), query.bits
        for places, block, local in self.blocks.pieces(rows):
            out[places] = distances(bits, block.bits.take(local, axis=1))
        return out

    def compare(self, query: Asked, rows: Rows) -> Cosines:
        """Return the cosine of a query with each of some rows."""
        if query.every:
            return query.every[0].take(rows)
        out = np.empty(len(rows), dtype=np.float64)
        pieces = [*self.blocks.pieces(rows)]
        longest = max((len(local) for _, _, local in pieces), default=0)
        # One array for all: to gather into new memory takes twice as long.
        codes = np.empty((longest, self.blocks.dimensions), dtype=np.int8)
        for places, block, local in pieces:
            part = codes[: len(local)]
            block.codes.take(local, axis=0, out=part, mode="clip")
            vectors = QuantisedRows(codes=part, scales=block.scales.take(local))
            out[places] = self.compare_vectors(query, vectors)
        return out

    def _all_cosines(self, query: Asked) -> tuple[Keys, Cosines]:
        keys = np.empty(self.blocks.count, dtype=np.int64)
        out = np.empty(self.blocks.count, dtype=np.float64)
        for places, block, used in self.blocks.filled():
            keys[places] = block.keys[used]
            chosen = QuantisedRows(codes=block.codes[used], scales=block.scales[used])
            out[places] = self.compare_vectors(query, chosen)
        query.every.append(out)
        return (keys, out) if self.dead is None else (keys[~self.dead], out[~self.dead])

    def compare_vectors(self, query: Asked, vectors: QuantisedRows) -> Cosines:
        """Return the cosine of a query with each vector."""
        products = self.kernels.products(query.rows.codes[0], vectors.codes)
        products *= vectors.scales
        products *= np.float64(query.rows.scales[0])
        return clip_cosines(products)

    def keys_of(self, rows: Rows) -> Keys:
        """Return the key of each row."""
        out = np.empty(len(rows), dtype=np.int64)
        for places, block, local in self.blocks.pieces(rows):
            out[places] = block.keys.take(local)
        return out

    def _allowed_rows(self, allowed: Allowed) -> Rows:
        ranges = allowed if isinstance(allowed, KeyRanges) else KeyRanges.of_keys(allowed)
        rows, _ = self.rows_between(ranges.firsts, ranges.lasts)
        return np.sort(rows)

    def prepare(self, query: Query | Asked) -> Asked:
        """Quantise a query for these vectors; a prepared one is returned as it is.

        Raises:
            InvalidVectorError: the query is zero, not finite, or of the wrong dimensions.
        """
        if isinstance(query, Asked):
            return query
        return Asked(quantise(np.asarray(query)[np.newaxis], dimensions=self.blocks.dimensions))
