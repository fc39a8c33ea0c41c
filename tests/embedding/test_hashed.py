"""The embedder of tests: the same vectors in every process, near for texts that share words."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from engram.embedding.hashed import DIMENSIONS, HashedEmbedder, hashed_vectors


async def test_vectors_are_the_same_on_every_machine() -> None:
    vectors = await HashedEmbedder().embed_passages(["the spare key", "", "鍵 🔑"])

    assert [hashlib.sha256(np.sign(row).tobytes()).hexdigest()[:16] for row in vectors] == snapshot(
        ["103c8fca011b4809", "4c66657d2ae2da01", "a4c826cd341e2bca"]
    )
    assert [round(float(row.max()), 4) for row in vectors] == snapshot([0.5384, 0.0, 0.0])


async def test_texts_that_share_words_are_nearer() -> None:
    embedder = HashedEmbedder()
    shared, other = await embedder.embed_passages(["the spare key is hidden", "soup with leeks"])

    query = await embedder.embed_query("where is the spare key")

    assert query @ shared > query @ other + 0.3


@given(st.lists(st.text(), max_size=5))
def test_every_text_has_a_unit_vector_of_its_own(texts: list[str]) -> None:
    vectors = hashed_vectors(texts, DIMENSIONS)

    assert vectors.shape == (len(texts), DIMENSIONS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.array_equal(vectors, hashed_vectors(texts, DIMENSIONS))
