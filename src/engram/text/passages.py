"""Split texts into passages that fit a model's context window, or into sentences.

Passages and sentences join back to the text. A passage ends after a paragraph if possible, else after a
sentence, else after a word, and only in an overlong word between two characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from engram import limits
from engram.text.tokens import count_tokens
from engram.yielding import yield_to_others

TokenCount = Callable[[str], int]

SENTENCE_END = re.compile(r"[.!?\u2026]['\"\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]|\n")
"""The end of a sentence or line."""


class Boundary(NamedTuple):
    """A separator between passages, with what is needed to find it across slice borders.

    A separator is an opening character, optional closing quotes or brackets, and white space.
    """

    pattern: re.Pattern[str]
    opening: re.Pattern[str]
    """Its first character."""
    inside: str = ""
    """Characters that may follow the first while the match is still incomplete."""
    whole: str = ""
    """Characters that are a complete separator, whatever follows."""


_BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001))))
BOUNDARIES = (
    Boundary(re.compile(r"\n[^\S\n]*\n\s*"), re.compile(r"\n"), inside=_BLANKS),  # paragraphs
    Boundary(
        SENTENCE_END,
        re.compile(r"[.!?\u2026\u3002\uff01\uff1f\n]"),
        inside="'\"\u201d\u2019)]",
        whole="\u3002\uff01\uff1f\n",
    ),
    Boundary(re.compile(r"\s+"), re.compile(r"\s")),  # words
)
"""Coarsest first."""

_SLICE_CHARACTERS = 16_384
"""Searched in one call, about 1 ms: `re` holds the GIL meanwhile."""

CHARACTERS_PER_TOKEN_MAX = 16
"""More count as further tokens: a tokenizer that makes one of a word of megabytes, or none of its control
characters, takes sixty bytes for each of their characters, in one go."""


class Passage(NamedTuple):
    """A half-open range of a text's characters."""

    start: int
    end: int


