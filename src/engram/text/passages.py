"""Split a text that is longer than a model can read into passages that join back to it.

A passage ends at the end of a paragraph where it can, else of a sentence, else of a word, and only
in a word that is itself too long between two characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engram.yielding import yield_to_others

TokenCount = Callable[[str], int]

SENTENCE_END = re.compile(r"[.!?\u2026]['\"\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]|\n")
"""Where a sentence or a line ends."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """What passages may be parted by: something, what may close a sentence, then white space."""

    pattern: re.Pattern[str]
    opening: re.Pattern[str]
    """What it begins with."""
    inside: str = ""
    """Characters after that with which it is none yet."""
    whole: str = ""
    """Characters that are one by themselves, whatever follows."""


_BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001))))
BOUNDARIES = (
    Boundary(re.compile(r"\n[^\S\n]*\n\s*"), re.compile(r"\n"), inside=_BLANKS),  # of paragraphs
    Boundary(
        SENTENCE_END,
        re.compile(r"[.!?\u2026\u3002\uff01\uff1f\n]"),
        inside="'\"\u201d\u2019)]",
        whole="\u3002\uff01\uff1f\n",
    ),
    Boundary(re.compile(r"\s+"), re.compile(r"\s")),  # of words
)
"""The coarsest first."""

_SLICE_CHARACTERS = 16_384
"""Looked through at once for a boundary, some 1 ms: no other thread can run meanwhile."""

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


def boundary_ends(
    text: str,
    boundary: Boundary,
    range_: Passage,
    *,
    slice_characters: int = _SLICE_CHARACTERS,
) -> Iterator[int]:
    """Yield where the boundaries in a range end, looking through a slice at a time."""
    place, size = range_.start, slice_characters
    while place < range_.end:
        yield_to_others()
        limit = min(place + size, range_.end)
        match = boundary.pattern.search(text, place, limit)
        following = limit
        if match is not None:
            following = match.end()
            if following == limit and match[0] not in boundary.whole:
                following = _after_space(text, limit, range_.end, slice_characters)
            yield following
        elif limit < range_.end:
            following = _may_begin(text, boundary, place, limit)
        size = slice_characters if following > place else size * 4
        place = following


def _after_space(text: str, place: int, end: int, slice_characters: int) -> int:
    """Return where white space ends that a place may stand in."""
    while place < end:
        looked_at = text[place : min(place + slice_characters, end)]
        after = len(looked_at.lstrip())
        place += len(looked_at) - after
        if after:
            break
    return place


def _may_begin(text: str, boundary: Boundary, place: int, limit: int) -> int:
    """Return where a boundary may begin that goes on after `limit`, and `limit` if none does."""
    before = len(text[place:limit].rstrip(boundary.inside)) if boundary.inside else limit - place
    opening = boundary.opening.search(text, place + max(before - 1, 0), limit)
    return limit if opening is None else opening.start()


@dataclass(frozen=True, slots=True)
class _Splitter:
    text: str
    tokens_max: int
    count_tokens: TokenCount

    def split(self, whole: Passage, *, level: int) -> Iterator[Passage]:
        """Yield passages of `whole` that fit, cut at the boundaries of `level` or finer ones."""
        if whole.end - whole.start <= 1 or self._count(whole) <= self.tokens_max:
            yield whole
        elif level == len(BOUNDARIES):
            yield from self._cut(whole)
        else:
            for packed in self._pack(self._pieces(whole, BOUNDARIES[level])):
                yield from self.split(packed, level=level + 1)

    def _pieces(self, whole: Passage, boundary: Boundary) -> Iterator[Passage]:
        """Yield what lies between the boundaries, each with the boundary that ends it."""
        start = whole.start
        for end in boundary_ends(self.text, boundary, whole):
            yield Passage(start, end)
            start = end
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
        start, guess = whole.start, self.tokens_max
        while start < whole.end:
            end = self._last_fitting_end(start, whole.end, guess=guess)
            yield Passage(start, end)
            start, guess = end, end - start

    def _last_fitting_end(self, start: int, end: int, *, guess: int) -> int:
        """Return where the longest passage from `start` ends.

        Neighbours are about as long as each other. So a search that begins at the length of the last
        passage, in strides that double, mostly counts two texts, where halving counts a dozen.
        """
        fitting = 1
        too_long = min(end - start, self.tokens_max * _CHARACTERS_PER_TOKEN_MAX) + 1
        length, stride = guess, 1
        while too_long - fitting > 1:
            if not fitting < length < too_long:
                length = (fitting + too_long) // 2
            if self._count(Passage(start, start + length)) <= self.tokens_max:
                fitting, length = length, length + stride
            else:
                too_long, length = length, length - stride
            stride *= 2
        return start + fitting

    def _count(self, passage: Passage) -> int:
        yield_to_others()
        return self.count_tokens(self.text[passage.start : passage.end])
