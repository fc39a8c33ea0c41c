"""Search big organisations through their index of neighbours, and all others in memory."""

from __future__ import annotations

from dataclasses import dataclass

from engram.model.vectors import Tier
from engram.storage.tables.database import Connection
from engram.storage.tables.embedders import Embedders, StoredEmbedder
from engram.storage.tables.tenant import Tenant
from engram.storage.tables.vector_index import ComparedVectors
from engram.storage.tables.vector_source import StoredVectors
from engram.vectors.budgeted import BudgetedMatrices
from engram.vectors.source import VectorChanges, VectorSource


class NearIndex:
    """The vectors of a PostgreSQL installation."""

    def __init__(self, matrices: BudgetedMatrices) -> None:
        self._matrices = matrices

    def current(
        self,
        connection: Connection,
        tenant: Tenant,
        embedders: Embedders,
        *,
        tier: Tier,
        embedder: StoredEmbedder,
    ) -> ComparedVectors:
        source = StoredVectors(connection, tenant, embedders, tier=tier, embedder=embedder)
        if embedder.near_upto is None:
            return self._matrices.current((tenant.id, embedder.number), source)
        from engram.storage.postgres.near_vectors import NearVectors  # noqa: PLC0415 brings NumPy

        name = (tenant.id, embedder.number, embedder.near_upto)
        newest = self._matrices.current(name, _Newest(source, embedder.near_upto))
        return NearVectors(connection, tenant, embedder, tier=tier, newest=newest)


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
