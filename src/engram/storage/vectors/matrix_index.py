"""Compare the vectors of organisations in memory."""

from __future__ import annotations

from engram.model.vectors import Tier
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.embedders import Embedders, StoredEmbedder
from engram.storage.vectors.index import ComparedVectors
from engram.storage.vectors.source import StoredVectors
from engram.vectors.budgeted import BudgetedMatrices


class MatrixIndex:
    """All vectors in memory, read as they change."""

    def __init__(self, matrices: BudgetedMatrices) -> None:
        self._matrices = matrices

    def current(
        self, tx: Transaction, embedders: Embedders, *, tier: Tier, embedder: StoredEmbedder
    ) -> ComparedVectors:
        source = StoredVectors(tx, embedders, tier=tier, embedder=embedder)
        return self._matrices.current((tx.tenant.id, embedder.number), source)

    async def tend(self, tenant: Tenant) -> int:  # noqa: ARG002 nothing is kept of it
        return 0
