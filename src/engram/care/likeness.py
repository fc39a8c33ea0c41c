"""How alike two texts are, by the runs of characters they share."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from engram.text.english import STOP_WORDS

JACCARD_MIN = 0.85
"""Share of character bigrams that near-duplicates have in common."""

COMBINED_MIN = 0.80
"""What `JACCARD_WEIGHT` of the share and the rest of the cosine come to, at least."""

JACCARD_WEIGHT = 0.7

LONG_CHARACTERS = 1_000
"""Longer texts of one language share most bigrams by chance, so longer runs must agree as well."""

LONG_RUN = 9
LONG_JACCARD_MIN = 0.7

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"\w+")
_THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")


@dataclass(frozen=True, slots=True)
class Likeness:
    """What speaks for two texts saying the same."""

    jaccard: float
    cosine: float | None = None
    """None where nothing embeds: then the bigrams decide alone."""

    @property
    def combined(self) -> float:
        """Return both in one figure, from 0 to 1."""
        if self.cosine is None:
            return self.jaccard
        return JACCARD_WEIGHT * self.jaccard + (1 - JACCARD_WEIGHT) * self.cosine

    @property
    def is_confirmed(self) -> bool:
        """Return True if the texts are near-duplicates."""
        return self.jaccard >= JACCARD_MIN and self.combined >= COMBINED_MIN


def folded(text: str) -> str:
    """Return a text without what makes no difference: case, width, and how words are spaced."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def runs(text: str, *, length: int = 2) -> frozenset[str]:
    """Return the runs of `length` characters in a folded text; a shorter text is one run."""
    if len(text) <= length:
        return frozenset((text,))
    return frozenset(text[start : start + length] for start in range(len(text) - length + 1))


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return what two sets have in common, as a share of what they have together."""
    together = len(first | second)
    return len(first & second) / together if together else 1.0


def compare_letters(first: str, second: str) -> float:
    """Return the share of bigrams of two texts, 0 where they are known to say something else."""
    if _speak_of_others(first, second):
        return 0.0
    first, second = folded(first), folded(second)
    if max(len(first), len(second)) > LONG_CHARACTERS:
        long = jaccard(runs(first, length=LONG_RUN), runs(second, length=LONG_RUN))
        if long < LONG_JACCARD_MIN:
            return 0.0
    return jaccard(runs(first), runs(second))


def _speak_of_others(first: str, second: str) -> bool:
    """Return True if two texts, however alike, are facts about different things.

    They are where they differ in a number (ports, dates, versions, amounts), or where each names
    somebody or something that the other does not.
    """
    if _numbers(first) != _numbers(second):
        return True
    words = [_words(text) for text in (first, second)]
    known = [{word.casefold() for word in each} for each in words]
    return bool(_names(words[0]) - known[1]) and bool(_names(words[1]) - known[0])


def _words(text: str) -> list[str]:
    found: list[str] = _WORD.findall(unicodedata.normalize("NFKC", text))
    return found


def _names(words: Sequence[str]) -> set[str]:
    """Return what is written with a capital, but for words that often begin a sentence."""
    return {word.casefold() for word in words if word[0].isupper()} - STOP_WORDS


def _numbers(text: str) -> list[str]:
    """Return the numbers of a text in some fixed order, written in one way."""
    found: list[str] = _NUMBER.findall(text)
    return sorted(_THOUSANDS.sub("", number) for number in found)
