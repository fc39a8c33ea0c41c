"""Two embedders without a model: a quick one, and one that tells when it is at work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engram.embedding.hashed import IDENTITY, HashedEmbedder, hashed_vectors
from engram.embedding.port import EmbedderIdentity
from engram.model.value import replace

if TYPE_CHECKING:
    from engram.embedding.port import Vector, Vectors

QUICK = replace(IDENTITY, name="quick hash", dimensions=64)


class QuickEmbedder(HashedEmbedder):
    """Vectors of other dimensions than the deep ones."""

    async def identify(self) -> EmbedderIdentity:
        return QUICK

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        return hashed_vectors(passages, QUICK.dimensions)

    async def embed_query(self, query: str) -> Vector:
        return hashed_vectors([query], QUICK.dimensions)[0]


class ToldEmbedder(HashedEmbedder):
    """Calls `tell` before it embeds passages, and reads few tokens at once."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self._tell = tell

    async def identify(self) -> EmbedderIdentity:
        return SHORT

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        self._tell()
        return await super().embed_passages(passages)


SHORT = replace(IDENTITY, name="short hash", max_tokens=20)
"""So that some messages have several passages."""
