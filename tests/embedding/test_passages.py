"""Passages of messages cover the text, fit the model, and all name the speaker."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engram import limits
from engram.embedding.hashed import DIMENSIONS, HashedEmbedder
from engram.embedding.passages import (
    PASSAGES_TOGETHER,
    SENTENCE_LENGTH,
    EmbeddedText,
    Splitting,
    deep_splitting,
    embed_texts,
    instant_splitting,
)
from engram.errors import EmbedderUnavailableError
from engram.model.value import replace
from engram.model.vectors import Units
from engram.text.passages import TokenCount, count_tokens_roughly, message_sentences
from engram.vectors.quantise import pack_blobs, quantise, unpack_blobs

any_text = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.text("ab.!?\n 。é語한😀", max_size=300),
)
any_name = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


def count_bytes(text: str) -> int:
    """Count as the strictest tokenizers do: a token for every byte."""
    return len(text.encode())


counts: st.SearchStrategy[TokenCount] = st.sampled_from([count_bytes, count_tokens_roughly, len])
Vectors: TypeAlias = NDArray[np.float32]


class RecordingEmbedder(HashedEmbedder):
    """Records the passages it is given."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        self.seen += passages
        return await super().embed_passages(passages)


@given(content=any_text, name=any_name, tokens_max=st.integers(1, 600), count=counts)
async def test_passages_cover_every_character_once(
    content: str, name: str | None, tokens_max: int, count: TokenCount
) -> None:
    splitting = Splitting(tokens_max=tokens_max, count_tokens=count)
    embedder = RecordingEmbedder()

    (passages,) = await embed_texts([EmbeddedText(name, content)], embedder, splitting=splitting)

    assert passages[0].start == 0
    assert passages[-1].end == len(content)
    assert all(before.end == after.start for before, after in pairwise(passages))
    assert all(passage.start < passage.end for passage in passages) or content == ""
    said = [content[passage.start : passage.end] for passage in passages]
    for text, part in zip(embedder.seen, said, strict=True):
        spoken, _, rest = text.rpartition(part) if part else (text, "", "")
        assert rest == ""
        assert name is None or (name.startswith(spoken.removesuffix(": ")) and spoken != "")


@given(content=any_text, name=any_name, tokens_max=st.integers(20, 600))
async def test_no_passage_is_longer_than_the_model_can_read(
    content: str, name: str | None, tokens_max: int
) -> None:
    splitting = Splitting(tokens_max=tokens_max, count_tokens=count_bytes)
    embedder = RecordingEmbedder()

    await embed_texts([EmbeddedText(name, content)], embedder, splitting=splitting)

    assert all(count_bytes(text) <= tokens_max for text in embedder.seen)


@pytest.mark.parametrize("name", [None, "Ada", "한국말을 쓰는 사람 " * 20, "😀" * 200])
async def test_every_passage_says_who_spoke(name: str | None) -> None:
    embedder = RecordingEmbedder()
    splitting = Splitting(tokens_max=100, count_tokens=count_bytes)

    await embed_texts([EmbeddedText(name, "word " * 100)], embedder, splitting=splitting)

    assert len(embedder.seen) > 1
    start = "word" if name is None else name[:3]
    assert all(text.startswith(start) for text in embedder.seen)


async def test_a_text_by_sentence_has_a_vector_for_each_and_none_says_who_spoke() -> None:
    embedder = RecordingEmbedder()
    said = ["The kettle whistles in the kitchen. ", "The cat sleeps on the warm stove."]
    text = EmbeddedText("Ada", "".join(said), units="sentences")

    (passages,) = await embed_texts([text], embedder, splitting=instant_splitting())

    assert embedder.seen == said
    assert [(one.start, one.end) for one in passages] == [(0, 36), (36, 69)]


ASIDE = "By the way, I just got a kitten called Biscuit from the shelter. "
MESSAGE = (
    "I would like to repaint the hallway and need advice on colours that suit a narrow room without"
    " any windows at all. "
    + ASIDE
    + "Which undercoat would you take for old plaster that has been papered over several times and"
    " has cracks along the whole ceiling?"
)


async def test_a_message_has_a_deep_vector_and_one_for_each_sentence_with_its_speaker() -> None:
    embedder = RecordingEmbedder()
    splitting = deep_splitting(embedder, await embedder.identify())

    (passages,) = await embed_texts(
        [EmbeddedText("Ada", MESSAGE, units="both")], embedder, splitting=splitting
    )

    sentences = message_sentences(MESSAGE)
    assert [(one.start, one.end) for one in passages] == [(0, len(MESSAGE)), *sentences]
    assert embedder.seen[0] == f"Ada: {MESSAGE}"
    assert embedder.seen[2] == f"Ada: {ASIDE}"


async def test_a_sentence_counts_a_little_less_than_the_message() -> None:
    embedder = HashedEmbedder()
    splitting = deep_splitting(embedder, await embedder.identify())

    (passages,) = await embed_texts(
        [EmbeddedText(None, MESSAGE, units="both")], embedder, splitting=splitting
    )

    rows = unpack_blobs([one.content for one in passages], dimensions=DIMENSIONS)
    lengths = np.linalg.norm(rows.codes * rows.scales[:, np.newaxis], axis=1)
    assert lengths == pytest.approx([1, *[SENTENCE_LENGTH] * 3], abs=1e-3)


@pytest.mark.parametrize("units", ["passages", "both"])
async def test_instant_vectors_and_those_of_notes_are_of_the_whole(units: Units) -> None:
    embedder = RecordingEmbedder()
    deep = deep_splitting(embedder, await embedder.identify())
    splitting = instant_splitting() if units == "both" else deep

    await embed_texts([EmbeddedText("Ada", MESSAGE, units)], embedder, splitting=splitting)

    assert embedder.seen == [f"Ada: {MESSAGE}"]


