"""Vectors of tokens from the real model: which tokens have one, how many, and what they match."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.clock import SystemClock
from engram.embedding.local import TokenOnnxEmbedder
from engram.embedding.port import Embedder, TokenEmbedder
from engram.embedding.registry import ARCTIC
from engram.embedding.token_outputs import merge_neighbours
from engram.errors import ConfigurationError
from engram.limits import LATE_QUERY_TOKENS_MAX, TOKEN_VECTOR_BYTES_MAX
from engram.model.value import replace
from engram.settings import Settings, load_settings
from engram.vectors.kernels import NumpyKernels
from engram.vectors.tokens import TOKEN_BYTES, TOKENS_MAX, best_cosines
from engram.wiring import build_embedders


@pytest.fixture(scope="module")
def late(settings: Settings) -> Iterator[TokenEmbedder]:
    """Return the deep embedder of the default choice with late interaction."""
    tiers = build_embedders(replace(settings, late_interaction="on"), clock=SystemClock())
    assert tiers.deep is not None
    assert isinstance(tiers.deep.embedder, TokenOnnxEmbedder)
    yield tiers.deep.embedder
    asyncio.run(tiers.close())


async def test_the_vector_of_a_text_is_the_same_with_those_of_its_tokens(
    late: TokenEmbedder, arctic: Embedder
) -> None:
    text = "The ferry to the island was late again."

    (passage,) = await late.embed_passages_with_tokens([text])
    query = await late.embed_query_with_tokens(text)

    assert passage.vector.tobytes() == (await arctic.embed_passages([text]))[0].tobytes()
    assert query.vector.tobytes() == (await arctic.embed_query(text)).tobytes()
    assert await late.identify() == await arctic.identify()


async def test_only_words_that_say_something_have_vectors(late: TokenEmbedder) -> None:
    said, empty, nothing = await late.embed_passages_with_tokens(
        ["It's the ferry, and that is all.", "It's that; and so on!", ""]
    )

    assert len(said.tokens) == 1 + TOKEN_BYTES
    assert (empty.tokens, nothing.tokens) == (b"", b"")
    assert (await late.embed_query_with_tokens("What is it?")).tokens is None


async def test_long_texts_keep_to_the_bound(late: TokenEmbedder) -> None:
    text = " ".join(f"harbour number {number} opens early" for number in range(60))

    (passage,) = await late.embed_passages_with_tokens([text])
    query = (await late.embed_query_with_tokens(text)).tokens

    assert len(passage.tokens) == 1 + TOKENS_MAX * TOKEN_BYTES <= TOKEN_VECTOR_BYTES_MAX
    assert query is not None
    assert len(query.vectors) == len(query.weights) == LATE_QUERY_TOKENS_MAX


async def test_a_word_of_a_query_matches_the_text_that_means_it(late: TokenEmbedder) -> None:
    texts = ["We adopted a beagle from the shelter.", "The train to Porto was late."]

    passages = await late.embed_passages_with_tokens(texts)
    query = (await late.embed_query_with_tokens("the dog")).tokens

    assert query is not None
    blobs = [passage.tokens for passage in passages]
    near, far = best_cosines(query.vectors, blobs, NumpyKernels())[:, 0]
    assert near > far + 0.1


async def test_rare_words_weigh_more(late: TokenEmbedder) -> None:
    query = (await late.embed_query_with_tokens("people harbour")).tokens

    assert query is not None
    assert query.weights[0] < query.weights[1]


@pytest.mark.parametrize("embedder", ["hash", "none", "local:bge-small-en-v1.5"])
def test_an_embedder_without_vectors_of_tokens_is_refused(embedder: str) -> None:
    settings = load_settings({"embedder": embedder, "late_interaction": "on"})

    with pytest.raises(ConfigurationError):
        build_embedders(settings, clock=SystemClock())


async def test_late_interaction_is_off_by_default(arctic: Embedder) -> None:
    assert ARCTIC.projection is not None
    assert not isinstance(getattr(arctic, "embedder", arctic), TokenEmbedder)


@given(
    count=st.integers(1, 60),
    most=st.integers(1, 60),
    seed=st.integers(0, 2**32),
)
def test_merging_keeps_at_most_so_many_unit_vectors(count: int, most: int, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    merged = merge_neighbours(units, most)

    assert len(merged) == min(count, most)
    assert np.linalg.norm(merged, axis=1) == pytest.approx(np.ones(len(merged)), abs=1e-5)
    if count <= most:
        assert merged.tobytes() == units.tobytes()
