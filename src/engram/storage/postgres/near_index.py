"""Search big organisations through their index of neighbours, and all others in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from engram.model.vectors import Tier
from engram.storage.postgres.pool import Driver
from engram.storage.tenant import Tenant, Transaction
from engram.storage.threads import WorkerThreads
from engram.storage.vectors.embedders import Embedders, StoredEmbedder
from engram.storage.vectors.index import ComparedVectors
from engram.storage.vectors.source import StoredVectors
from engram.vectors.budgeted import BudgetedMatrices, VectorChanges, VectorSource


class NearIndex:
    """The vectors of a PostgreSQL installation."""

    def __init__(
        self, matrices: BudgetedMatrices, *, connect: Callable[[], Driver], threads: WorkerThreads
    ) -> None:
        self._matrices = matrices
        self._connect = connect
        self._threads = threads

    def current(
        self, tx: Transaction, embedders: Embedders, *, tier: Tier, embedder: StoredEmbedder
    ) -> ComparedVectors:
        source = StoredVectors(tx, embedders, tier=tier, embedder=embedder)
        if embedder.near_upto is None:
            return self._matrices.current((tx.tenant.id, embedder.number), source)
        from engram.storage.postgres.near_vectors import NearVectors  # noqa: PLC0415 brings NumPy

        name = (tx.tenant.id, embedder.number, embedder.near_upto)
        newest = self._matrices.current(name, _Newest(source, embedder.near_upto))
        return NearVectors(tx, embedder, tier=tier, newest=newest)

    def forget(self) -> None:
        """Remember no vectors any more."""
        self._matrices.clear()

    async def tend(self, tenant: Tenant) -> int:
        """Give a big organisation its partition, or bring that up to date."""
        from engram.storage.postgres import near_filling  # noqa: PLC0415 brings NumPy

        find = near_filling.find_lagging
        lagging = await tenant.read(find)
        if lagging is None:
            return 0
        move = partial(near_filling.move, self._connect, tenant, lagging)
        moved = await self._threads.run(move)
        if moved is None:
            return 0
        note = partial(near_filling.note_moved, lagging=lagging)
        await tenant.write(note)
        return moved

    async def drop(self, organization: int) -> None:
        """Remove what the database kept for searches of an organisation that was deleted."""
        from engram.storage.postgres import near_filling  # noqa: PLC0415 brings NumPy

        await self._threads.run(partial(near_filling.drop_partition, self._connect, organization))


@dataclass(frozen=True, slots=True)
class _Newest:
    """What a source has told after some change."""

    source: VectorSource
    after: int

    @property
    def dimensions(self) -> int:
        return self.source.dimensions

    def read_since(self, seq: int) -> VectorChanges:
        return self.source.read_since(max(seq, self.after))
