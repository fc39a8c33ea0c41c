"""Keeps the matrices last searched, under a budget of memory.

NumPy is imported with the first matrix and not before: a process that never searches by meaning
does not pay for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from engram.vectors.source import VectorChanges, VectorSource

if TYPE_CHECKING:
    from engram.vectors.matrix import VectorMatrix
    from engram.vectors.snapshot import VectorSnapshot


_HELD_BYTES = 4_096
"""What a matrix takes beside its arrays, so that empty ones are not held without end."""


@dataclass(slots=True)
class _Held:
    """A matrix and how far it has followed its source."""

    matrix: VectorMatrix
    seq: int = 0
    begun_at: int = 0
    """The newest change when reading began: rows removed before were never read."""
    following: Lock = field(default_factory=Lock)


class BudgetedMatrices:
    """Matrices by name; those not searched for longest give way to others.

    A name stands for one organisation and one model. Threads may ask at once; those that ask for
    the same name wait for one of them to read what is new.
    """

    def __init__(self, *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._changing = Lock()
        self._held: OrderedDict[Hashable, _Held] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def bytes(self) -> int:
        """Return the memory of all matrices held."""
        with self._changing:
            return self._bytes()

    def current(self, name: Hashable, source: VectorSource) -> VectorSnapshot:
        """Return all vectors that `source` had when this was called, or more.

        A matrix larger than the whole budget is held alone until another is asked for.
        """
        held = self._hold(name, source)
        with held.following:
            seq = held.seq
            _follow(held, source)
            snapshot = held.matrix.snapshot
            has_grown = not seq or held.seq != seq
        if has_grown:
            self._make_room(name)
        return snapshot

    def forget(self, name: Hashable) -> None:
        """Give the memory of a matrix back, if it is held."""
        with self._changing:
            self._held.pop(name, None)

    def clear(self) -> None:
        """Give the memory of all matrices back."""
        with self._changing:
            self._held.clear()

    def _hold(self, name: Hashable, source: VectorSource) -> _Held:
        with self._changing:
            held = self._held.get(name)
            if held is None:
                held = self._held[name] = _Held(_empty_matrix(source))
            self._held.move_to_end(name)
            return held

    def _make_room(self, name: Hashable) -> None:
        """Drop the others, longest unused first, until the budget holds or none is left."""
        with self._changing:
            others = [other for other in self._held if other != name]
            while others and self._bytes() > self._bytes_max:
                del self._held[others.pop(0)]

    def _bytes(self) -> int:
        return sum(held.matrix.bytes + _HELD_BYTES for held in self._held.values())


def _follow(held: _Held, source: VectorSource) -> None:
    """Apply everything new; what was applied before a failure stays valid."""
    while True:
        changes = source.read_since(held.seq)
        if not held.seq:
            held.begun_at = changes.newest
        if changes.forgotten > max(held.seq, held.begun_at):
            # A row that is held may have been removed unseen, so everything is read again.
            held.matrix, held.seq = _empty_matrix(source), 0
            continue
        _apply(held.matrix, changes)
        held.seq = changes.seq
        if changes.seq == changes.newest:
            return


def _apply(matrix: VectorMatrix, changes: VectorChanges) -> None:
    if not changes.removed and not changes.keys:
        return
    from engram.vectors.quantise import unpack_blobs  # noqa: PLC0415 brings NumPy

    rows = unpack_blobs(changes.blobs, dimensions=matrix.dimensions)
    matrix.change(removed=changes.removed, keys=changes.keys, rows=rows)


def _empty_matrix(source: VectorSource) -> VectorMatrix:
    from engram.vectors.matrix import VectorMatrix  # noqa: PLC0415 brings NumPy

    return VectorMatrix(source.dimensions)
