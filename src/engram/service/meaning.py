"""How the search by meaning fares, for those who watch over a server."""

from __future__ import annotations

from contextlib import suppress

from engram.embedding.port import EMBEDDING_FAILURES, EmbedderIdentity
from engram.embedding.tiers import Tiers
from engram.model.vectors import Tier
from engram.search.question import EMBEDDER_CHANGED, missing_tiers
from engram.storage.organization import OrganizationStore


class Meaning:
    """What the embedders of this process can do now."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return what searches have to do without."""
        working: list[Tier] = [each.tier for each in self._tiers.all if each.failure is None]
        return missing_tiers(self._tiers, working)

    async def probe(self) -> None:
        """Find out whether the embedders can be asked; those that cannot remember why."""
        for embedder in self._tiers.all:
            with suppress(*EMBEDDING_FAILURES):
                await embedder.probe()

    async def embedder_name(self) -> str | None:
        """Return the name of the deep embedder; None without one, or while it cannot be asked."""
        identity = await self._identity()
        return None if identity is None else identity.name

    async def changed(self, store: OrganizationStore) -> tuple[str, ...]:
        """Say when an organisation's vectors are of another embedder."""
        identity = await self._identity()
        stored = (await store.identities()).deep
        if identity is None or stored is None or stored == identity.as_text():
            return ()
        return (EMBEDDER_CHANGED,)

    async def _identity(self) -> EmbedderIdentity | None:
        deep = self._tiers.deep
        if deep is None:
            return None
        if deep.failure is not None:
            return deep.known  # Asking again would keep the caller waiting.
        try:
            return await deep.identify()
        except EMBEDDING_FAILURES:
            return None