async def test_a_message_of_several_passages_has_no_sentences_beside_them() -> None:
    embedder = RecordingEmbedder()
    splitting = Splitting(tokens_max=100, count_tokens=count_bytes, is_deep=True)

    await embed_texts([EmbeddedText(None, MESSAGE, "both")], embedder, splitting=splitting)

    assert "".join(embedder.seen) == MESSAGE


@given(content=any_text, name=any_name, tokens_max=st.integers(20, 600))
async def test_sentences_fit_the_model_and_cover_the_text(
    content: str, name: str | None, tokens_max: int
) -> None:
    splitting = Splitting(tokens_max=tokens_max, count_tokens=count_bytes)
    embedder = RecordingEmbedder()

    await embed_texts(
        [EmbeddedText(name, content, units="sentences")], embedder, splitting=splitting
    )

    assert "".join(embedder.seen) == content
    assert all(count_bytes(text) <= tokens_max for text in embedder.seen)


async def test_an_empty_text_has_one_vector() -> None:
    embedder = RecordingEmbedder()

    embedded = await embed_texts(
        [EmbeddedText(None, ""), EmbeddedText("Ada", "")], embedder, splitting=instant_splitting()
    )

    assert [[(one.start, one.end) for one in passages] for passages in embedded] == [
        [(0, 0)],
        [(0, 0)],
    ]
    assert embedder.seen == ["", "Ada: "]


async def test_no_texts_have_no_vectors() -> None:
    assert await embed_texts([], HashedEmbedder(), splitting=instant_splitting()) == []


async def test_each_text_gets_the_vectors_of_its_own_passages() -> None:
    texts = [EmbeddedText(None, text) for text in ("red apple", "green pear " * 40, "", "plum")]
    splitting = Splitting(tokens_max=60, count_tokens=count_bytes)

    embedded = await embed_texts(texts, HashedEmbedder(), splitting=splitting)

    for text, passages in zip(texts, embedded, strict=True):
        own = [text.content[passage.start : passage.end] for passage in passages]
        expected = await HashedEmbedder().embed_passages(own)
        blobs = pack_blobs(quantise(expected, dimensions=DIMENSIONS))
        assert [passage.content for passage in passages] == blobs
    assert [len(passages) for passages in embedded] == [1, 8, 1, 1]
    rows = unpack_blobs([one.content for one in embedded[1]], dimensions=DIMENSIONS)
    assert np.isfinite(rows.scales).all()


async def test_a_word_of_a_megabyte_is_embedded_in_passages() -> None:
    embedder = RecordingEmbedder()
    content = "x" * 1_000_000
    splitting = Splitting(tokens_max=480, count_tokens=count_tokens_roughly)

    (passages,) = await embed_texts([EmbeddedText(None, content)], embedder, splitting=splitting)

    assert len(passages) == -(-1_000_000 // 1_440)
    assert "".join(embedder.seen) == content


async def test_a_long_text_is_split_and_embedded_some_passages_at_a_time() -> None:
    counted, counted_before = 0, list[int]()

    def count(text: str) -> int:
        nonlocal counted
        counted += 1
        return len(text)

    class Counting(RecordingEmbedder):
        async def embed_passages(self, passages: Sequence[str]) -> Vectors:
            counted_before.append(counted)
            return await super().embed_passages(passages)

    embedder = Counting()
    content = "word " * 4 * PASSAGES_TOGETHER
    splitting = Splitting(tokens_max=10, count_tokens=count)

    (passages,) = await embed_texts([EmbeddedText(None, content)], embedder, splitting=splitting)

    assert len(passages) == 2 * PASSAGES_TOGETHER
    assert "".join(embedder.seen) == content
    assert counted_before[0] < counted_before[1]


@pytest.mark.parametrize("content", ["x" * 10_000_000, "one two three\n" * 700_000])
def test_instant_vectors_of_a_long_message_are_of_its_beginning_alone(content: str) -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return count_tokens_roughly(text)

    splitting = replace(instant_splitting(), count_tokens=count)

    passages = list(splitting.passages(EmbeddedText(None, content)))

    assert len(passages) == limits.INSTANT_PASSAGES_MAX
    assert counted < len(content) // 20


@pytest.mark.parametrize("character", ["😀", "한", "語", "é", "x", " "])
@pytest.mark.parametrize("count", [1, 119, 120, 121, 160, 239, 240, 479, 480, 481, 2_000])
async def test_characters_of_any_length_in_bytes_fit(character: str, count: int) -> None:
    embedder = RecordingEmbedder()
    splitting = Splitting(tokens_max=480, count_tokens=count_bytes)

    await embed_texts([EmbeddedText(None, character * count)], embedder, splitting=splitting)

    assert max(map(count_bytes, embedder.seen)) <= 480
    assert "".join(embedder.seen) == character * count


async def test_deep_passages_fit_the_model_and_the_bound() -> None:
    embedder = HashedEmbedder()
    identity = await embedder.identify()

    splitting = deep_splitting(embedder, identity)

    assert splitting.tokens_max == limits.PASSAGE_TOKENS_MAX
    assert splitting.passages_max is None


async def test_an_embedder_that_cannot_be_asked_is_told() -> None:
    class Down(HashedEmbedder):
        async def embed_passages(self, passages: Sequence[str]) -> Vectors:
            raise EmbedderUnavailableError(str(len(passages)))

    with pytest.raises(EmbedderUnavailableError):
        await embed_texts([EmbeddedText(None, "text")], Down(), splitting=instant_splitting())
