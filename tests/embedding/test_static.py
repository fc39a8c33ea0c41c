"""The instant embedder: the mean of token vectors, exactly as its makers' library computes it."""

from __future__ import annotations

import numpy as np
import pytest

from engram.clock import SystemClock
from engram.embedding.files import ModelFiles
from engram.embedding.local import StaticEmbedder
from engram.embedding.port import Embedder
from engram.embedding.registry import POTION
from engram.errors import EmbedderUnavailableError
from engram.limits import INLINE_CHARACTERS_MAX

# Computed with model2vec 0.10.0: StaticModel.from_pretrained(...).encode(text, max_length=None).
REFERENCE = {
    "The ferry to Lisbon leaves on Friday.": [
        0.1234475,
        0.0923596,
        0.0562441,
        0.0720079,
        -0.2753572,
        0.1125769,
        0.1135425,
        0.0816016,
    ],
    "naïve 👍 [UNK] café": [
        -0.0631629,
        -0.0084252,
        -0.126221,
        -0.0078001,
        -0.1913605,
        0.0886125,
        0.0028726,
        -0.1377268,
    ],
}


@pytest.mark.parametrize("text", REFERENCE)
async def test_vectors_are_those_of_the_reference_library(potion: Embedder, text: str) -> None:
    (vector,) = await potion.embed_passages([text])

    assert np.allclose(vector[:8], REFERENCE[text], atol=1e-6)


async def test_a_text_without_any_known_token_is_near_similar_texts_only(potion: Embedder) -> None:
    emoji, same, other, sentence = await potion.embed_passages(
        ["🎉🎉", "🎉🎉", "🦖", "We celebrated until four in the morning."]
    )

    assert emoji @ same > 0.99999
    assert abs(emoji @ other) < 0.3
    assert abs(emoji @ sentence) < 0.3


async def test_many_texts_get_the_vectors_they_get_alone(potion: Embedder) -> None:
    text = "A message that is sent again and again. "
    count = INLINE_CHARACTERS_MAX // len(text) + 1

    many = await potion.embed_passages([text] * count)

    assert np.array_equal(many, np.repeat(await potion.embed_passages([text]), count, axis=0))


async def test_a_query_is_embedded_like_a_passage(potion: Embedder) -> None:
    (passage,) = await potion.embed_passages(["the spare key"])

    assert np.array_equal(passage, await potion.embed_query("the spare key"))


async def test_the_error_for_a_missing_model_tells_how_to_install_it(files: ModelFiles) -> None:
    nowhere = ModelFiles(files.root / "nowhere")
    embedder = StaticEmbedder(POTION, nowhere, clock=SystemClock())

    with pytest.raises(EmbedderUnavailableError, match=f"engram models pull {POTION.name}"):
        await embedder.embed_passages(["x"])
