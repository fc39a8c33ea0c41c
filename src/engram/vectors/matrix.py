"""The in-memory vectors of one organisation and one model, for one writer and many readers."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike

from engram.errors import InvalidVectorError
from engram.vectors.arrays import Cosines, Flags, Keys, Query, distinct
from engram.vectors.blocks import Blocks, KeyIndex
from engram.vectors.kernels import Kernels, best_kernels
from engram.vectors.neighbours import Compared
from engram.vectors.quantise import QuantisedRows
from engram.vectors.snapshot import Allowed, VectorSnapshot

COMPACTED_SHARE = 4
"""Compact when one row in so many is dead: scanning dead rows then costs as much as copying."""

COMPACTED_MIN = 1_024
"""Fewer dead rows are not worth copying the others."""


class VectorMatrix:
    """A mutable set of vectors, each with the key of the message it belongs to.

    Every read uses a snapshot, so it sees all of a change or nothing of it. Several reads that must
    agree share one `snapshot`.
    """

    def __init__(self, dimensions: int, *, kernels: Kernels | None = None) -> None:
        self._writing = Lock()
        self._snapshot = VectorSnapshot(Blocks(dimensions), kernels or best_kernels())

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        return self._snapshot.blocks.dimensions

    @property
    def snapshot(self) -> VectorSnapshot:
        """Return the current vectors."""
        return self._snapshot

    @property
    def bytes(self) -> int:
        """Return the memory that the vectors use."""
        return self._snapshot.bytes

    def __len__(self) -> int:
        return self._snapshot.rows_live

    def add(self, keys: ArrayLike, rows: QuantisedRows) -> None:
        """Add a row for each key; a key may have several."""
        self.change(removed=(), keys=keys, rows=rows)

    def remove(self, keys: ArrayLike) -> None:
        """Remove all rows of some keys; a key without rows is no error."""
        empty = np.empty((0, self.dimensions), dtype=np.int8)
        rows = QuantisedRows(codes=empty, scales=np.empty(0, dtype=np.float32))
        self.change(removed=keys, keys=(), rows=rows)

    def change(self, *, removed: ArrayLike, keys: ArrayLike, rows: QuantisedRows) -> None:
        """Remove the rows of some keys, then add rows, atomically for every reader.

        Raises:
            InvalidVectorError: the rows have the wrong dimensions, or do not match the keys in number.
        """
        owners = np.asarray(keys, dtype=np.int64).reshape(-1)
        if rows.codes.shape != (len(owners), self.dimensions):
            raise InvalidVectorError(
                f"{len(owners)} keys do not match rows of shape {rows.codes.shape}"
            )
        with self._writing:
            kept = _without(self._snapshot, np.asarray(removed, dtype=np.int64).reshape(-1))
            self._snapshot = _compacted(_with(kept, owners, rows))

    def search(
        self, query: Query, k: int, *, allowed: Allowed | None = None
    ) -> tuple[Keys, Cosines]:
        """Search the current snapshot; see `VectorSnapshot.search`."""
        return self._snapshot.search(query, k, allowed=allowed)

    def compare_messages(self, query: Query, keys: Keys) -> Compared:
        """Compare with the current snapshot; see `VectorSnapshot.compare_messages`."""
        return self._snapshot.compare_messages(query, keys)


def _without(snapshot: VectorSnapshot, keys: Keys) -> VectorSnapshot:
    if not len(keys):
        return snapshot
    rows, _ = snapshot.rows_of(distinct(keys))
    if not len(rows):
        return snapshot
    dead = _flags(snapshot).copy()
    dead[rows] = True
    return replace(snapshot, dead=dead, lengths=snapshot.lengths.without(keys))


def _with(snapshot: VectorSnapshot, keys: Keys, rows: QuantisedRows) -> VectorSnapshot:
    if not len(keys):
        return snapshot
    blocks = snapshot.blocks.with_rows(keys, rows)
    dead = snapshot.dead
    if dead is not None:
        dead = np.concatenate((dead, np.zeros(len(keys), dtype=np.bool_)))
    index = snapshot.index.with_rows(keys, first=snapshot.blocks.count)
    lengths = snapshot.lengths.without(keys)
    return replace(snapshot, blocks=blocks, index=index, dead=dead, lengths=lengths)


def _compacted(snapshot: VectorSnapshot) -> VectorSnapshot:
    """Return the snapshot, rebuilt from its live rows if too many are dead."""
    dead = snapshot.rows_dead
    if dead < COMPACTED_MIN or dead * COMPACTED_SHARE < snapshot.blocks.count:
        return snapshot
    fresh = VectorSnapshot(Blocks(snapshot.blocks.dimensions), snapshot.kernels)
    live = ~_flags(snapshot)
    blocks, index = fresh.blocks, KeyIndex()
    for places, block, _ in snapshot.blocks.filled():
        keys, rows = block.rows(np.flatnonzero(live[places]))
        index = index.with_rows(keys, first=blocks.count)
        blocks = blocks.with_rows(keys, rows)
    return replace(fresh, blocks=blocks, index=index)


def _flags(snapshot: VectorSnapshot) -> Flags:
    if snapshot.dead is None:
        return np.zeros(snapshot.blocks.count, dtype=np.bool_)
    return snapshot.dead
