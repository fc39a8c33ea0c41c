"""Vectors for stores too large to embed here: random directions, written into the file at once.

They crowd around centres as a model's do, but know nothing of the texts. So what is near a query in
them and what shares its words are different messages, which is the most that a search can find.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from engram.embedding.registry import ARCTIC, POTION, KnownModel
from engram.vectors.arrays import Floats
from engram.vectors.quantise import pack_blobs, quantise

CENTRES = 2_000
SPREAD = 1.5
BATCH = 10_000


class Directions:
    """A source of random vectors, the same on every run."""

    def __init__(self, dimensions: int, *, seed: int = 7) -> None:
        self._random = np.random.default_rng(seed)
        self._centres = self._random.standard_normal((CENTRES, dimensions), dtype=np.float32)

    def take(self, count: int) -> Floats:
        """Return the next vectors."""
        shape = (count, self._centres.shape[1])
        vectors = self._random.standard_normal(shape, dtype=np.float32)
        vectors *= SPREAD
        vectors += self._centres[self._random.integers(0, CENTRES, count)]
        return vectors


def plant_vectors(path: Path) -> int:
    """Give every message of a closed store one deep vector; return how many those are.

    The store must have been filled without an embedder.
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        (organization,) = connection.execute("SELECT organization_id FROM meta").fetchone()
        deep = _add_embedder(connection, organization, "deep", ARCTIC)
        # Where all messages have deep vectors, the instant ones are gone but not their embedder.
        _add_embedder(connection, organization, "instant", POTION)
        keys = [key for (key,) in connection.execute("SELECT key FROM message ORDER BY key")]
        connection.executemany(
            "INSERT INTO vector (seq, organization_id, embedder, key, start_character, "
            "end_character, content) SELECT ?, ?, ?, key, 0, characters, ? "
            "FROM message WHERE key = ?",
            (
                (seq, organization, deep, blob, key)
                for seq, (key, blob) in enumerate(_with_blobs(keys), start=1)
            ),
        )
        connection.execute("UPDATE vector_state SET seq = ?", (len(keys),))
        connection.execute("UPDATE counters SET vectors = ?, pending = 0", (len(keys),))
    return len(keys)


def _add_embedder(
    connection: sqlite3.Connection, organization: int, role: str, model: KnownModel
) -> int:
    (number,) = connection.execute(
        "INSERT INTO embedder (organization_id, role, identity) VALUES (?, ?, ?) RETURNING number",
        (organization, role, model.identity.as_text()),
    ).fetchone()
    return number


def _with_blobs(keys: list[int]) -> Iterator[tuple[int, bytes]]:
    dimensions = ARCTIC.identity.dimensions
    directions = Directions(dimensions)
    for start in range(0, len(keys), BATCH):
        some = keys[start : start + BATCH]
        rows = quantise(directions.take(len(some)), dimensions=dimensions)
        yield from zip(some, pack_blobs(rows), strict=True)
