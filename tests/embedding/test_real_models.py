"""What both models of the default choice promise."""

from __future__ import annotations

import numpy as np
import pytest

from engram.embedding.port import Embedder

NOTES = [
    "We repotted the monstera and moved it away from the window.",
    "The invoice for the venue is due at the end of March.",
    "Ines fell off her bike and has to wear a cast for six weeks.",
    "The build fails because the compiler runs out of memory.",
]

QUESTIONS = [
    ("Which plant got a new place?", 0),
    ("When do we have to pay for the room?", 1),
    ("Who broke a bone?", 2),
    ("Why does compiling not work?", 3),
]


async def test_vectors_have_the_identity_s_dimensions_and_unit_length(embedder: Embedder) -> None:
    identity = await embedder.identify()

    vectors = await embedder.embed_passages([*NOTES, "", "🎉", "\x00", "漢字かな交じり文"])

    assert vectors.shape == (len(NOTES) + 4, identity.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    identity = await embedder.identify()

    assert (await embedder.embed_passages([])).shape == (0, identity.dimensions)


async def test_a_text_s_vector_does_not_depend_on_the_batch(embedder: Embedder) -> None:
    company = [*NOTES, "Yes.", "A long story. " * 60]

    together = await embedder.embed_passages(company)

    for text, vector in zip(company, together, strict=True):
        (alone,) = await embedder.embed_passages([text])
        assert float(alone @ vector) > 0.99999


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
async def test_a_question_is_nearest_to_its_answer(
    embedder: Embedder, question: str, answer: int
) -> None:
    notes = await embedder.embed_passages(NOTES)

    cosines = notes @ await embedder.embed_query(question)

    assert int(cosines.argmax()) == answer


async def test_paraphrases_are_nearer_than_other_sentences(embedder: Embedder) -> None:
    first, same, other = await embedder.embed_passages(
        ["The meeting was postponed.", "They delayed the meeting.", "The soup needs more salt."]
    )

    assert first @ same > first @ other + 0.2


async def test_counted_tokens_grow_with_the_text(embedder: Embedder) -> None:
    one, many = embedder.count_tokens("word"), embedder.count_tokens("word " * 100)

    assert many - one == 99
