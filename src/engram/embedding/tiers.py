"""The embedders of one installation: their availability, query caches and roles."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, TypeVar

from engram.embedding.port import (
    EmbeddedPassage,
    EmbeddedQueryText,
    Embedder,
    EmbedderIdentity,
    TokenEmbedder,
    with_tokens,
)
from engram.errors import EmbedderMismatchError, EmbedderUnavailableError
from engram.limits import QUERY_CHARACTERS_KEPT, QUERY_VECTORS_KEPT
from engram.model.value import Value
from engram.model.vectors import Tier

if TYPE_CHECKING:
    from engram.embedding.port import Vector, Vectors

T = TypeVar("T")

logger = logging.getLogger(__name__)


class WatchedEmbedder:
    """An embedder that tracks whether its last call succeeded."""

    def __init__(self, embedder: Embedder, *, tier: Tier) -> None:
        self.tier: Tier = tier
        self.failure: str | None = None
        """Why the last call failed; None if it succeeded, or there was none."""
        self.known: EmbedderIdentity | None = None
        """The last result of `identify`, for callers that must not wait."""
        self.embedder = embedder

    async def identify(self) -> EmbedderIdentity:
        try:
            self.known = await self.embedder.identify()
        except EmbedderUnavailableError as exc:
            self._record(exc.message)
            raise
        # Success says nothing about availability: most embedders know their identity anyway.
        return self.known

    async def probe(self) -> None:
        await self._watch(self.embedder.probe())

    def count_tokens(self, text: str) -> int:
        return self.embedder.count_tokens(text)

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        return await self._watch(self.embedder.embed_passages(passages))

    async def embed_query(self, query: str) -> Vector:
        return await self._watch(self.embedder.embed_query(query))

    @property
    def has_tokens(self) -> bool:
        """Return True if the embedder returns the vectors of tokens too."""
        return isinstance(self.embedder, TokenEmbedder)

    async def embed_passages_with_tokens(
        self, passages: Sequence[str]
    ) -> Sequence[EmbeddedPassage]:
        embedder = with_tokens(self.embedder)
        return await self._watch(embedder.embed_passages_with_tokens(passages))

    async def embed_query_with_tokens(self, query: str) -> EmbeddedQueryText:
        """Return the vector of a query, and of its tokens if the embedder has them."""
        if isinstance(self.embedder, TokenEmbedder):
            return await self._watch(self.embedder.embed_query_with_tokens(query))
        return EmbeddedQueryText(await self.embed_query(query))

    async def close(self) -> None:
        await self.embedder.close()

    async def _watch(self, work: Awaitable[T]) -> T:
        try:
            result = await work
        except (EmbedderUnavailableError, EmbedderMismatchError) as exc:
            self._record(exc.message)
            raise
        self._record(None)
        return result

    def _record(self, failure: str | None) -> None:
        """Record the outcome of a call; log only when availability changes."""
        if failure is not None and self.failure is None:
            logger.warning("the %s embedder is unavailable: %s", self.tier, failure)
        elif failure is None and self.failure is not None:
            logger.info("the %s embedder is available again", self.tier)
        self.failure = failure


class QueryVectorCache:
    """LRU cache of query vectors, so that a repeated search does not run the model again.

    Each organisation has its own entries: the latency of a search must not reveal to one tenant what
    another has searched for.
    """

    def __init__(self, embedder: WatchedEmbedder) -> None:
        self._embedder = embedder
        self._embedded: OrderedDict[tuple[str, str], EmbeddedQueryText] = OrderedDict()

    async def embed(self, text: str, *, organization_id: str) -> EmbeddedQueryText:
        """Return the vectors of a query and its tokens; errors as of `Embedder.embed_query`."""
        key = organization_id, text
        cached = self._embedded.get(key)
        if cached is not None:
            self._embedded.move_to_end(key)
            return cached
        embedded = await self._embedder.embed_query_with_tokens(text)
        if len(text) <= QUERY_CHARACTERS_KEPT:
            self._add(key, embedded)
        return embedded

    def _add(self, key: tuple[str, str], embedded: EmbeddedQueryText) -> None:
        # A copy: a view would keep the whole batch it came from alive.
        cached = embedded.vector.copy()
        cached.setflags(write=False)
        self._embedded[key] = embedded._replace(vector=cached)
        while len(self._embedded) > QUERY_VECTORS_KEPT:
            self._embedded.popitem(last=False)


class Tiers(Value, kw_only=False):
    """The deep embedder, for the vectors every message gets in the end, and an instant one for writes.

    A fast embedder that is the only one takes the deep tier.
    """

    deep: WatchedEmbedder | None = None
    instant: WatchedEmbedder | None = None
    is_deep_quick: bool = False
    """True if the deep embedder is fast enough for the write path."""

    @classmethod
    def of(cls, *, deep: Embedder | None = None, instant: Embedder | None = None) -> Tiers:
        """Assign the given embedders to tiers."""
        if deep is None and instant is not None:
            return cls(deep=WatchedEmbedder(instant, tier="deep"), is_deep_quick=True)
        return cls(
            deep=None if deep is None else WatchedEmbedder(deep, tier="deep"),
            instant=None if instant is None else WatchedEmbedder(instant, tier="instant"),
        )

    @property
    def all(self) -> tuple[WatchedEmbedder, ...]:
        """Return the configured embedders, the best first."""
        return tuple(embedder for embedder in (self.deep, self.instant) if embedder is not None)

    @property
    def quick(self) -> WatchedEmbedder | None:
        """Return the embedder for the write path."""
        return self.deep if self.is_deep_quick else self.instant

    async def close(self) -> None:
        """Close all embedders."""
        for embedder in self.all:
            await embedder.close()
