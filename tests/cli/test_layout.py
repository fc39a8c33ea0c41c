"""Text in the columns of a terminal: wrapped at words, with every id whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.cli.layout import table_lines, width_of, wrap_words

WORDS = st.lists(st.text("abcdé漢字", min_size=1, max_size=12), min_size=1, max_size=12)
ROW = ("conv_0123456789", "A title of several words that is long", "2026-11-17 09:30Z")


@given(WORDS, st.integers(2, 40))
def test_wrapping_splits_no_word_and_loses_none(words: list[str], width: int) -> None:
    lines = wrap_words(" ".join(words), width, indent="  ")

    assert [word for line in lines for word in line.split()] == words
    for line in lines:
        assert width_of(line) <= width or len(line.split()) == 1


def test_styles_take_no_columns() -> None:
    assert width_of("\x1b[1mbold\x1b[0m") == 4
    assert width_of("漢字e\u0301") == 5


def shown(width: int | None) -> list[str]:
    return [line for _, line in table_lines(("ID", "TITLE", "UPDATED"), [ROW], width=width)]


def test_a_table_that_fits_is_a_line_for_each_row() -> None:
    assert (
        shown(None)
        == shown(80)
        == [
            "ID               TITLE                                  UPDATED",
            "conv_0123456789  A title of several words that is long  2026-11-17 09:30Z",
        ]
    )


def test_a_table_that_is_too_wide_wraps_its_texts_and_nothing_else() -> None:
    assert shown(60) == [
        "ID               TITLE                     UPDATED",
        "conv_0123456789  A title of several words  2026-11-17 09:30Z",
        "                 that is long",
    ]


def test_a_row_that_cannot_fit_becomes_a_list() -> None:
    assert shown(30) == [
        "conv_0123456789",
        "  title    A title of several",
        "           words that is long",
        "  updated  2026-11-17 09:30Z",
    ]
