"""What Engram asks of an embedder.

Vectors of two embedders are never compared. So every embedder has an identity, every stored vector
carries it, and whatever could make the same text another vector is part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Pooling = Literal["cls", "mean"]
Vector = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderIdentity:
    """What makes two vectors comparable: equal identities, and nothing else."""

    name: str
    revision: str
    """The exact files or version behind the name, such as a hash."""
    dimensions: int
    max_tokens: int
    """A longer text must be split into passages first; see `engram.text.passages`."""
    query_prefix: str
    passage_prefix: str
    pooling: Pooling


class Embedder(Protocol):
    """A model that turns texts into vectors of length 1."""

    @property
    def identity(self) -> EmbedderIdentity:
        """What this embedder's vectors carry; it never changes while the embedder lives."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the model reads of `text`, without prefix and special tokens."""
        ...

    async def embed_passages(self, passages: Sequence[str]) -> Sequence[Vector]:
        """Return a vector for each passage, in order.

        The embedder adds its passage prefix. The caller bounds the batch. Every vector is finite
        and has the identity's dimensions, or the call fails: all of the batch, or nothing.

        Raises:
            LimitExceededError: a passage is longer than the model can read.
            UnavailableError: the model cannot be asked now; a retry may succeed.
        """
        ...

    async def embed_query(self, query: str) -> Vector:
        """Return the vector to search with; the embedder adds its query prefix.

        A query longer than the model can read is cut at its end: it is asked for, not kept.

        Raises:
            UnavailableError: the model cannot be asked now; a retry may succeed.
        """
        ...
