"""The named ways to weigh the legs of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engram.model.search import ProfileName
from engram.retrieval.legs import LegName


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What each leg counts, and what a fused value means."""

    weights: Mapping[LegName, float]
    good: float
    """The fused value that is shown as the score 1: very few messages reach it."""
    relevant: float
    """An answer whose best score is lower says that nothing is relevant."""

    @property
    def needs_vectors(self) -> bool:
        """Say whether the query has to be embedded."""
        return bool({"message_vector", "neighbor_vectors"} & self.weights.keys())

    @property
    def needs_words(self) -> bool:
        """Say whether the word indexes have to be asked."""
        return bool({"message_words", "window_words"} & self.weights.keys())


FUSED_GOOD = 1.3

PROFILES: Mapping[ProfileName, Profile] = MappingProxyType(
    {
        "default": Profile(
            weights={
                "message_vector": 0.7,
                "neighbor_vectors": 0.3,
                "message_words": 0.3,
                "window_words": 0.3,
            },
            good=FUSED_GOOD,
            relevant=0.3,
        ),
        "composite": Profile(
            weights={"message_vector": 0.50, "message_words": 0.35, "recency": 0.15},
            good=FUSED_GOOD,
            relevant=0.3,
        ),
        "words": Profile(
            weights={"message_words": 0.5, "window_words": 0.5}, good=FUSED_GOOD, relevant=0.3
        ),
        "vectors": Profile(
            weights={"message_vector": 0.7, "neighbor_vectors": 0.3}, good=FUSED_GOOD, relevant=0.3
        ),
    }
)
