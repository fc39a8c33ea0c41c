"""Sentences: they join back to the text, and each is long enough to mean something."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.limits import SENTENCE_CHARACTERS_MIN, SENTENCE_TOKENS_MAX
from engram.text.passages import count_tokens_roughly, iterate_sentences

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


@pytest.mark.parametrize("text", ["\n" * 2_000_000, "a. " * 700_000, "x" * 2_000_000])
def test_megabytes_of_anything_are_split_in_seconds(text: str) -> None:
    started = time.process_time()

    assert "".join(sentences_of(text)) == text

    assert time.process_time() - started < 10
