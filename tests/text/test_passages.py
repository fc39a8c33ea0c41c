"""Passages: they join back to the text, fit the model, and end where a reader would pause."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.text.passages import (
    BOUNDARIES,
    CHARACTERS_PER_TOKEN_MAX,
    Boundary,
    Passage,
    boundary_ends,
    count_tokens_roughly,
    split_passages,
)
from tests.patterns.growth import measure_growth

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=400),
    st.text("ab.!?\n 。é語", max_size=400),
)


def passages_of(text: str, tokens_max: int) -> list[str]:
    passages = split_passages(text, tokens_max=tokens_max, count_tokens=len)
    return [text[passage.start : passage.end] for passage in passages]


@given(text=TEXTS, tokens_max=st.integers(1, 50))
def test_passages_join_back_to_the_text_and_fit(text: str, tokens_max: int) -> None:
    passages = split_passages(text, tokens_max=tokens_max)

    texts = [text[passage.start : passage.end] for passage in passages]
    assert "".join(texts) == text
    assert passages[0].start == 0
    assert all(count_tokens_roughly(part) <= tokens_max or len(part) == 1 for part in texts)
    assert all(texts) or texts == [""]


@given(text=TEXTS, tokens_max=st.integers(1, 50))
def test_a_count_that_does_not_add_up_still_fits(text: str, tokens_max: int) -> None:
    def count_with_marks(part: str) -> int:
        return len(part) + 2

    passages = split_passages(text, tokens_max=tokens_max, count_tokens=count_with_marks)

    texts = [text[passage.start : passage.end] for passage in passages]
    assert "".join(texts) == text
    assert all(count_with_marks(part) <= tokens_max or len(part) <= 1 for part in texts)


def test_a_text_without_boundaries_is_counted_a_few_times_for_each_passage() -> None:
    counted = 0

    def count(part: str) -> int:
        nonlocal counted
        counted += 1
        return len(part)

    passages = split_passages("x" * 100_000, tokens_max=500, count_tokens=count)

    assert {passage.end - passage.start for passage in passages} == {500}
    assert counted < 3 * len(passages)


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("", [""]),
        ("short", ["short"]),
        ("One one.\n\nTwo two.\n\nThree.", ["One one.\n\n", "Two two.\n\n", "Three."]),
        ("One one. Two. Three three.", ["One one. ", "Two. ", "Three three."]),
        ("one two three four", ["one two ", "three four"]),
        ("abcdefghijklmnopqrst", ["abcdefghijkl", "mnopqrst"]),
        ("これは本。あれは猫だと思います。", ["これは本。", "あれは猫だと思います。"]),
    ],
)
def test_a_passage_ends_at_the_best_boundary_there_is(text: str, passages: list[str]) -> None:
    assert passages_of(text, 12) == passages


def test_ten_megabytes_without_a_space_are_split_in_linear_time() -> None:
    def work(size: int) -> Callable[[], object]:
        return partial(split_passages, "x" * size, tokens_max=480)

    growth = measure_growth(work, size_max=1_048_576)

    assert growth.is_linear, growth
    passages = split_passages("x" * 10_000_000, tokens_max=480)
    assert max(passage.end - passage.start for passage in passages) == 1440


@pytest.mark.parametrize("text", ["x" * 100_000, "\x01" * 100_000, f"{'x' * 300} " * 300])
def test_no_passage_is_long_because_a_tokenizer_makes_little_of_it(text: str) -> None:
    counted = list[int]()

    def count_words(part: str) -> int:
        counted.append(len(part))
        return len(part.split())

    passages = split_passages(text, tokens_max=100, count_tokens=count_words)

    longest = 100 * CHARACTERS_PER_TOKEN_MAX
    assert max(counted) <= longest
    assert max(passage.end - passage.start for passage in passages) <= longest
    assert "".join(text[passage.start : passage.end] for passage in passages) == text


@pytest.mark.parametrize("boundary", BOUNDARIES)
@given(st.text("ab.!\"') \n\t\u3002"), st.integers(1, 9))
def test_boundaries_are_the_same_in_slices(
    boundary: Boundary, text: str, slice_characters: int
) -> None:
    whole = [match.end() for match in boundary.pattern.finditer(text)]

    sliced = boundary_ends(text, boundary, Passage(0, len(text)), slice_characters=slice_characters)

    assert whole == list(sliced)
