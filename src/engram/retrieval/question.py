"""Turn a question into the vectors to search with, and say what could not be had."""

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
    """The vectors of one question."""

    vectors: tuple[QueryVector, ...] = ()
    calibrations: Mapping[Tier, Calibration] = field(default_factory=dict[Tier, Calibration])
    degraded: tuple[str, ...] = ()
    """What the search has to do without."""


WITHOUT_VECTORS = Question()

_REASONS: Mapping[Tier, str] = {"deep": EMBEDDER_UNAVAILABLE, "instant": INSTANT_UNAVAILABLE}


class Embed(Protocol):
    """Turns the text of a question into its vectors."""

    async def __call__(self, text: str, *, is_instant_needed: bool) -> Question:
        """Return the vectors of a question; see `Questions.embed`."""
        ...


class Questions:
    """Embeds questions with every tier; the vectors of recent ones are remembered."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._caches = [(embedder, QueryVectorCache(embedder)) for embedder in tiers.all]
        self._is_instant_needed = False
        self._is_instant_probed = False

    async def embed(
        self, text: str, *, organization_id: OrganizationId, is_instant_needed: bool = True
    ) -> Question:
        """Return the vectors of a question; a tier that fails is left out.

        Until it is needed for the first time the instant tier has its identity alone: once all
        messages have deep vectors, nobody has to load its model.
        """
        self._is_instant_needed |= is_instant_needed
        vectors: list[QueryVector] = []
        calibrations: dict[Tier, Calibration] = {}
        for embedder, cache in self._caches:
            try:
                vector = await self._vector(embedder, cache, text, organization_id)
                identity = await embedder.identify()
            except EMBEDDING_FAILURES:
                logger.debug("a question goes without a vector", exc_info=True)
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
    """Return what searches have to do without while only the tiers of `working` can be asked."""
    reasons = [_REASONS[each.tier] for each in tiers.all if each.tier not in working]
    return tuple(reasons) if working else (WORDS_ONLY, *reasons)
