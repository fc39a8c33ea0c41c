"""The vectors of a big organisation: an index finds what is near, and that is compared exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from engram.model.vectors import Tier
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.storage.vectors.embedders import StoredEmbedder
from engram.vectors.arrays import Cosines, Keys, Query, distinct
from engram.vectors.matrix import VectorMatrix
from engram.vectors.neighbours import Compared
from engram.vectors.quantise import restore, unpack_blobs
from engram.vectors.snapshot import Allowed, Asked, KeyRanges, VectorSnapshot

_SQL = load_queries("postgres/near.sql")

TABLES: dict[Tier, str] = {"instant": "instant_vector", "deep": "vector"}

EXACT_ROWS_MAX = 20_000
"""Where conditions leave no more passages than this, all of them are compared."""

_WANTED_PER_KEY = 3
"""How many passages are asked for each message: the order of the index is not exact, and a message
may have several."""

_WANTED_MAX = 1_000
"""The widest view that the index offers."""

_REACH = 2
"""Neighbours on each side of a message."""


class NearVectors:
    """The vectors of one embedder, most of them in the database and the newest in memory."""

    def __init__(
        self, tx: Transaction, embedder: StoredEmbedder, *, tier: Tier, newest: VectorSnapshot
    ) -> None:
        self._tx = tx
        self._embedder = embedder
        self._tier: Tier = tier
        self._newest = newest

    @property
    def rows_live(self) -> int:
        return 1

    def prepare(self, query: Query | Asked) -> Asked:
        return self._newest.prepare(query)

    def search(
        self, query: Query | Asked, k: int, *, allowed: Allowed | None = None
    ) -> tuple[Keys, Cosines]:
        asked = self.prepare(query)
        ranges = None if allowed is None else _multirange(allowed)
        if ranges is not None and self._count(ranges) <= EXACT_ROWS_MAX:
            found = self._snapshot("vectors_allowed", allowed=ranges)
            return found.search(_anew(asked), k)
        newest, _ = self._newest.search(asked, k, allowed=allowed)
        near = self._nearest(asked, k, ranges)
        return self._of(distinct(np.concatenate((near, newest)))).search(_anew(asked), k)

    def compare_messages(self, query: Query | Asked, keys: Keys) -> Compared:
        around = keys[:, np.newaxis] + np.arange(-_REACH, _REACH + 1)
        vectors = self._of(distinct(around.reshape(-1)))
        return vectors.compare_messages(_anew(self.prepare(query)), keys)

    def _nearest(self, asked: Asked, k: int, ranges: str | None) -> Keys:
        """Return the messages of the passages that the index finds nearest."""
        wanted = min(_WANTED_PER_KEY * k, _WANTED_MAX)
        self._ask("look_wide", wanted=wanted)
        statement = _SQL["nearest"].replace(
            "/*conditions*/", "" if ranges is None else _SQL["is_allowed"]
        )
        rows = self._tx.execute(
            fill_in(
                statement, embedder=self._embedder.number, dimensions=self._embedder.dimensions
            ),
            query=halfvec(restore(asked.rows)[0]),
            wanted=wanted,
            **({} if ranges is None else {"allowed": ranges}),
        )
        return np.fromiter((key for (key,) in rows), dtype=np.int64)

    def _count(self, ranges: str) -> int:
        limit = EXACT_ROWS_MAX + 1
        return self._ask("count_allowed", allowed=ranges, limit=limit)[0][0]

    def _of(self, keys: Keys) -> VectorSnapshot:
        return self._snapshot("vectors_of", keys=json.dumps(keys.tolist()))

    def _snapshot(self, name: str, **values: Any) -> VectorSnapshot:
        rows = self._ask(name, **values)
        dimensions = self._embedder.dimensions
        matrix = VectorMatrix(dimensions)
        blobs = [content for _, content in rows]
        matrix.add([key for key, _ in rows], unpack_blobs(blobs, dimensions=dimensions))
        return matrix.snapshot

    def _ask(self, name: str, **values: Any) -> list[Any]:
        statement = fill_in(_SQL[name], table=TABLES[self._tier])
        return self._tx.execute(statement, embedder=self._embedder.number, **values).fetchall()


def fill_in(statement: str, **names: str | int) -> str:
    """Put numbers and names of this program's own into a statement."""
    for name, value in names.items():
        statement = statement.replace(f"/*{name}*/", str(value))
    return statement


def halfvec(vector: Cosines | np.ndarray[Any, Any]) -> str:
    """Return a vector as PostgreSQL reads it."""
    return "[" + ",".join(f"{value:.5g}" for value in vector.tolist()) + "]"


def _anew(asked: Asked) -> Asked:
    """Return a query for other vectors than those it was prepared for."""
    return replace(asked, every=[])


def _multirange(allowed: Allowed) -> str:
    ranges = allowed if isinstance(allowed, KeyRanges) else KeyRanges.of_keys(allowed)
    pairs = zip(ranges.firsts.tolist(), ranges.lasts.tolist(), strict=True)
    return "{" + ",".join(f"[{first},{last}]" for first, last in pairs) + "}"
