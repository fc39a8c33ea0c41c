"""What a store tells about its vectors, so that every process searches the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorChanges:
    """What happened between two moments of a store, both given as the `seq` of its vectors."""

    removed: Sequence[int]
    """Keys whose earlier rows are gone. Such a key may have new rows in `keys`."""
    keys: Sequence[int]
    """The owner of each added row; rows of one key may arrive in several changes."""
    blobs: Sequence[bytes]
    """The added rows as `engram.vectors.quantise` packed them."""
    seq: int
    """All changes up to here have been told."""
    newest: int
    """The last change that the store had at the time of reading."""
    forgotten: int
    """Removals up to here are no longer told, since the log of them is kept short."""


class VectorSource(Protocol):
    """The vectors of one organisation and one model."""

    @property
    def dimensions(self) -> int:
        """How long a vector is."""
        ...

    def read_since(self, seq: int) -> VectorChanges:
        """Return the next changes after `seq`, where 0 is before all of them.

        One answer is read in one transaction: it holds no row that any removal has taken away. It may
        be cut to stay small; it then ends between two values of `seq`, beyond the one asked for.
        """
        ...
