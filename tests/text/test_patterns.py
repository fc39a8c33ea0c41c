"""Searching streams for patterns: matches, limits and running time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from time import process_time

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError
from engram.model.document import Match
from engram.model.value import replace
from engram.text.patterns import Pattern, Scanner, regex, substring
from tests.promises import promise

PIECES = st.integers(1, 40)
TEXTS = st.text(alphabet="ab \né€😀", max_size=200)
PATTERNS = st.sampled_from(
    [
        "a",
        "ab?",
        "a{0,3}",
        "(a|ab)(b|)",
        "^a",
        "a$",
        "(?m)^b",
        "(?m)b$",
        r"\bab",
        r"é{1,4}",
        "[^a]",
        ".",
    ]
)


def scan(patterns: Sequence[Pattern], text: str, *, piece: int = 1 << 16) -> list[Match]:
    return list(_scanned(Scanner(patterns), text.encode(), piece))


def _scanned(scanner: Scanner, data: bytes, piece: int) -> Iterator[Match]:
    for start in range(0, len(data), piece):
        yield from scanner.feed(data[start : start + piece])
    yield from scanner.finish()


def found_in(text: str, matches: Sequence[Match]) -> list[tuple[int, str]]:
    return [(match.start, text[match.start : match.end]) for match in matches]


@given(TEXTS, PATTERNS, PIECES)
def test_a_pattern_is_found_where_the_library_finds_it(text: str, pattern: str, piece: int) -> None:
    # Slices of a few characters, so that most matches lie at a slice border.
    sliced = replace(regex(pattern, field="regex"), slice_bytes=40, reach_bytes=16)
    scanner = Scanner([sliced], block_bytes=8)

    matches = list(_scanned(scanner, text.encode(), piece))

    expected = [(each.start(), each.group()) for each in re2.finditer(pattern, text)]
    assert expected == found_in(text, matches)


@given(TEXTS, st.text(alphabet="ab é😀", min_size=1, max_size=3), PIECES)
def test_every_occurrence_of_a_text_is_found(text: str, needle: str, piece: int) -> None:
    expected = [(each.start(), needle) for each in re.finditer(re.escape(needle), text)]

    assert expected == found_in(text, scan([substring(needle, field="s")], text, piece=piece))


@given(TEXTS, PIECES)
def test_matches_of_several_patterns_come_in_order_with_their_bytes(text: str, piece: int) -> None:
    patterns = [substring("a", field="s"), substring("é", field="s"), regex("b+", field="regex")]

    matches = scan(patterns, text, piece=piece)

    assert sorted(match.start for match in matches) == [match.start for match in matches]
    for match in matches:
        data = text.encode()[match.start_byte : match.end_byte]
        assert data.decode() == text[match.start : match.end]
    assert len(matches) == text.count("a") + text.count("é") + len(re.findall("b+", text))


@pytest.mark.parametrize("piece", [997, 131_072])
def test_matches_at_the_edges_of_slices_are_found_once(piece: int) -> None:
    line = "".join(f"{'é' * (number % 9)}needle{number}\n" for number in range(60_000))
    patterns = [regex(r"(?m)^é*needle\d+$", field="regex"), substring("needle59999", field="s")]

    matches = scan(patterns, line, piece=piece)

    assert 60_001 == len(matches)
    assert line[:-1].split("\n") == [text for _, text in found_in(line, matches[:60_000])]


def test_an_anchor_means_the_whole_text_and_not_a_slice() -> None:
    text = "word " * 200_000 + "word"

    assert [(0, "word")] == found_in(text, scan([regex("^word", field="r")], text))
    assert [(1_000_000, "word")] == found_in(text, scan([regex("word$", field="r")], text))


@promise("linear")
def test_a_pattern_that_costs_others_their_afternoon_takes_no_time() -> None:
    text = "a" * 1_000_000 + "b"
    began = process_time()

    assert [] == scan([regex("(a+)+$", field="regex")], text)

    assert process_time() - began < limits.REGEX_S


def test_a_character_is_never_cut_by_a_pattern_of_bytes() -> None:
    assert [(0, "é"), (1, "é")] == found_in("éé", scan([regex(r"\C", field="regex")], "éé"))


@promise("linear")
def test_what_is_found_late_is_given_up() -> None:
    ticks = count()
    scanner = Scanner([regex("a", field="regex")], is_over=lambda: next(ticks) > 2)

    matches = [*scanner.feed(b"aaaaaa"), *scanner.finish()]

    assert 3 == len(matches)
    assert scanner.is_stopped


@pytest.mark.parametrize(
    "pattern", ["", "(", "a{2000}", "(?<=a)b", r"\1", "x**", "\ud800", "(?:a{0,999}b){9}"]
)
def test_what_is_no_pattern_is_refused_with_its_field(pattern: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        regex(pattern, field="filter.regex")

    assert "filter.regex" == refused.value.field


@promise("linear")
def test_lengths_are_bounded() -> None:
    regex("a" * limits.REGEX_CHARACTERS_MAX, field="filter.regex")
    with pytest.raises(LimitExceededError):
        regex("a" * (limits.REGEX_CHARACTERS_MAX + 1), field="filter.regex")
    with pytest.raises(LimitExceededError):
        substring("a" * (limits.SUBSTRING_CHARACTERS_MAX + 1), field="filter.substrings[0]")
    with pytest.raises(InvalidRequestError):
        substring("", field="filter.substrings[0]")
