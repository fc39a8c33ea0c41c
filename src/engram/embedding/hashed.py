"""An embedder without a model: words and their trigrams hashed to dimensions.

Equal texts have equal vectors in every process and on every machine; texts that share words or parts
of words are near, all others almost orthogonal. For tests, and for texts without any known token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from engram.embedding.port import EmbedderIdentity, unit_rows
from engram.yielding import offload, yield_to_others

if TYPE_CHECKING:
    from engram.embedding.port import Vector, Vectors

DIMENSIONS = 256
IDENTITY = EmbedderIdentity(
    name="hash",
    revision="1",
    dimensions=DIMENSIONS,
    max_tokens=1_000_000,
    query_prefix="",
    passage_prefix="",
    pooling="mean",
)


class HashedEmbedder:
    """The deterministic embedder for tests."""

    async def identify(self) -> EmbedderIdentity:
        return IDENTITY

    async def probe(self) -> None:
        """It is always available."""

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        return await _embed(passages)

    async def embed_query(self, query: str) -> Vector:
        return (await _embed([query]))[0]

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def close(self) -> None:
        """There is nothing to close."""


async def _embed(texts: Sequence[str]) -> Vectors:
    work = partial(hashed_vectors, texts, DIMENSIONS)
    return await offload(work, characters=sum(map(len, texts)))


def hashed_vectors(texts: Sequence[str], dimensions: int) -> Vectors:
    """Return a unit vector for each text, deterministic across processes and machines."""
    import numpy as np

    rows = np.zeros((len(texts), dimensions), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for feature, weight in _features(text):
            yield_to_others()
            number = _hash(feature)
            row[number % dimensions] += weight if number >> 63 else -weight
        if not row.any():
            # Features may cancel out, which is rare.
            row[0] = 1.0
    return unit_rows(rows)


def _hash(feature: str) -> int:
    spelled = feature.encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(spelled, digest_size=8).digest(), "big")


def _features(text: str) -> Iterator[tuple[str, float]]:
    """Yield the words of a text and, with less weight, their trigrams."""
    for word in text.casefold().split() or [""]:
        yield f"word {word}", 1.0
        for start in range(len(word) - 2):
            yield f"part {word[start : start + 3]}", 0.3
