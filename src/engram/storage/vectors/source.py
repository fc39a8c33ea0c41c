"""Tells what changed among an organisation's vectors, for the matrices in memory."""

from __future__ import annotations

from itertools import chain
from typing import Any

from engram.errors import StoreCorruptError
from engram.model.vectors import Tier
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.storage.vectors.embedders import Embedders, StoredEmbedder
from engram.vectors.budgeted import VectorChanges

_SQL = load_queries("vectors/vectors.sql")
_SINCE: dict[Tier, str] = {"instant": "instant_vectors_since", "deep": "vectors_since"}

STATE_MISSING = "the state of the vectors is missing: run `engram doctor --repair`"

ROWS_AT_ONCE = 20_000
"""About 8 MB of vectors."""


class StoredVectors:
    """The `VectorSource` of one tier, read in the transaction that a connection is in."""

    def __init__(
        self, tx: Transaction, embedders: Embedders, *, tier: Tier, embedder: StoredEmbedder
    ) -> None:
        self._tx = tx
        self._embedders = embedders
        self._tier: Tier = tier
        self._embedder = embedder

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    def read_since(self, seq: int) -> VectorChanges:
        # Another thread may have read a later moment than this transaction sees.
        state = self._embedders.state
        if state is None:
            raise StoreCorruptError(STATE_MISSING)
        newest, forgotten = max(seq, state.seq), state.forgotten
        if seq == newest:
            return VectorChanges(
                removed=(), keys=(), blobs=(), seq=seq, newest=newest, forgotten=forgotten
            )
        rows = self._ask(
            _SINCE[self._tier], seq=seq, embedder=self._embedder.number, limit=ROWS_AT_ONCE
        )
        upto = rows[-1][0] if len(rows) == ROWS_AT_ONCE else newest
        return VectorChanges(
            removed=self._removed(seq, upto) if seq else (),
            keys=[key for _, key, _ in rows],
            blobs=[content for _, _, content in rows],
            seq=upto,
            newest=newest,
            forgotten=forgotten,
        )

    def _removed(self, seq: int, upto: int) -> list[int]:
        """Return the keys whose vectors went away after `seq`, up to `upto`."""
        ranges = self._ask("removed_since", seq=seq, upto=upto)
        removed = list(chain.from_iterable(range(first, last + 1) for first, last in ranges))
        deep = self._embedders.deep
        if self._tier == "instant" and deep is not None:
            rows = self._ask("replaced_since", seq=seq, upto=upto, deep=deep.number)
            removed += [key for (key,) in rows]
        return removed

    def _ask(self, name: str, **values: int) -> list[Any]:
        return self._tx.execute(_SQL[name], **values).fetchall()
