"""Embedders without a model, one for every name, that fail when a test wants it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from engram.embedding.hashed import IDENTITY, HashedEmbedder, hashed_vectors
from engram.embedding.port import EmbeddedPassage, EmbeddedQueryText, EmbedderIdentity
from engram.errors import EmbedderUnavailableError, InvalidRequestError
from engram.model.value import replace
from engram.model.vectors import QueryTokens
from engram.vectors.tokens import TOKEN_DIMENSIONS, TOKENS_MAX, pack_tokens

if TYPE_CHECKING:
    from engram.embedding.port import Vector, Vectors

REFUSED = "unspeakable"
"""A text with this word gets no vector."""


class NamedEmbedder(HashedEmbedder):
    """Hashed vectors of an identity of its own; it counts the passages it embeds."""

    def __init__(self, name: str, *, dimensions: int = 64, max_tokens: int = 20) -> None:
        self.identity = replace(IDENTITY, name=name, dimensions=dimensions, max_tokens=max_tokens)
        self.embedded = 0
        self.patience: int | None = None
        """After so many passages it cannot be asked any more."""
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        """What happens once while it embeds."""

    async def identify(self) -> EmbedderIdentity:
        return self.identity

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        if self.patience is not None and self.embedded >= self.patience:
            raise EmbedderUnavailableError
        if any(REFUSED in passage for passage in passages):
            raise InvalidRequestError("it is not spoken of")
        self.embedded += len(passages)
        return hashed_vectors(passages, self.identity.dimensions)

    async def embed_query(self, query: str) -> Vector:
        return hashed_vectors([query], self.identity.dimensions)[0]


class TokenNamedEmbedder(NamedEmbedder):
    """The same with vectors of words, which are hashed as texts are."""

    async def embed_passages_with_tokens(self, passages: Sequence[str]) -> list[EmbeddedPassage]:
        vectors = await self.embed_passages(passages)
        tokens = [pack_tokens(_words(passage)) for passage in passages]
        return [EmbeddedPassage(*both) for both in zip(vectors, tokens, strict=True)]

    async def embed_query_with_tokens(self, query: str) -> EmbeddedQueryText:
        words = _words(query)
        tokens = QueryTokens(vectors=words, weights=np.ones(len(words)))
        return EmbeddedQueryText(await self.embed_query(query), tokens)


def _words(text: str) -> Vectors:
    # Hashed vectors are mostly zeros, which two bits cannot tell.
    return hashed_vectors(text.split()[:TOKENS_MAX], TOKEN_DIMENSIONS) @ _ROTATION


_ROTATION = np.linalg.qr(np.random.default_rng(1).normal(size=(TOKEN_DIMENSIONS,) * 2))[0].astype(
    np.float32
)
