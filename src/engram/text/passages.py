"""Split a text that is longer than a model can read into passages that join back to it.

A passage ends at the end of a paragraph where it can, else of a sentence, else of a word, and only
in a word that is itself too long between two characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

TokenCount = Callable[[str], int]

SENTENCE_END = re.compile(r"[.!?\u2026]['\"\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]|\n")
"""Where a sentence or a line ends."""

_BOUNDARIES = (
    re.compile(r"\n[^\S\n]*\n\s*"),  # of paragraphs
    SENTENCE_END,
    re.compile(r"\s+"),  # of words
)
_CHARACTERS_PER_TOKEN_MAX = 16
"""Longer guesses at a passage's end would only be counted in vain."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A range of a text's characters, from `start` up to but not including `end`."""

    start: int
    end: int


def count_tokens_roughly(text: str) -> int:
    """Return about as many tokens as a model counts at most: one for three bytes."""
    return -(-len(text.encode()) // 3)


def split_passages(
    text: str, *, tokens_max: int, count_tokens: TokenCount = count_tokens_roughly
) -> list[Passage]:
    """Return the passages of a text in order: at least one, each of at most `tokens_max` tokens.

    Only a single character that is counted as more makes a longer passage.
    """
    return list(iterate_passages(text, tokens_max=tokens_max, count_tokens=count_tokens))


def iterate_passages(
    text: str, *, tokens_max: int, count_tokens: TokenCount = count_tokens_roughly
) -> Iterator[Passage]:
    """Yield the passages of `split_passages`; those nobody takes cost nothing."""
    splitter = _Splitter(text, tokens_max, count_tokens)
    return splitter.split(Passage(0, len(text)), level=0)


@dataclass(frozen=True, slots=True)
class _Splitter:
    text: str
    tokens_max: int
    count_tokens: TokenCount

    def split(self, whole: Passage, *, level: int) -> Iterator[Passage]:
        """Yield passages of `whole` that fit, cut at the boundaries of `level` or finer ones."""
        if whole.end - whole.start <= 1 or self._count(whole) <= self.tokens_max:
            yield whole
        elif level == len(_BOUNDARIES):
            yield from self._cut(whole)
        else:
            for packed in self._pack(self._pieces(whole, _BOUNDARIES[level])):
                yield from self.split(packed, level=level + 1)

    def _pieces(self, whole: Passage, boundary: re.Pattern[str]) -> Iterator[Passage]:
        """Yield what lies between the boundaries, each with the boundary that ends it."""
        start = whole.start
        for match in boundary.finditer(self.text, whole.start, whole.end):
            yield Passage(start, match.end())
            start = match.end()
        if start < whole.end:
            yield Passage(start, whole.end)

    def _pack(self, pieces: Iterator[Passage]) -> Iterator[Passage]:
        """Join neighbours as long as their counts fit together; each is counted once."""
        packed = next(pieces)
        tokens = self._count(packed)
        for piece in pieces:
            added = self._count(piece)
            if tokens + added <= self.tokens_max:
                packed, tokens = Passage(packed.start, piece.end), tokens + added
            else:
                yield packed
                packed, tokens = piece, added
        yield packed

    def _cut(self, whole: Passage) -> Iterator[Passage]:
        """Yield the longest passages that fit, however words are cut."""
        start = whole.start
        while start < whole.end:
            end = self._last_fitting_end(start, whole.end)
            yield Passage(start, end)
            start = end

    def _last_fitting_end(self, start: int, end: int) -> int:
        low, high = start + 1, min(end, start + self.tokens_max * _CHARACTERS_PER_TOKEN_MAX)
        while low < high:
            middle = (low + high + 1) // 2
            if self._count(Passage(start, middle)) <= self.tokens_max:
                low = middle
            else:
                high = middle - 1
        return low

    def _count(self, passage: Passage) -> int:
        return self.count_tokens(self.text[passage.start : passage.end])
