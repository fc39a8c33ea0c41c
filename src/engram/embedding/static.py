"""The embedder of the instant tier: a static model, quick enough for the path of a write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engram.clock import Clock
from engram.embedding.files import ModelFiles
from engram.embedding.lazy import Lazy
from engram.embedding.port import EmbedderIdentity
from engram.embedding.registry import KnownModel
from engram.limits import INLINE_CHARACTERS_MAX

if TYPE_CHECKING:
    from engram.embedding.port import Vector, Vectors
    from engram.embedding.static_model import StaticModel


class StaticEmbedder:
    """Embeds with a static model of the registry."""

    def __init__(self, model: KnownModel, files: ModelFiles, *, clock: Clock) -> None:
        self._known = model
        self._files = files
        self._model = Lazy(self._load, clock)

    async def identify(self) -> EmbedderIdentity:
        return self._known.identity

    async def probe(self) -> None:
        if self._model.has_failed:
            # Files that look well have failed before: only loading them tells.
            await asyncio.to_thread(self._model.get)
        elif self._model.value is None:
            self._files.probe(self._known)

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        if self._model.value and sum(map(len, passages)) <= INLINE_CHARACTERS_MAX:
            # A thread would cost more than the work.
            return self._model.value.embed(passages)
        return await asyncio.to_thread(lambda: self._model.get().embed(passages))

    async def embed_query(self, query: str) -> Vector:
        return (await self.embed_passages([query]))[0]

    def count_tokens(self, text: str) -> int:
        return self._model.get().count_tokens(text)

    async def close(self) -> None:
        """Nothing is held but memory."""

    def _load(self) -> StaticModel:
        from engram.embedding.static_model import StaticModel

        return StaticModel(self._files.require(self._known))
