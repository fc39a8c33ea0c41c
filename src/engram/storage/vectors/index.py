"""Where stored vectors are compared with a query: the port, and its implementation in memory."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from engram.errors import StoreCorruptError
from engram.model.vectors import Tier
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.embedders import Embedders, StoredEmbedder
from engram.vectors.matrix_cache import MatrixCache, VectorChanges

if TYPE_CHECKING:
    from engram.vectors.arrays import Cosines, Keys, Query
    from engram.vectors.neighbours import Compared
    from engram.vectors.snapshot import Allowed, Asked

_SQL = load_queries("vectors/vectors.sql")
_SINCE: dict[Tier, str] = {"instant": "instant_vectors_since", "deep": "vectors_since"}

STATE_MISSING = "the state of the vectors is missing: run `engram doctor --repair`"

ROWS_AT_ONCE = 20_000
"""About 8 MB of vectors."""


class ComparedVectors(Protocol):
    """The vectors of one embedder in one transaction; see `engram.vectors.snapshot`."""

    @property
    def rows_live(self) -> int:
        """How many there are; an index in the database returns 1 without counting."""
        ...

    def prepare(self, query: Query | Asked) -> Asked:
        """Quantise a query for these vectors."""
        ...

    def search(
        self, query: Query | Asked, k: int, *, allowed: Allowed | None = None
    ) -> tuple[Keys, Cosines]:
        """Return the `k` keys nearest to a query with their cosines, best first."""
        ...

    def compare_messages(self, query: Query | Asked, keys: Keys) -> Compared:
        """Return the cosines of each message alone, and together with its neighbours."""
        ...


class VectorIndex(Protocol):
    """The vectors of organisations, compared in memory or by the database."""

    def current(
        self, tx: Transaction, embedders: Embedders, *, tier: Tier, embedder: StoredEmbedder
    ) -> ComparedVectors:
        """Return at least all vectors of an embedder that the transaction sees."""
        ...

    async def tend(self, tenant: Tenant) -> int:
        """Update an index that the database has for them; return how many vectors were added."""
        ...


class StoredVectors:
    """The `VectorSource` of one tier in a transaction: the change log for matrices in memory."""

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
        # Another thread may have read a later snapshot than this transaction sees.
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
        """Return the keys whose vectors were removed after `seq`, up to `upto`."""
        ranges = self._ask("removed_since", seq=seq, upto=upto)
        removed = list(chain.from_iterable(range(first, last + 1) for first, last in ranges))
        deep = self._embedders.deep
        if self._tier == "instant" and deep is not None:
            rows = self._ask("replaced_since", seq=seq, upto=upto, deep=deep.number)
            removed += [key for (key,) in rows]
        return removed

    def _ask(self, name: str, **values: int) -> list[Any]:
        return self._tx.execute(_SQL[name], **values).fetchall()


class MatrixIndex:
    """The `VectorIndex` in memory, kept up to date by the change log."""

    def __init__(self, matrices: MatrixCache) -> None:
        self._matrices = matrices

    def current(
        self, tx: Transaction, embedders: Embedders, *, tier: Tier, embedder: StoredEmbedder
    ) -> ComparedVectors:
        source = StoredVectors(tx, embedders, tier=tier, embedder=embedder)
        return self._matrices.current((tx.tenant.id, embedder.number), source)

    async def tend(self, tenant: Tenant) -> int:  # noqa: ARG002 there is no index in the database
        return 0
