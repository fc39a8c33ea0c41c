"""Excerpts stay within their limits, split no character, and state whether they were cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.text.excerpts import BRIEF_CHARACTERS, brief, cut

texts = st.text(max_size=300)


@given(texts, st.integers(0, 400))
def test_an_excerpt_is_the_beginning_and_says_whether_there_is_more(text: str, most: int) -> None:
    shown = cut(text, most)

    assert text.startswith(shown.text)
    assert len(shown.text) <= most
    assert shown.is_cut == (shown.text != text)


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("cafe\u0301s", 4, "caf"),
        ("a\U0001f469\u200d\U0001f467b", 2, "a"),
        ("a\U0001f44d\U0001f3fdb", 2, "a"),
        ("a\u2764\ufe0fb", 2, "a"),
    ],
)
def test_what_is_written_as_one_character_stays_together(
    text: str, most: int, expected: str
) -> None:
    assert cut(text, most).text == expected


def test_a_letter_under_a_heap_of_marks_is_cut_all_the_same() -> None:
    assert len(cut("a" + "\u0301" * 1_000, 500).text) > 0


@given(texts)
def test_a_brief_is_one_short_line(text: str) -> None:
    line = brief(text)

    assert len(line.splitlines()) <= 1
    assert len(line) <= BRIEF_CHARACTERS + 2


def test_a_brief_ends_with_a_sentence() -> None:
    text = "The first sentence. The second one! " + "A third that goes on and on " * 10

    assert brief(text) == "The first sentence. The second one! …"
    assert brief("Short\nenough.") == "Short enough."
