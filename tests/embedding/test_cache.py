"""The cache of query vectors: bounded, and separate for each organisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engram.embedding.hashed import HashedEmbedder
from engram.embedding.port import Embedder
from engram.embedding.tiers import QueryVectorCache, WatchedEmbedder
from engram.limits import QUERY_CHARACTERS_KEPT, QUERY_VECTORS_KEPT
from tests.promises import promise

if TYPE_CHECKING:
    from engram.embedding.port import Vector


class CountingEmbedder(HashedEmbedder):
    """An embedder that records the queries it received."""

    def __init__(self) -> None:
        self.asked = list[str]()

    async def embed_query(self, query: str) -> Vector:
        self.asked.append(query)
        return await super().embed_query(query)


def cache_of(embedder: Embedder) -> QueryVectorCache:
    return QueryVectorCache(WatchedEmbedder(embedder, tier="deep"))


async def ask(
    vectors: QueryVectorCache, texts: Sequence[str], *, organization_id: str = "a"
) -> None:
    for text in texts:
        await vectors.embed(text, organization_id=organization_id)


async def test_a_query_is_embedded_once() -> None:
    embedder = CountingEmbedder()
    vectors = cache_of(embedder)

    first = await vectors.embed("where?", organization_id="a")
    second = await vectors.embed("where?", organization_id="a")

    assert np.array_equal(first.vector, second.vector)
    assert embedder.asked == ["where?"]


@promise("apart")
async def test_organisations_do_not_share_cached_queries() -> None:
    embedder = CountingEmbedder()
    vectors = cache_of(embedder)

    await ask(vectors, ["where?"], organization_id="a")
    await ask(vectors, ["where?"], organization_id="b")

    assert embedder.asked == ["where?", "where?"]


async def test_the_least_recently_used_query_is_evicted_first() -> None:
    embedder = CountingEmbedder()
    vectors = cache_of(embedder)
    await ask(vectors, [str(number) for number in range(QUERY_VECTORS_KEPT)])

    await ask(vectors, ["0", "one more"])
    embedder.asked.clear()
    await ask(vectors, ["0", "1"])

    assert embedder.asked == ["1"]


async def test_a_long_query_is_not_cached() -> None:
    embedder = CountingEmbedder()

    await ask(cache_of(embedder), ["x" * (QUERY_CHARACTERS_KEPT + 1)] * 2)

    assert len(embedder.asked) == 2


async def test_a_cached_vector_is_read_only() -> None:
    vectors = cache_of(HashedEmbedder())
    await ask(vectors, ["where?"])

    kept = await vectors.embed("where?", organization_id="a")

    with pytest.raises(ValueError, match="read-only"):
        kept.vector[0] = 1
