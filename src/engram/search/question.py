"""Embed queries with every tier, and report the tiers that are unavailable."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from engram.embedding.port import EMBEDDING_FAILURES, Calibration
from engram.embedding.registry import calibration_of
from engram.embedding.tiers import QueryVectorCache, Tiers, WatchedEmbedder
from engram.model.ids import OrganizationId
from engram.model.vectors import QueryVector, Tier

if TYPE_CHECKING:
    from engram.embedding.port import Vector

logger = logging.getLogger(__name__)

WORDS_ONLY = "words_only"
EMBEDDER_UNAVAILABLE = "embedder_unavailable"
INSTANT_UNAVAILABLE = "instant_unavailable"
EMBEDDER_CHANGED = "embedder_changed"
INDEX_LAG = "index_lag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The vectors of one query."""

    vectors: tuple[QueryVector, ...] = ()
    calibrations: Mapping[Tier, Calibration] = field(default_factory=dict[Tier, Calibration])
    degraded: tuple[str, ...] = ()
    """Reason codes for the tiers that the search has to do without."""


WITHOUT_VECTORS = Question()

_REASONS: Mapping[Tier, str] = {"deep": EMBEDDER_UNAVAILABLE, "instant": INSTANT_UNAVAILABLE}


class Embed(Protocol):
    """Embeds the text of a query."""

    async def __call__(self, text: str, *, is_instant_needed: bool) -> Question:
        """Return the vectors of a query; see `Questions.embed`."""
        ...


class Questions:
    """Embeds queries with every tier, with an LRU cache of recent vectors for each."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._caches = [(embedder, QueryVectorCache(embedder)) for embedder in tiers.all]
        self._is_instant_needed = False
        self._is_instant_probed = False

    async def embed(
        self, text: str, *, organization_id: OrganizationId, is_instant_needed: bool = True
    ) -> Question:
        """Return the vectors of a query, without the tiers that fail.

        The instant tier only gives its identity until it is needed for the first time: once all
        messages have deep vectors, its model is never loaded.
        """
        self._is_instant_needed |= is_instant_needed
        vectors: list[QueryVector] = []
        calibrations: dict[Tier, Calibration] = {}
        for embedder, cache in self._caches:
            try:
                vector = await self._vector(embedder, cache, text, organization_id)
                identity = await embedder.identify()
            except EMBEDDING_FAILURES:
                logger.debug("a query could not be embedded", exc_info=True)
                continue
            calibrations[embedder.tier] = calibration_of(identity)
            vectors.append(
                QueryVector(tier=embedder.tier, identity=identity.as_text(), vector=vector)
            )
        return Question(
            vectors=tuple(vectors),
            calibrations=calibrations,
            degraded=missing_tiers(self._tiers, calibrations.keys()),
        )

    async def _vector(
        self,
        embedder: WatchedEmbedder,
        cache: QueryVectorCache,
        text: str,
        organization_id: OrganizationId,
    ) -> Vector | None:
        if embedder.tier == "deep" or self._is_instant_needed:
            return await cache.embed(text, organization_id=organization_id)
        if not self._is_instant_probed:
            await embedder.probe()
            self._is_instant_probed = True
        return None


def missing_tiers(tiers: Tiers, working: Collection[Tier]) -> tuple[str, ...]:
    """Return the reason codes for searches in which only the tiers of `working` are available."""
    reasons = [_REASONS[each.tier] for each in tiers.all if each.tier not in working]
    return tuple(reasons) if working else (WORDS_ONLY, *reasons)
