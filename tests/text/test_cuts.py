"""Where a text is cut, and that finding the cut takes linear time in hostile texts."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from engram.text.documents import chunk_document, last_cut
from tests.patterns.growth import measure_growth

TIMES_PROSE_MAX = 40
"""Prose has a sentence end near each cut; other texts may have to be searched whole."""


def took(text: str) -> float:
    """Return the CPU seconds that chunking a text takes, the best of several runs."""

    def once() -> float:
        start = time.thread_time()
        chunk_document(text)
        return time.thread_time() - start

    return min(once() for _ in range(5))


@pytest.mark.parametrize("unit", [".", "!?", ".'", "\u2026", "\u3002", ". ", ".a"])
def test_a_run_of_stops_is_looked_at_once(unit: str) -> None:
    def work(size: int) -> Callable[[], object]:
        text = unit * (size // len(unit)) + "x"
        return lambda: last_cut(text, 0, len(text))

    growth = measure_growth(work)

    assert growth.is_linear, growth


def test_a_document_of_dots_costs_about_what_prose_does() -> None:
    prose = "The tanuki crossed the river. Nobody saw it, for it was night. " * 800
    dots = "." * len(prose)

    assert took(dots) < TIMES_PROSE_MAX * took(prose)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One two. Three four", "One two. "),
        ("Dr. Who", "Dr. "),
        ("He said 'no.' Then", "He said 'no.' "),
        ("a...b c", "a...b "),
        ("\u4e00\u4e8c\u3002\u4e09", "\u4e00\u4e8c\u3002"),
        ("...", "..."),
    ],
)
def test_the_best_place_is_after_a_sentence_else_after_a_word(text: str, first: str) -> None:
    assert first == text[: last_cut(text, 0, len(text))]
