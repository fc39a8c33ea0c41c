"""The embedders of one installation, and whether they can be asked."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from engram.embedding.port import Embedder, EmbedderIdentity
from engram.errors import EmbedderMismatchError, EmbedderUnavailableError
from engram.model.vectors import Tier

if TYPE_CHECKING:
    from engram.embedding.port import Vector, Vectors

T = TypeVar("T")

logger = logging.getLogger(__name__)


class WatchedEmbedder:
    """An embedder that remembers whether it could be asked the last time."""

    def __init__(self, embedder: Embedder, *, tier: Tier) -> None:
        self.tier: Tier = tier
        self.failure: str | None = None
        """Why it could not; None when it could, or has not been asked."""
        self.known: EmbedderIdentity | None = None
        """Whose vectors it gives, once it has said so."""
        self.embedder = embedder

    async def identify(self) -> EmbedderIdentity:
        try:
            self.known = await self.embedder.identify()
        except EmbedderUnavailableError as exc:
            self._note(exc.message)
            raise
        # Success is not noted: most embedders know this without being asked.
        return self.known

    async def probe(self) -> None:
        await self._watch(self.embedder.probe())

    def count_tokens(self, text: str) -> int:
        return self.embedder.count_tokens(text)

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        return await self._watch(self.embedder.embed_passages(passages))

    async def embed_query(self, query: str) -> Vector:
        return await self._watch(self.embedder.embed_query(query))

    async def close(self) -> None:
        await self.embedder.close()

    async def _watch(self, work: Awaitable[T]) -> T:
        try:
            result = await work
        except (EmbedderUnavailableError, EmbedderMismatchError) as exc:
            self._note(exc.message)
            raise
        self._note(None)
        return result

    def _note(self, failure: str | None) -> None:
        """Log when it fails, and when it works again; not for every text in between."""
        if failure is not None and self.failure is None:
            logger.warning("the %s embedder cannot be asked: %s", self.tier, failure)
        elif failure is None and self.failure is not None:
            logger.info("the %s embedder can be asked again", self.tier)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Tiers:
    """The embedder whose vectors every message shall have, and a quick one for the path of a write.

    Where the quick one is the only one, its vectors are the deep ones.
    """

    deep: WatchedEmbedder | None = None
    instant: WatchedEmbedder | None = None
    is_deep_quick: bool = False
    """Whether the deep one is quick enough for the path of a write."""

    @classmethod
    def of(cls, *, deep: Embedder | None = None, instant: Embedder | None = None) -> Tiers:
        """Return the tiers of the embedders there are."""
        if deep is None and instant is not None:
            return cls(deep=WatchedEmbedder(instant, tier="deep"), is_deep_quick=True)
        return cls(
            deep=None if deep is None else WatchedEmbedder(deep, tier="deep"),
            instant=None if instant is None else WatchedEmbedder(instant, tier="instant"),
        )

    @property
    def all(self) -> tuple[WatchedEmbedder, ...]:
        """Return the embedders there are, the best first."""
        return tuple(embedder for embedder in (self.deep, self.instant) if embedder is not None)

    @property
    def quick(self) -> WatchedEmbedder | None:
        """Return the embedder for the path of a write."""
        return self.deep if self.is_deep_quick else self.instant

    async def close(self) -> None:
        """Close what there is."""
        for embedder in self.all:
            await embedder.close()
