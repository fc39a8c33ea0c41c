"""Where the vectors of an organisation are compared with a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from engram.model.vectors import Tier
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.embedders import Embedders, StoredEmbedder

if TYPE_CHECKING:
    from engram.vectors.arrays import Cosines, Keys, Query
    from engram.vectors.neighbours import Compared
    from engram.vectors.snapshot import Allowed, Asked


class ComparedVectors(Protocol):
    """The vectors of one embedder in one transaction; see `engram.vectors.snapshot`."""

    @property
    def rows_live(self) -> int:
        """How many there are; a big organisation may say 1 for any."""
        ...

    def prepare(self, query: Query | Asked) -> Asked:
        """Return a query as it is compared with these vectors."""
        ...

    def search(
        self, query: Query | Asked, k: int, *, allowed: Allowed | None = None
    ) -> tuple[Keys, Cosines]:
        """Return the `k` keys nearest to a query with their cosines, best first."""
        ...

    def compare_messages(self, query: Query | Asked, keys: Keys) -> Compared:
        """Return the cosines of each message by itself, and in the company of its neighbours."""
        ...


class VectorIndex(Protocol):
    """The vectors of organisations, wherever they are compared."""

    def current(
        self, tx: Transaction, embedders: Embedders, *, tier: Tier, embedder: StoredEmbedder
    ) -> ComparedVectors:
        """Return all vectors of an embedder that the transaction sees, or more."""
        ...

    async def tend(self, tenant: Tenant) -> int:
        """Bring what the database keeps of them for searches up to date; return how many that was."""
        ...
