"""Sums of rows that are equal when the rows are, in whatever order they come."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from engram.storage.moving.rows import Row

_SUM_BYTES = 16


@dataclass(frozen=True, slots=True)
class Digest:
    """How many rows there are, and the sum of their hashes."""

    rows: int = 0
    sum: int = 0

    def including(self, rows: Iterable[Row]) -> Digest:
        """Return the digest of these rows and those before."""
        hashes = [_hash_of(row) for row in rows]
        total = (self.sum + sum(hashes)) % (1 << 8 * _SUM_BYTES)
        return Digest(self.rows + len(hashes), total)


def _hash_of(row: Row) -> int:
    sha = hashlib.sha256()
    for value in row:
        kind, data = _encoded(value)
        # With its kind and length before it, no value can pass for the end of another.
        sha.update(b"%c%d:" % (kind, len(data)))
        sha.update(data)
    return int.from_bytes(sha.digest()[:_SUM_BYTES])


def _encoded(value: object) -> tuple[bytes, bytes]:
    match value:
        case None:
            return b"n", b""
        case int():
            return b"i", b"%d" % value
        case float():
            return b"f", value.hex().encode()
        case str():
            return b"s", value.encode()
        case bytes():
            return b"b", value
        case _:
            raise TypeError(f"no column holds a {type(value).__name__}")
