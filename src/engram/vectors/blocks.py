"""Append-only storage for quantised rows, and the index from keys to rows.

Both are persistent data structures: adding rows returns a new value that shares its memory with the
old one, so a reader keeps the snapshot it has while a writer appends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engram.vectors.arrays import Bits, Codes, Keys, Rows, Scales
from engram.vectors.quantise import QuantisedRows, bit_words, sign_bits

BLOCK_ROWS = 1 << 15
"""Rows in a full block: long enough for the kernels, short enough to copy while it grows."""

_BLOCK_ROWS_MIN = 1 << 8
"""Most organisations are small, and many are open at once."""


@dataclass(frozen=True, slots=True)
class Block:
    """Arrays for as many rows; only the writer touches those beyond the published count."""

    keys: Keys
    codes: Codes
    scales: Scales
    bits: Bits

    @classmethod
    def empty(cls, rows: int, *, dimensions: int) -> Block:
        """Return a block with a capacity of `rows`."""
        return cls(
            keys=np.empty(rows, dtype=np.int64),
            codes=np.empty((rows, dimensions), dtype=np.int8),
            scales=np.empty(rows, dtype=np.float32),
            bits=np.empty((bit_words(dimensions), rows), dtype=np.uint64),
        )

    @property
    def capacity(self) -> int:
        """Return how many rows fit."""
        return len(self.keys)

    @property
    def bytes(self) -> int:
        """Return the allocated memory, used or not."""
        return self.keys.nbytes + self.codes.nbytes + self.scales.nbytes + self.bits.nbytes

    def write(self, keys: Keys, rows: QuantisedRows, *, at: int) -> None:
        """Write rows from index `at`, which must lie beyond the published rows."""
        place = slice(at, at + len(rows))
        self.keys[place] = keys
        self.codes[place] = rows.codes
        self.scales[place] = rows.scales
        self.bits[:, place] = sign_bits(rows.codes)

    def rows(self, places: Rows) -> tuple[Keys, QuantisedRows]:
        """Return the selected rows with their keys."""
        # Indexing takes more than twice as long.
        codes, scales = self.codes.take(places, axis=0), self.scales.take(places)
        return self.keys.take(places), QuantisedRows(codes=codes, scales=scales)


@dataclass(frozen=True, slots=True)
class Blocks:
    """All rows in insertion order, in blocks that grow only at the end."""

    dimensions: int
    count: int = 0
    parts: tuple[Block, ...] = ()
    """All but the last have `BLOCK_ROWS` rows, so that division finds the block of a row."""

    @property
    def bytes(self) -> int:
        """Return the allocated memory of all blocks."""
        return sum(block.bytes for block in self.parts)

    def with_rows(self, keys: Keys, rows: QuantisedRows) -> Blocks:
        """Return these blocks with rows appended; not safe for concurrent writers."""
        blocks, count, written = [*self.parts], self.count, 0
        while written < len(rows):
            used = count % BLOCK_ROWS
            if not used:
                blocks.append(Block.empty(0, dimensions=self.dimensions))
            end = min(len(rows), written + BLOCK_ROWS - used)
            blocks[-1] = _with_capacity(blocks[-1], used=used, needed=used + end - written)
            part = QuantisedRows(codes=rows.codes[written:end], scales=rows.scales[written:end])
            blocks[-1].write(keys[written:end], part, at=used)
            count, written = count + end - written, end
        return Blocks(self.dimensions, count, tuple(blocks))

    def filled(self) -> Iterator[tuple[slice, Block, slice]]:
        """Yield each block with its range among all rows and its range of rows in use."""
        for number, block in enumerate(self.parts):
            start = number * BLOCK_ROWS
            end = min(start + BLOCK_ROWS, self.count)
            yield slice(start, end), block, slice(0, end - start)

    def pieces(self, rows: Rows) -> Iterator[tuple[slice | Rows, Block, Rows]]:
        """Group `rows` by block: yield their indexes in `rows`, the block, and their rows in it."""
        if len(self.parts) == 1:
            yield slice(0, len(rows)), self.parts[0], rows
            return
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        starts = np.arange(len(self.parts) + 1) * BLOCK_ROWS
        bounds = np.searchsorted(ordered, starts)
        for number, block in enumerate(self.parts):
            part = slice(bounds[number], bounds[number + 1])
            if part.start < part.stop:
                yield order[part], block, ordered[part] - starts[number]


def _with_capacity(block: Block, *, used: int, needed: int) -> Block:
    """Return the block, or a larger copy of it if it cannot hold `needed` rows."""
    if needed <= block.capacity:
        return block
    capacity = max(_BLOCK_ROWS_MIN, 1 << (needed - 1).bit_length())
    grown = Block.empty(capacity, dimensions=block.codes.shape[1])
    for new, old in (
        (grown.keys, block.keys),
        (grown.codes, block.codes),
        (grown.scales, block.scales),
    ):
        new[:used] = old[:used]
    grown.bits[:, :used] = block.bits[:, :used]
    return grown


@dataclass(frozen=True, slots=True)
class _Run:
    keys: Keys
    rows: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Index from keys to rows, removed rows included.

    Sorted runs, each at least twice as long as the next, as in a log-structured merge tree: adding a
    row to a million does not sort a million keys, and a lookup searches few runs.
    """

    runs: tuple[_Run, ...] = ()

    @property
    def bytes(self) -> int:
        """Return the memory of the runs."""
        return sum(run.keys.nbytes + run.rows.nbytes for run in self.runs)

    def with_rows(self, keys: Keys, *, first: int) -> KeyIndex:
        """Return this index with the keys of new rows, which are numbered from `first`."""
        added = _sorted_run(keys, np.arange(first, first + len(keys), dtype=np.int32))
        runs = [*self.runs]
        while runs and len(runs[-1].keys) < 2 * len(added.keys):
            added = _merged(runs.pop(), added)
        return KeyIndex((*runs, added))

    def rows_between(self, firsts: Keys, lasts: Keys) -> tuple[Rows, Rows]:
        """Return the rows whose key is in one of the closed ranges, and the range each is in."""
        found = [_between(run, firsts, lasts) for run in self.runs]
        if not found:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        rows, ranges = zip(*found, strict=True)
        return np.concatenate(rows).astype(np.int64), np.concatenate(ranges)


def _sorted_run(keys: Keys, rows: NDArray[np.int32]) -> _Run:
    order = np.argsort(keys, kind="stable")
    return _Run(keys=keys[order], rows=rows[order])


def _merged(older: _Run, newer: _Run) -> _Run:
    # The stable sort detects the two sorted halves and only merges them.
    return _sorted_run(
        np.concatenate((older.keys, newer.keys)), np.concatenate((older.rows, newer.rows))
    )


def _between(run: _Run, firsts: Keys, lasts: Keys) -> tuple[NDArray[np.int32], Rows]:
    starts = run.keys.searchsorted(firsts, side="left")
    counts = np.maximum(run.keys.searchsorted(lasts, side="right") - starts, 0)
    if counts.max(initial=0) <= 1:
        ranges = counts.nonzero()[0]
        return run.rows.take(starts.take(ranges)), ranges
    ranges = np.arange(len(firsts)).repeat(counts)
    within = np.arange(len(ranges)) - (counts.cumsum() - counts).repeat(counts)
    return run.rows.take(starts.repeat(counts) + within), ranges
