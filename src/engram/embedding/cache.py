"""Vectors of recent queries, so that a repeated search does not run the model again."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from engram.embedding.port import Embedder
from engram.limits import QUERY_CHARACTERS_KEPT, QUERY_VECTORS_KEPT

if TYPE_CHECKING:
    from engram.embedding.port import Vector


class QueryVectors:
    """The query side of an embedder, with a bounded memory.

    Each organisation has its own entries: how fast an answer comes must not tell one tenant what
    another has asked.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: OrderedDict[tuple[str, str], Vector] = OrderedDict()

    async def embed(self, text: str, *, organization_id: str) -> Vector:
        """Return the vector of a query; errors as of `Embedder.embed_query`."""
        key = organization_id, text
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        vector = await self._embedder.embed_query(text)
        if len(text) <= QUERY_CHARACTERS_KEPT:
            self._keep(key, vector)
        return vector

    def _keep(self, key: tuple[str, str], vector: Vector) -> None:
        # A row of its own: a view would keep the whole batch it came from alive.
        kept = vector.copy()
        kept.setflags(write=False)
        self._kept[key] = kept
        while len(self._kept) > QUERY_VECTORS_KEPT:
            self._kept.popitem(last=False)
