"""Every regular expression of the package takes linear time, whatever it is tried on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.patterns.collecting import (
    PackagePattern,
    held_patterns,
    hidden_patterns,
    package_modules,
    written_patterns,
)
from tests.patterns.growth import Growth, measure_growth
from tests.patterns.hostile import Hostile, hostile_texts
from tests.promises import promise

pytestmark = promise("linear")

EXPONENTIAL = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)
PARTS = 2
"""So that several processes share the longest test."""
QUADRATIC = re.compile(r"[.!?\u2026]+['\"]*(?=\s)")


def try_on(pattern: re.Pattern[Any], text: Any, method: str) -> None:
    """Use a pattern on a text; to replace all that match is what the other methods do."""
    match method:
        case "match":
            pattern.match(text)
        case "fullmatch":
            pattern.fullmatch(text)
        case _:
            pattern.subn(lambda _found: text[:0], text)


def growth_of(pattern: re.Pattern[Any], hostile: Hostile, method: str) -> Growth:
    """Return how a pattern's time grows with a text."""

    def work(size: int) -> Callable[[], object]:
        text = hostile.text(size)
        given = text.encode() if isinstance(pattern.pattern, bytes) else text
        return lambda: try_on(pattern, given, method)

    return measure_growth(work)


def superlinear(pattern: PackagePattern) -> Iterator[str]:
    """Yield what a pattern takes too long over, with the figures."""
    searches = {"finditer"} if pattern.methods - {"match", "fullmatch"} else set[str]()
    for method in sorted(pattern.methods & {"match", "fullmatch"} | searches):
        for hostile in hostile_texts(pattern.compiled):
            growth = growth_of(pattern.compiled, hostile, method)
            if not growth.is_linear:
                yield f"{pattern.place} {method} {hostile}: {growth}"
                break


@promise("fair")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_pattern_takes_twice_as_long_for_twice_the_text(part: int) -> None:
    patterns = {(each.compiled, each.methods): each for each in written_patterns(package_modules())}

    measured = [*patterns.values()][part::PARTS]

    assert measured
    assert [] == [found for pattern in measured for found in superlinear(pattern)]


def test_no_pattern_is_held_that_is_not_written_where_it_is_looked_for() -> None:
    modules = package_modules()
    written = {each.compiled for each in written_patterns(modules)}

    held = held_patterns(modules)

    assert held
    assert [] == [place for pattern, place in held.items() if pattern not in written]
    assert [] == hidden_patterns(modules)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (EXPONENTIAL, "match"),
        (QUADRATIC, "finditer"),
        (re.compile(r"(a+)+$"), "match"),
        (re.compile(r"(?:x|xx)*y"), "fullmatch"),
        (re.compile(r"\s*,\s*;"), "finditer"),
        (re.compile(r"^(\w+\s?)*$"), "match"),
    ],
)
def test_patterns_that_are_known_to_be_slow_are_found_out(
    pattern: re.Pattern[Any], method: str
) -> None:
    found = list(superlinear(PackagePattern("known", pattern, frozenset({method}))))

    assert 1 == len(found)


@pytest.mark.parametrize("source", [r"\w+", r"(?<!\s)\s*+,", r"(?<!a)a++b", r"a{0,900}b"])
def test_linear_patterns_pass(source: str) -> None:
    pattern = PackagePattern("linear", re.compile(source), frozenset({"match", "finditer"}))

    assert [] == list(superlinear(pattern))
