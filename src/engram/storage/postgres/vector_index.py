"""Vectors of organisations: compared in memory, or by an HNSW index of the database for big ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from engram.model.vectors import QueryVector, Tier
from engram.storage.postgres.connection import Driver
from engram.storage.tenant import Tenant, Transaction
from engram.storage.threads import WorkerThreads
from engram.storage.vectors.embedders import Embedders, StoredEmbedder
from engram.storage.vectors.index import ComparedVectors, StoredVectors, expect_changes
from engram.vectors.matrix_cache import MatrixCache, VectorChanges, VectorSource


class PostgresVectorIndex:
    """The `VectorIndex`: an HNSW index of the database for big organisations, memory for others."""

    def __init__(
        self, matrices: MatrixCache, *, connect: Callable[[], Driver], threads: WorkerThreads
    ) -> None:
        self._matrices = matrices
        self._connect = connect
        self._threads = threads

    def expect(self, tx: Transaction, asked: Iterable[QueryVector]) -> None:
        expect_changes(tx, self._matrices, asked)

    def current(
        self, tx: Transaction, embedders: Embedders, *, tier: Tier, embedder: StoredEmbedder
    ) -> ComparedVectors:
        source = StoredVectors(tx, embedders, tier=tier, embedder=embedder)
        if embedder.near_upto is None:
            return self._matrices.current((tx.tenant.id, embedder.number), source)
        from engram.storage.postgres.hnsw import HnswVectors  # noqa: PLC0415 brings NumPy

        name = (tx.tenant.id, embedder.number, embedder.near_upto)
        newest = self._matrices.current(name, _Newest(source, embedder.near_upto))
        return HnswVectors(tx, embedder, tier=tier, newest=newest)

    def forget(self) -> None:
        """Drop the vectors in memory."""
        self._matrices.clear()

    async def tend(self, tenant: Tenant) -> int:
        from engram.storage.postgres.hnsw import update_partition  # noqa: PLC0415 brings NumPy

        return await update_partition(tenant, self._connect, self._threads)

    async def drop(self, organization: int) -> None:
        """Remove the partition of an organisation that was deleted."""
        from engram.storage.postgres import hnsw  # noqa: PLC0415 brings NumPy

        await self._threads.run(partial(hnsw.drop_partition, self._connect, organization))


@dataclass(frozen=True, slots=True)
class _Newest:
    """The changes of a source after some `seq`."""

    source: VectorSource
    after: int

    @property
    def dimensions(self) -> int:
        return self.source.dimensions

    def read_since(self, seq: int) -> VectorChanges:
        return self.source.read_since(max(seq, self.after))
