"""Which messages the entries of a tail or log belong to: entries are stored message after message."""

from __future__ import annotations

import struct
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from engram.errors import StoreCorruptError
from engram.storage.postings.index import WORDS_LOST
from engram.vectors.arrays import run_lengths, run_starts

Keys = NDArray[np.int64]

MESSAGES = np.dtype([("key", "<i8"), ("entries", "<u4")])
"""As `pack_owner` writes them."""


@contextmanager
def damage_reported() -> Generator[None]:
    """Raise StoreCorruptError for bytes that cannot be unpacked."""
    try:
        yield
    except (zstandard.ZstdError, struct.error, ValueError) as exc:
        raise StoreCorruptError(WORDS_LOST) from exc


class Owners(NamedTuple):
    """The messages of entries, in the order of these."""

    keys: Keys
    ends: Keys
    """At which entry each message ends."""

    @classmethod
    def of(cls, packed: bytes) -> Owners:
        """Return the messages packed by `pack_owner`, one after the other.

        Raises:
            StoreCorruptError: the bytes are damaged.
        """
        with damage_reported():
            messages = np.frombuffer(packed, dtype=MESSAGES)
        return cls(messages["key"].astype(np.int64), messages["entries"].astype(np.int64).cumsum())

    @property
    def entries(self) -> int:
        """Return how many entries all messages have."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def followed_by(self, later: Owners) -> Owners:
        """Return the messages of these entries and of those after them."""
        return Owners(
            np.concatenate((self.keys, later.keys)),
            np.concatenate((self.ends, later.ends + self.entries)),
        )

    def postings(self, places: Keys) -> tuple[Keys, Keys]:
        """Return keys and counts of the messages that have the entries at these ascending places."""
        return self.counted(self.ends.searchsorted(places, side="right"))

    def counted(self, owners: Keys | NDArray[np.int32]) -> tuple[Keys, Keys]:
        """Return keys and counts of messages, given their place among all for each entry, ascending."""
        starts = run_starts(owners)
        return self.keys.take(owners.take(starts)), run_lengths(starts, len(owners))

    def grouped(self, entries: Keys, places: Keys) -> tuple[Keys, Keys, Keys]:
        """Return the postings of some entries, given with their ascending places: entry, key and count.

        The entries ascend, and those of an entry are in the order of the messages.
        """
        if not len(entries):
            return entries, entries, entries
        owners = self.ends.searchsorted(places, side="right")
        # One number for each entry and message, in the order of both.
        ordered = np.sort(entries * len(self.keys) + owners)
        starts = run_starts(ordered)
        postings = ordered.take(starts)
        return (
            postings // len(self.keys),
            self.keys.take(postings % len(self.keys)),
            run_lengths(starts, len(ordered)),
        )
