"""Holds rows side by side in blocks that only ever grow at their end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engram.vectors.arrays import Bits, Codes, Keys, Rows, Scales
from engram.vectors.quantise import QuantisedRows, bit_bytes, sign_bits

BLOCK_ROWS = 1 << 15
"""Rows in a full block: long enough for the kernels, short enough to copy while it grows."""

_BLOCK_ROWS_MIN = 1 << 8
"""Most organisations are small, and many are open at once."""


@dataclass(frozen=True, slots=True)
class Block:
    """Arrays of one length; rows behind the last published one are the writer's alone."""

    keys: Keys
    codes: Codes
    scales: Scales
    bits: Bits

    @classmethod
    def empty(cls, rows: int, *, dimensions: int) -> Block:
        """Return a block with room for `rows`."""
        return cls(
            keys=np.empty(rows, dtype=np.int64),
            codes=np.empty((rows, dimensions), dtype=np.int8),
            scales=np.empty(rows, dtype=np.float32),
            bits=np.empty((rows, bit_bytes(dimensions)), dtype=np.uint8),
        )

    @property
    def room(self) -> int:
        """Return how many rows fit in."""
        return len(self.keys)

    @property
    def bytes(self) -> int:
        """Return the memory of the arrays, used or not."""
        return self.keys.nbytes + self.codes.nbytes + self.scales.nbytes + self.bits.nbytes

    def write(self, keys: Keys, rows: QuantisedRows, *, at: int) -> None:
        """Put rows behind those that are published."""
        place = slice(at, at + len(rows))
        self.keys[place] = keys
        self.codes[place] = rows.codes
        self.scales[place] = rows.scales
        self.bits[place] = sign_bits(rows.codes)

    def rows(self, places: slice | Rows) -> tuple[Keys, QuantisedRows]:
        """Return some rows with their keys."""
        rows = QuantisedRows(codes=self.codes[places], scales=self.scales[places])
        return self.keys[places], rows


@dataclass(frozen=True, slots=True)
class Blocks:
    """All rows in the order of their arrival; replaced, not changed, by whoever adds to it."""

    dimensions: int
    count: int = 0
    parts: tuple[Block, ...] = ()
    """Every one but the last has `BLOCK_ROWS` rows, so that a row's block is found by division."""

    @property
    def bytes(self) -> int:
        """Return the memory of all blocks."""
        return sum(block.bytes for block in self.parts)

    def with_rows(self, keys: Keys, rows: QuantisedRows) -> Blocks:
        """Return these blocks and new rows behind them; only one thread may add at a time."""
        blocks, count, written = [*self.parts], self.count, 0
        while written < len(rows):
            used = count % BLOCK_ROWS
            if not used:
                blocks.append(Block.empty(0, dimensions=self.dimensions))
            end = min(len(rows), written + BLOCK_ROWS - used)
            blocks[-1] = _with_room(blocks[-1], used=used, needed=used + end - written)
            part = QuantisedRows(codes=rows.codes[written:end], scales=rows.scales[written:end])
            blocks[-1].write(keys[written:end], part, at=used)
            count, written = count + end - written, end
        return Blocks(self.dimensions, count, tuple(blocks))

    def filled(self) -> Iterator[tuple[slice, Block, slice]]:
        """Yield where a block's rows lie among all rows, the block, and its rows in use."""
        for number, block in enumerate(self.parts):
            start = number * BLOCK_ROWS
            end = min(start + BLOCK_ROWS, self.count)
            yield slice(start, end), block, slice(0, end - start)

    def pieces(self, rows: Rows) -> Iterator[tuple[slice | Rows, Block, Rows]]:
        """Yield which of `rows` lie in a block, the block, and their places in it."""
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


def _with_room(block: Block, *, used: int, needed: int) -> Block:
    """Return the block, or a copy of it that is large enough for `needed` rows."""
    if needed <= block.room:
        return block
    room = max(_BLOCK_ROWS_MIN, 1 << (needed - 1).bit_length())
    grown = Block.empty(room, dimensions=block.codes.shape[1])
    for new, old in (
        (grown.keys, block.keys),
        (grown.codes, block.codes),
        (grown.scales, block.scales),
        (grown.bits, block.bits),
    ):
        new[:used] = old[:used]
    return grown
