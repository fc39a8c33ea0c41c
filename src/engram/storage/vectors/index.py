"""Where stored vectors are compared with a query: the port, and its implementation in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from engram.errors import StoreCorruptError
from engram.model.vectors import QueryVector, Tier
from engram.storage.rows.database import Cursor
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

_Statement: TypeAlias = tuple[str, Mapping[str, Any]]
_END = 2**62
"""After every change of the log."""

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

    def expect(self, tx: Transaction, asked: Iterable[QueryVector]) -> None:
        """Prepare for `current` of the vectors that queries will be compared with."""
        ...

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
        added, *gone = [self._tx.execute(text, **values) for text, values in self._statements(seq)]
        rows = added.fetchall()
        upto = newest
        if len(rows) == ROWS_AT_ONCE:
            upto = rows[-1][0]
            asked = self._statements_of_removals(seq, upto)
            gone = [self._tx.execute(text, **values) for text, values in asked]
        return VectorChanges(
            removed=_removed(gone) if seq else (),
            keys=[key for _, key, _ in rows],
            blobs=[content for _, _, content in rows],
            seq=upto,
            newest=newest,
            forgotten=forgotten,
        )

    def expect(self, seq: int) -> None:
        """Prepare for the next batch of changes after `seq`."""
        for text, values in self._statements(seq):
            self._tx.ask_ahead(text, **values)

    def _statements(self, seq: int) -> Iterator[_Statement]:
        """Yield what reads the changes after `seq`, all of which are asked for at once."""
        number = self._embedder.number
        yield _SQL[_SINCE[self._tier]], {"seq": seq, "embedder": number, "limit": ROWS_AT_ONCE}
        if seq:
            yield from self._statements_of_removals(seq, _END)

    def _statements_of_removals(self, seq: int, upto: int) -> Iterator[_Statement]:
        values = {"seq": seq, "upto": upto}
        yield _SQL["removed_since"], values
        deep = self._embedders.deep
        if self._tier == "instant" and deep is not None:
            yield _SQL["replaced_since"], {**values, "deep": deep.number}


def _removed(answers: Sequence[Cursor]) -> list[int]:
    """Return the keys whose vectors were removed, given the ranges removed and the keys replaced."""
    ranges, *replaced = answers
    removed = list(chain.from_iterable(range(first, last + 1) for first, last in ranges))
    return removed + [key for rows in replaced for (key,) in rows]


def expect_changes(tx: Transaction, matrices: MatrixCache, asked: Iterable[QueryVector]) -> None:
    """Prepare for the changes of matrices, if the embedders are those that were read last."""
    embedders: Embedders = tx.tenant.last_embedders.value or Embedders()
    for query in asked:
        embedder = embedders.matching(query.tier, query.identity)
        if embedder is None or embedder.near_upto is not None:
            continue
        seq = matrices.position((tx.tenant.id, embedder.number))
        if seq:
            StoredVectors(tx, embedders, tier=query.tier, embedder=embedder).expect(seq)


class MatrixIndex:
    """The `VectorIndex` in memory, kept up to date by the change log."""

    def __init__(self, matrices: MatrixCache) -> None:
        self._matrices = matrices

    def expect(self, tx: Transaction, asked: Iterable[QueryVector]) -> None:
        """Do nothing: a file answers at once."""

    def current(
        self, tx: Transaction, embedders: Embedders, *, tier: Tier, embedder: StoredEmbedder
    ) -> ComparedVectors:
        source = StoredVectors(tx, embedders, tier=tier, embedder=embedder)
        return self._matrices.current((tx.tenant.id, embedder.number), source)

    async def tend(self, tenant: Tenant) -> int:  # noqa: ARG002 there is no index in the database
        return 0
