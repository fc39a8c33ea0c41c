"""LRU cache of vector matrices within a memory budget, kept up to date with the store.

NumPy is imported with the first matrix and not before: a process that never searches by meaning does
not pay for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from engram.vectors.matrix import VectorMatrix
    from engram.vectors.snapshot import VectorSnapshot


_ENTRY_BYTES = 4_096
"""Overhead of a matrix beside its arrays, so that empty ones count towards the budget too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorChanges:
    """A batch of the store's change log of vectors; positions in the log are `seq` numbers."""

    removed: Sequence[int]
    """Keys whose earlier rows are removed. Such a key may have new rows in `keys`."""
    keys: Sequence[int]
    """The key of each added row; rows of one key may arrive in several batches."""
    blobs: Sequence[bytes]
    """The added rows as `engram.vectors.quantise` serialized them."""
    seq: int
    """The batch contains all changes up to here."""
    newest: int
    """The last change in the store at the time of reading."""
    forgotten: int
    """Removals up to here have been pruned from the log."""


class VectorSource(Protocol):
    """The change log of the vectors of one organisation and one model."""

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def read_since(self, seq: int) -> VectorChanges:
        """Return the next batch of changes after `seq`; 0 is before all of them.

        A batch is read in one transaction: it contains no row that a removal has deleted. It may be
        cut to stay small; it then ends between two values of `seq`, beyond the one asked for.
        """
        ...


@dataclass(slots=True)
class _Entry:
    """A cached matrix and its position in the change log."""

    matrix: VectorMatrix
    seq: int = 0
    begun_at: int = 0
    """The newest change when reading began: rows removed before that were never read."""
    updating: Lock = field(default_factory=Lock)


class MatrixCache:
    """LRU cache of matrices by name; a name stands for one organisation and one model.

    Safe for concurrent use: of the threads that ask for the same name, one reads the changes and the
    others wait for it.
    """

    def __init__(self, *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def bytes(self) -> int:
        """Return the memory of all cached matrices."""
        with self._lock:
            return self._bytes()

    def current(self, name: Hashable, source: VectorSource) -> VectorSnapshot:
        """Return a snapshot with at least all vectors that `source` had at the time of the call.

        A matrix larger than the whole budget stays alone in the cache until another is requested.
        """
        entry = self._entry(name, source)
        with entry.updating:
            seq = entry.seq
            _update(entry, source)
            snapshot = entry.matrix.snapshot
            has_grown = not seq or entry.seq != seq
        if has_grown:
            self._evict(name)
        return snapshot

    def position(self, name: Hashable) -> int:
        """Return up to which change a matrix is known; 0 if it is not."""
        entry = self._entries.get(name)
        return 0 if entry is None else entry.seq

    def forget(self, name: Hashable) -> None:
        """Drop a matrix from the cache if it is there."""
        with self._lock:
            self._entries.pop(name, None)

    def clear(self) -> None:
        """Drop all matrices."""
        with self._lock:
            self._entries.clear()

    def _entry(self, name: Hashable, source: VectorSource) -> _Entry:
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                entry = self._entries[name] = _Entry(_empty_matrix(source))
            self._entries.move_to_end(name)
            return entry

    def _evict(self, name: Hashable) -> None:
        """Drop matrices other than `name`, least recently used first, down to the budget."""
        with self._lock:
            others = [other for other in self._entries if other != name]
            while others and self._bytes() > self._bytes_max:
                del self._entries[others.pop(0)]

    def _bytes(self) -> int:
        return sum(entry.matrix.bytes + _ENTRY_BYTES for entry in self._entries.values())


def _update(entry: _Entry, source: VectorSource) -> None:
    """Apply all new changes; those applied before a failure stay valid."""
    while True:
        changes = source.read_since(entry.seq)
        if not entry.seq:
            entry.begun_at = changes.newest
        if changes.forgotten > max(entry.seq, entry.begun_at):
            # The log no longer has every removal since our position, so everything is read again.
            entry.matrix, entry.seq = _empty_matrix(source), 0
            continue
        _apply(entry.matrix, changes)
        entry.seq = changes.seq
        if changes.seq == changes.newest:
            return


def _apply(matrix: VectorMatrix, changes: VectorChanges) -> None:
    if not changes.removed and not changes.keys:
        return
    from engram.vectors.quantise import unpack_blobs  # noqa: PLC0415 imports NumPy

    rows = unpack_blobs(changes.blobs, dimensions=matrix.dimensions)
    matrix.change(removed=changes.removed, keys=changes.keys, rows=rows)


def _empty_matrix(source: VectorSource) -> VectorMatrix:
    from engram.vectors.matrix import VectorMatrix  # noqa: PLC0415 imports NumPy

    return VectorMatrix(source.dimensions)
