"""The named ways to weigh the legs of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engram.model.search import ProfileName
from engram.search.legs import LegName


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What each leg counts, and what a fused value means."""

    weights: Mapping[LegName, float]
    good: float
    """The fused value that is shown as the score 1: very few messages reach it."""
    relevant: float
    """An answer whose best score is lower says that nothing is relevant."""
    conversation_weight: float = 0.3
    """How much the best message of its conversation counts in a message's place."""
    charges_length: bool = True
    """Whether a longer message must be better to go first."""
    importance_exponent: float = 0.25
    """How much a memory's importance counts: with 1, a critical one five times a trivial one."""
    scores_importance: bool = False
    """Whether the score shows what a memory's importance and use make of it. Else it tells the
    relevance alone, and they only move the memory up or down."""

    @property
    def needs_vectors(self) -> bool:
        """Say whether the query has to be embedded."""
        return bool({"message_vector", "neighbor_vectors", "cosine"} & self.weights.keys())

    @property
    def needs_words(self) -> bool:
        """Say whether the word indexes have to be asked."""
        return bool({"message_words", "window_words", "bm25_of_best"} & self.weights.keys())


FUSED_GOOD = 1.3

PROFILES: Mapping[ProfileName, Profile] = MappingProxyType(
    {
        "default": Profile(
            weights={
                "message_vector": 0.7,
                "neighbor_vectors": 0.2,
                "message_words": 0.35,
                "window_words": 0.2,
            },
            good=FUSED_GOOD,
            relevant=0.44,
        ),
        # As engram-go ranks, without what it does not know.
        "composite": Profile(
            weights={"cosine": 0.50, "bm25_of_best": 0.35, "recency": 0.15},
            good=1.0,
            relevant=0.5,
            conversation_weight=0.0,
            charges_length=False,
            importance_exponent=1.0,
            scores_importance=True,
        ),
        "words": Profile(
            weights={"message_words": 0.5, "window_words": 0.5},
            good=FUSED_GOOD,
            relevant=0.3,
            conversation_weight=0.0,
        ),
        "vectors": Profile(
            weights={"message_vector": 0.7, "neighbor_vectors": 0.2}, good=FUSED_GOOD, relevant=0.44
        ),
    }
)


def usable_profile(name: ProfileName, *, has_vectors: bool) -> Profile:
    """Return a profile; the default one without vectors is that of words, tuned for them."""
    return PROFILES["words" if name == "default" and not has_vectors else name]
