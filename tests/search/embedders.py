"""Embedders without a model that simulate failures of real ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engram.embedding.hashed import IDENTITY, HashedEmbedder, hashed_vectors
from engram.embedding.port import EmbedderIdentity
from engram.errors import EmbedderUnavailableError, EngramError
from engram.model.value import replace

if TYPE_CHECKING:
    from engram.embedding.port import Vector, Vectors


class OtherEmbedder(HashedEmbedder):
    """Vectors of other dimensions, under another name."""

    identity = replace(IDENTITY, name="other hash", dimensions=64)

    async def identify(self) -> EmbedderIdentity:
        return self.identity

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        return hashed_vectors(passages, self.identity.dimensions)

    async def embed_query(self, query: str) -> Vector:
        return hashed_vectors([query], self.identity.dimensions)[0]


class FailingEmbedder(HashedEmbedder):
    """Raises its failure while it has one, and counts calls."""

    def __init__(self, failure: EngramError | None = None) -> None:
        self.failure = failure or EmbedderUnavailableError("down")
        self.is_failing = True
        self.asked = 0

    async def probe(self) -> None:
        if self.is_failing:
            raise self.failure

    async def embed_query(self, query: str) -> Vector:
        self.asked += 1
        if self.is_failing:
            raise self.failure
        return await super().embed_query(query)
