"""Sentences: they join back to the text, and each is long enough to mean something."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.limits import (
    MESSAGE_SENTENCE_TOKENS_MIN,
    SENTENCE_CHARACTERS_MIN,
    SENTENCE_TOKENS_MAX,
    SENTENCES_FROM_TOKENS,
    SENTENCES_UPTO_TOKENS,
)
from engram.text.passages import count_tokens_roughly, iterate_sentences, message_sentences
from engram.text.tokens import count_tokens
from tests.patterns.growth import measure_growth

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=2_000),
    st.text("ab.!?\n 。é語", max_size=2_000),
    st.lists(
        st.sampled_from(
            ["Short. ", "A sentence that is as long as sentences are. ", "\n\n", "x" * 99]
        )
    ).map("".join),
)


def sentences_of(text: str) -> list[str]:
    return [text[sentence.start : sentence.end] for sentence in iterate_sentences(text)]


@given(text=TEXTS)
def test_sentences_join_back_to_the_text_and_fit(text: str) -> None:
    sentences = sentences_of(text)

    assert "".join(sentences) == text
    assert all(sentences) or sentences == [""]
    assert all(count_tokens_roughly(each) <= SENTENCE_TOKENS_MAX for each in sentences)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", [""]),
        ("Yes. No.", ["Yes. No."]),
        (
            "The kettle whistles in the kitchen. The cat sleeps on the warm stove.",
            ["The kettle whistles in the kitchen. ", "The cat sleeps on the warm stove."],
        ),
        (
            "Yes! The kettle whistles in the kitchen. So?",
            ["Yes! The kettle whistles in the kitchen. So?"],
        ),
        (
            "## Breakfast in the northern house\n\nThe kettle whistles in the kitchen.\n",
            ["## Breakfast in the northern house\n", "\nThe kettle whistles in the kitchen.\n"],
        ),
    ],
)
def test_a_sentence_stands_alone_unless_it_is_short(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


def test_a_sentence_without_an_end_is_cut_between_words() -> None:
    sentences = sentences_of("never ending " * 100)

    assert len(sentences) > 1
    assert all(each.endswith(" ") for each in sentences)


def test_no_sentence_but_the_last_is_short() -> None:
    shortest = "x" * (SENTENCE_CHARACTERS_MIN - 1) + "\n"

    *others, last = sentences_of(shortest * 3 + "Yes.\nNo.\n" * 30 + "x" * 50)

    assert all(len(each.strip()) >= SENTENCE_CHARACTERS_MIN for each in others)
    assert last.endswith("x" * 50)


@pytest.mark.parametrize("unit", ["\n", "a. ", "x"])
def test_megabytes_of_anything_are_split_in_linear_time(unit: str) -> None:
    text = unit * 700_000

    growth = measure_growth(lambda size: partial(sentences_of, unit * size), size_max=65_536)

    assert growth.is_linear, growth
    assert "".join(sentences_of(text)) == text


def sentences_of_message(content: str) -> list[str]:
    return [content[sentence.start : sentence.end] for sentence in message_sentences(content)]


ASIDE = [
    (
        "I would like to repaint the hallway and need advice on colours that suit a narrow room"
        " without any windows at all. "
    ),
    "By the way, I just got a kitten called Biscuit from the shelter. ",
    (
        "Which undercoat would you take for old plaster that has been papered over several times"
        " and has cracks along the ceiling? Thanks!"
    ),
]


@given(
    content=TEXTS
    | st.lists(
        st.sampled_from(["Yes. ", "No, never!\n", "words and more words in a row here. ", "語。"]),
        max_size=60,
    ).map("".join)
)
def test_sentences_of_a_message_join_back_to_it_and_are_at_least_two(content: str) -> None:
    sentences = sentences_of_message(content)

    if sentences:
        assert "".join(sentences) == content
        assert len(sentences) > 1
        assert all(each.strip() for each in sentences)
        assert SENTENCES_FROM_TOKENS <= count_tokens(content) <= SENTENCES_UPTO_TOKENS


@given(
    content=st.lists(
        st.sampled_from(["Yes. ", "No, never!\n", "\n\n\n\n\n\n", "words in a row here. "]),
        max_size=60,
    ).map("".join)
)
def test_no_sentence_of_a_message_has_fewer_than_about_eight_words(content: str) -> None:
    sentences = [each.strip() for each in sentences_of_message(content)]

    assert all(count_tokens(each) >= MESSAGE_SENTENCE_TOKENS_MIN for each in sentences)


def test_an_aside_in_a_message_is_a_sentence_and_short_ones_join_others() -> None:
    assert sentences_of_message("".join(ASIDE)) == ASIDE


@pytest.mark.parametrize(
    "content",
    [
        "",
        "The kettle whistles in the kitchen. The cat sleeps on the warm stove tonight.",
        "word " * 100,
        "".join(ASIDE) * 4,
        "A long sentence that goes on in the same way and never ends. " * 100_000,
    ],
    ids=["nothing", "short", "one sentence", "long", "megabytes"],
)
def test_short_long_and_single_sentences_are_not_divided(content: str) -> None:
    assert message_sentences(content) == []


def test_sentences_without_spaces_are_found_too() -> None:
    content = "我们明天早上在港口的咖啡馆见面然后一起坐船去那个小岛。" * 4

    assert sentences_of_message(content) == [content[: len(content) // 4]] * 4
