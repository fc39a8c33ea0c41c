"""Scoring profiles: the weight of each leg, and how a fused value becomes a score."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from engram.model.search import ProfileName
from engram.model.value import Value

LegName = Literal[
    "message_vector",
    "neighbor_vectors",
    "message_words",
    "window_words",
    "cosine",
    "bm25_of_best",
    "recency",
]
"""A leg is one measure of relevance; a score is a weighted mean of legs."""


class Profile(Value):
    """Weights of the legs, and thresholds for their weighted mean (the fused value)."""

    weights: Mapping[LegName, float]
    good: float
    """The fused value shown as score 1; very few messages reach it."""
    relevant: float
    """If the best score is lower, the answer notes that nothing is relevant."""
    conversation_weight: float = 0.3
    """Weight of the conversation's best message when its other messages are ordered."""
    charges_length: bool = True
    """Whether longer messages are ranked lower at the same fused value."""
    importance_exponent: float = 0.25
    """Strength of a memory's importance: at 1, a critical memory counts five times a trivial one."""
    scores_importance: bool = False
    """Whether importance and usefulness change the score, or only the order of the results."""

    @property
    def needs_vectors(self) -> bool:
        """Return True if the query has to be embedded."""
        return bool({"message_vector", "neighbor_vectors", "cosine"} & self.weights.keys())

    @property
    def needs_words(self) -> bool:
        """Return True if the word index has to be searched."""
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
        # The formula of engram-go, without the inputs that this store does not have.
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
    """Return a profile by name; without vectors, `default` falls back to `words`."""
    return PROFILES["words" if name == "default" and not has_vectors else name]