def count_tokens_roughly(text: str) -> int:
    """Return a cheap, mostly high estimate of the tokens of a text: one per three bytes."""
    return -(-len(text.encode()) // 3)


def split_passages(
    text: str, *, tokens_max: int, count_tokens: TokenCount = count_tokens_roughly
) -> list[Passage]:
    """Return the passages of a text in order: at least one, each of at most `tokens_max` tokens.

    A passage only exceeds that if a single character does.
    """
    return list(iterate_passages(text, tokens_max=tokens_max, count_tokens=count_tokens))


def iterate_passages(
    text: str, *, tokens_max: int, count_tokens: TokenCount = count_tokens_roughly
) -> Iterator[Passage]:
    """Yield the passages of `split_passages` lazily."""
    splitter = _Splitter(text, tokens_max, count_tokens)
    return splitter.split(Passage(0, len(text)), level=0)


def iterate_sentences(text: str) -> Iterator[Passage]:
    """Yield the sentences and lines of a text in order: at least one.

    A sentence too short to mean anything is joined with the next; one that is too long is split
    into passages.
    """
    for sentence in join_short_sentences(text, _visible_characters, limits.SENTENCE_CHARACTERS_MIN):
        yield from _split_long_sentence(text, sentence)


def join_short_sentences(
    text: str, measure: Callable[[str], int], size_min: int
) -> Iterator[Passage]:
    """Yield sentences joined with short ones before them; a short end joins the last sentence.

    A sentence is short if its parts measure less than `size_min` together.
    """
    pending: Passage | None = None
    start = begin = size = 0
    for match in SENTENCE_END.finditer(text):
        yield_to_others()
        size += measure(text[begin : match.end()])
        begin = match.end()
        if size < size_min:
            continue
        if pending is not None:
            yield pending
        pending, start, size = Passage(start, begin), begin, 0
    if pending is None or measure(text[start:]) >= size_min:
        if pending is not None:
            yield pending
        yield Passage(start, len(text))
    else:
        yield Passage(pending.start, len(text))


def boundary_ends(
    text: str,
    boundary: Boundary,
    range_: Passage,
    *,
    slice_characters: int = _SLICE_CHARACTERS,
) -> Iterator[int]:
    """Yield the ends of the boundaries in a range, searching one slice at a time."""
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
    """Return the end of the white space at a position."""
    while place < end:
        looked_at = text[place : min(place + slice_characters, end)]
        after = len(looked_at.lstrip())
        place += len(looked_at) - after
        if after:
            break
    return place


def _may_begin(text: str, boundary: Boundary, place: int, limit: int) -> int:
    """Return the start of a boundary that may continue after `limit`, else `limit`."""
    before = len(text[place:limit].rstrip(boundary.inside)) if boundary.inside else limit - place
    opening = boundary.opening.search(text, place + max(before - 1, 0), limit)
    return limit if opening is None else opening.start()


class _Splitter(NamedTuple):
    text: str
    tokens_max: int
    count_tokens: TokenCount

    def split(self, whole: Passage, *, level: int) -> Iterator[Passage]:
        """Yield passages of `whole` that fit, split at boundaries of `level` or finer."""
        if whole.end - whole.start <= 1 or self._count(whole) <= self.tokens_max:
            yield whole
        elif level == len(BOUNDARIES):
            yield from self._cut(whole)
        else:
            for packed in self._pack(self._pieces(whole, BOUNDARIES[level])):
                yield from self.split(packed, level=level + 1)

    def _pieces(self, whole: Passage, boundary: Boundary) -> Iterator[Passage]:
        """Yield the pieces between boundaries, each including the boundary at its end."""
        start = whole.start
        for end in boundary_ends(self.text, boundary, whole):
            yield Passage(start, end)
            start = end
        if start < whole.end:
            yield Passage(start, whole.end)

    def _pack(self, pieces: Iterator[Passage]) -> Iterator[Passage]:
        """Join neighbours while their counts add up to a passage; each is counted once."""
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
        """Yield the longest passages that fit, cutting words anywhere."""
        start, guess = whole.start, self.tokens_max
        while start < whole.end:
            end = self._last_fitting_end(start, whole.end, guess=guess)
            yield Passage(start, end)
            start, guess = end, end - start

    def _last_fitting_end(self, start: int, end: int, *, guess: int) -> int:
        """Return the end of the longest passage from `start` that fits.

        Neighbouring passages are about equally long. So a galloping search from the length of the
        last one mostly counts two texts, where bisection counts a dozen.
        """
        fitting = 1
        too_long = min(end - start, self.tokens_max * CHARACTERS_PER_TOKEN_MAX) + 1
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
        """Return the tokens of a passage; of one that is far too long a lower bound."""
        yield_to_others()
        least = -(-(passage.end - passage.start) // CHARACTERS_PER_TOKEN_MAX)
        if least > self.tokens_max:
            return least
        return max(least, self.count_tokens(self.text[passage.start : passage.end]))


def _visible_characters(text: str) -> int:
    return len(text.strip())


def _split_long_sentence(text: str, sentence: Passage) -> Iterator[Passage]:
    content = text[sentence.start : sentence.end]
    if count_tokens_roughly(content) <= limits.SENTENCE_TOKENS_MAX:
        yield sentence
        return
    for part in iterate_passages(content, tokens_max=limits.SENTENCE_TOKENS_MAX):
        yield Passage(sentence.start + part.start, sentence.start + part.end)


SENTENCES_UPTO_CHARACTERS = limits.SENTENCES_UPTO_TOKENS * CHARACTERS_PER_TOKEN_MAX


def message_sentences(content: str) -> list[Passage]:
    """Return the sentences of a message that have vectors of their own beside the message's.

    They join back to the content. A sentence of fewer than about eight words is joined with the next.
    There are none in a message too short or too long for them, or of a single sentence.
    """
    if len(content) > SENTENCES_UPTO_CHARACTERS:
        return []
    if not limits.SENTENCES_FROM_TOKENS <= count_tokens(content) <= limits.SENTENCES_UPTO_TOKENS:
        return []
    sentences = list(
        join_short_sentences(content, _visible_tokens, limits.MESSAGE_SENTENCE_TOKENS_MIN)
    )
    return sentences if len(sentences) > 1 else []


def _visible_tokens(text: str) -> int:
    """Return the tokens of a text without those of the white space around it."""
    return count_tokens(text.strip())
