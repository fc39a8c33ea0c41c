"""Embed queries with every tier of embedders, and report the tiers that are unavailable."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Protocol

from engram.embedding.port import (
    EMBEDDING_FAILURES,
    Calibration,
    EmbeddedQueryText,
    EmbedderIdentity,
)
from engram.embedding.registry import calibration_of
from engram.embedding.tiers import QueryVectorCache, Tiers, WatchedEmbedder
from engram.model.ids import OrganizationId
from engram.model.value import Value
from engram.model.vectors import QueryVector, Tier
from engram.storage.organization import OrganizationStore

logger = logging.getLogger(__name__)

WORDS_ONLY = "words_only"
EMBEDDER_UNAVAILABLE = "embedder_unavailable"
INSTANT_UNAVAILABLE = "instant_unavailable"
EMBEDDER_CHANGED = "embedder_changed"
INDEX_LAG = "index_lag"


class EmbeddedQuery(Value):
    """The vectors of one query."""

    vectors: tuple[QueryVector, ...] = ()
    calibrations: Mapping[Tier, Calibration] = {}
    degraded: tuple[str, ...] = ()
    """Reason codes for the tiers that the search has to do without."""


WITHOUT_VECTORS = EmbeddedQuery()

_REASONS: Mapping[Tier, str] = {"deep": EMBEDDER_UNAVAILABLE, "instant": INSTANT_UNAVAILABLE}


class EmbedQuery(Protocol):
    """Embeds the text of a query."""

    async def __call__(self, text: str, *, is_instant_needed: bool) -> EmbeddedQuery:
        """Return the vectors of a query; see `QueryEmbedder.embed`."""
        ...


class QueryEmbedder:
    """Embeds queries with every tier, with an LRU cache of recent vectors for each."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._caches = [(embedder, QueryVectorCache(embedder)) for embedder in tiers.all]
        self._is_instant_needed = False
        self._is_instant_probed = False

    async def embed(
        self, text: str, *, organization_id: OrganizationId, is_instant_needed: bool = True
    ) -> EmbeddedQuery:
        """Return the vectors of a query, without the tiers that fail.

        The instant tier only gives its identity until it is needed for the first time: once all
        messages have deep vectors, its model is never loaded.
        """
        self._is_instant_needed |= is_instant_needed
        vectors: list[QueryVector] = []
        calibrations: dict[Tier, Calibration] = {}
        for embedder, cache in self._caches:
            try:
                embedded = await self._embedded(embedder, cache, text, organization_id)
                identity = await embedder.identify()
            except EMBEDDING_FAILURES:
                logger.debug("a query could not be embedded", exc_info=True)
                continue
            calibrations[embedder.tier] = calibration_of(identity)
            vectors.append(_query_vector(embedder.tier, identity, embedded))
        return EmbeddedQuery(
            vectors=tuple(vectors),
            calibrations=calibrations,
            degraded=missing_tiers(self._tiers, calibrations.keys()),
        )

    async def _embedded(
        self,
        embedder: WatchedEmbedder,
        cache: QueryVectorCache,
        text: str,
        organization_id: OrganizationId,
    ) -> EmbeddedQueryText | None:
        if embedder.tier == "deep" or self._is_instant_needed:
            return await cache.embed(text, organization_id=organization_id)
        if not self._is_instant_probed:
            await embedder.probe()
            self._is_instant_probed = True
        return None


def _query_vector(
    tier: Tier, identity: EmbedderIdentity, embedded: EmbeddedQueryText | None
) -> QueryVector:
    vector, tokens = (None, None) if embedded is None else embedded
    return QueryVector(tier=tier, identity=identity.as_text(), vector=vector, tokens=tokens)


def missing_tiers(tiers: Tiers, working: Collection[Tier]) -> tuple[str, ...]:
    """Return the reason codes for searches in which only the tiers of `working` are available."""
    reasons = [_REASONS[each.tier] for each in tiers.all if each.tier not in working]
    return tuple(reasons) if working else (WORDS_ONLY, *reasons)


class EmbedderStatus:
    """The state of this process's embedders, for status pages and health checks."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return the reason codes for what searches have to do without."""
        working: list[Tier] = [each.tier for each in self._tiers.all if each.failure is None]
        return missing_tiers(self._tiers, working)

    async def probe(self) -> None:
        """Probe the embedders; those that do not answer record why."""
        for embedder in self._tiers.all:
            with suppress(*EMBEDDING_FAILURES):
                await embedder.probe()

    async def embedder_name(self) -> str | None:
        """Return the name of the deep embedder; None without one, or while it does not answer."""
        identity = await self._identity()
        return None if identity is None else identity.name

    async def find_mismatch(self, store: OrganizationStore) -> tuple[str, ...]:
        """Return the reason code if an organisation's vectors were made by another embedder."""
        identity = await self._identity()
        stored = (await store.identities()).deep
        is_current = identity is None or stored in (None, identity.as_text())
        return () if is_current else (EMBEDDER_CHANGED,)

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
