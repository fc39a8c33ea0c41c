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
    "token_vectors",
    "cosine",
    "bm25_of_best",
    "recency",
]
"""A leg is one measure of relevance; a score is a weighted mean of legs."""


SCORE_WIDTH = 0.12
"""How far from the middle of a profile an order value is whose score is 0.27 or 0.73."""


class Profile(Value):
    """Weights of the legs, and how their weighted mean (the fused value) becomes an order and a score."""

    weights: Mapping[LegName, float]
    middle: float
    """The order value whose score is one half: where what a store can answer parts from what it cannot.

    For the default profile that is 0.58: of 1,372 questions about a chat, 3 % have no message above
    it; of 1,366 questions about other people's chats, 88 % have none."""
    conversation_weight: float = 0.3
    """Weight of the conversation's best message when its other messages are ordered."""
    charges_length: bool = True
    """Whether longer messages are ranked lower at the same fused value."""
    importance_exponent: float = 0.25
    """Strength of a memory's importance: at 1, a critical memory counts five times a trivial one."""

    @property
    def needs_vectors(self) -> bool:
        """Return True if the query has to be embedded."""
        return bool({"message_vector", "neighbor_vectors", "cosine"} & self.weights.keys())

    @property
    def needs_words(self) -> bool:
        """Return True if the word index has to be searched."""
        return bool({"message_words", "window_words", "bm25_of_best"} & self.weights.keys())


PROFILES: Mapping[ProfileName, Profile] = MappingProxyType(
    {
        "default": Profile(
            weights={
                "message_vector": 0.7,
                "neighbor_vectors": 0.2,
                "message_words": 0.35,
                "window_words": 0.2,
                "token_vectors": 0.5,
            },
            middle=0.58,
        ),
        # The formula of engram-go, without the inputs that this store does not have.
        "composite": Profile(
            weights={"cosine": 0.50, "bm25_of_best": 0.35, "recency": 0.15},
            middle=0.5,
            conversation_weight=0.0,
            charges_length=False,
            importance_exponent=1.0,
        ),
        "words": Profile(
            weights={"message_words": 0.5, "window_words": 0.5},
            middle=0.37,
            conversation_weight=0.0,
        ),
        "vectors": Profile(weights={"message_vector": 0.7, "neighbor_vectors": 0.2}, middle=0.62),
    }
)


def usable_profile(name: ProfileName, *, has_vectors: bool) -> Profile:
    """Return a profile by name; without vectors, `default` falls back to `words`."""
    return PROFILES["words" if name == "default" and not has_vectors else name]
