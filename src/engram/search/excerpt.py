"""Find the part of a long text that matches a query: neighbouring sentences, within a number of tokens."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from engram import limits
from engram.text.folding import fold
from engram.text.passages import Passage, iterate_sentences
from engram.text.tokens import count_tokens
from engram.yielding import yield_to_others

STEM_CHARACTERS_MIN = 5
"""Of words this long the last letter is ignored: stems differ there from what is written (happi, happy)."""

MEANING_WEIGHT = 0.3
"""A passage is many sentences long, so it says less about one of them than the words in it do."""

CONTEXT_SHARE = 0.4
"""The share of an excerpt up to which sentences without a word of the query join it."""

SURROUNDING_CHARACTERS = 2_000
"""What is scanned on each side of a place of interest in a very long text."""

EXACT_PLACES_MAX = 32
"""Exact matches whose surroundings are scanned in a very long text."""

_PART = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Za-z])(?=[0-9])")
"""Where the next part of an identifier begins."""

_WRITTEN = re.compile(r"\S{1,64}")
"""A word with the punctuation around it; longer runs are taken apart."""


class NearPassage(NamedTuple):
    """A passage and how near it is to the query: 0 is no sign of relevance, 1 a good one."""

    start: int
    end: int
    value: float


class _Sentence(NamedTuple):
    start: int
    end: int
    words: float
    """The weight of the query's words that it contains, of all that the text contains."""
    meaning: float
    """The value of the passage that it lies in."""

    @property
    def value(self) -> float:
        return self.words + MEANING_WEIGHT * min(max(self.meaning, 0.0), 1.0)


def find_excerpt(
    content: str, terms: Iterable[str], *, near: Sequence[NearPassage], tokens_max: int
) -> Passage:
    """Return the range of the best sentence of a text, and its neighbours as far as they fit.

    A sentence is worth the words of the query that it contains, those that are rare in the text more,
    and the passage that it lies in.

    Args:
        terms: words of the query, as the index has them.
        near: passages with vectors, in order; without them words decide alone.
    """
    stems = {term[:-1] if len(term) >= STEM_CHARACTERS_MIN else term for term in terms}
    sentences = _valued(content, stems, near)
    best = max(range(len(sentences)), key=lambda index: (sentences[index].value, -index))
    first = last = best
    tokens = count_tokens(_text(content, sentences[best]))
    while beside := [
        index
        for index in (last + 1, first - 1)
        if 0 <= index < len(sentences) and _touches(sentences, index, first, last)
    ]:
        chosen = max(beside, key=lambda index: (sentences[index].value, -abs(index - best)))
        tokens += count_tokens(_text(content, sentences[chosen]))
        has_words = sentences[chosen].words > 0
        if tokens > (tokens_max if has_words else tokens_max * CONTEXT_SHARE):
            break
        first, last = min(first, chosen), max(last, chosen)
    return _trimmed(content, Passage(sentences[first].start, sentences[last].end))


def _valued(content: str, stems: set[str], near: Sequence[NearPassage]) -> list[_Sentence]:
    """Return the sentences that are scanned, with their values."""
    ranges = [
        Passage(region.start + each.start, region.start + each.end)
        for region in _regions(content, stems, near)
        for each in iterate_sentences(content[region.start : region.end])
    ]
    contained = [_contained(content, each, stems) for each in ranges]
    holding = Counter(stem for each in contained for stem in each)
    weights = {stem: math.log1p(len(ranges) / count) for stem, count in holding.items()}
    total = sum(weights.values()) or 1.0
    meanings = _meanings(ranges, near)
    return [
        _Sentence(*each, sum(weights[stem] for stem in words) / total, meaning)
        for each, words, meaning in zip(ranges, contained, meanings, strict=True)
    ]


def _contained(content: str, sentence: Passage, stems: set[str]) -> list[str]:
    yield_to_others()
    text = content[sentence.start : sentence.end]
    # An identifier contains its parts, which are words of a query for it too.
    folded = fold(f"{text} {_PART.sub(' ', text)}" if _PART.search(text) else text).casefold()
    return [stem for stem in stems if _begins_word(folded, stem)]


def _begins_word(text: str, stem: str) -> bool:
    """Return True if a word of a text begins with a stem: `set` is no part of `offset`."""
    if not stem.isascii():
        return stem in text  # not every script has spaces between words
    place = text.find(stem)
    while place > 0 and text[place - 1].isalnum():
        place = text.find(stem, place + 1)
    return place >= 0


def _meanings(ranges: Sequence[Passage], near: Sequence[NearPassage]) -> list[float]:
    """Return for each sentence the best value of the passages that overlap it."""
    values = [0.0] * len(ranges)
    first = 0
    for passage in sorted(near):
        while first < len(ranges) and ranges[first].end <= passage.start:
            first += 1
        for index in range(first, len(ranges)):
            if ranges[index].start >= passage.end:
                break
            values[index] = max(values[index], passage.value)
    return values


def _regions(content: str, stems: set[str], near: Sequence[NearPassage]) -> list[Passage]:
    """Return the ranges to scan: all of a text, or the places of interest in a very long one."""
    if len(content) <= limits.EXCERPT_SCANNED_CHARACTERS_MAX:
        return [Passage(0, len(content))]
    nearest = sorted(near, key=lambda passage: -passage.value)[:EXACT_PLACES_MAX]
    places = [Passage(each.start, each.end) for each in nearest]
    places += _exact_places(content, stems)
    return _joined(places, len(content)) or [Passage(0, SURROUNDING_CHARACTERS)]


def _exact_places(content: str, stems: set[str]) -> list[Passage]:
    """Return where words of the query stand, the rarest first, up to `EXACT_PLACES_MAX` places."""
    lowered = content.lower()
    if len(lowered) != len(content):
        lowered = content  # a few letters become two, and places would shift
    found = {
        stem: list(islice(_places_of(stem, lowered), EXACT_PLACES_MAX)) for stem in sorted(stems)
    }
    unfound = {stem for stem, places in found.items() if not places}
    folded = list(islice(_folded_places(content, unfound), EXACT_PLACES_MAX))
    by_rarity = sorted([*found.values(), folded], key=len)
    return list(islice(chain.from_iterable(by_rarity), EXACT_PLACES_MAX))


def _places_of(stem: str, lowered: str) -> Iterator[Passage]:
    yield_to_others()
    place = lowered.find(stem)
    while place >= 0:
        yield Passage(place, place + len(stem))
        place = lowered.find(stem, place + len(stem))


def _folded_places(content: str, stems: set[str]) -> Iterator[Passage]:
    """Yield where words stand that are written with accents in the text."""
    if not stems or content.isascii():
        return
    for match in _WRITTEN.finditer(content):
        yield_to_others()
        if not match[0].isascii() and _has_any(match[0], stems):
            yield Passage(*match.span())


def _has_any(written: str, stems: set[str]) -> bool:
    folded = fold(written).casefold()
    return any(stem in folded for stem in stems)


def _joined(places: Iterable[Passage], length: int) -> list[Passage]:
    """Return the surroundings of places, in order, without overlaps."""
    joined: list[Passage] = []
    for place in sorted(places):
        start = max(0, place.start - SURROUNDING_CHARACTERS)
        end = min(length, place.end + SURROUNDING_CHARACTERS)
        if joined and start <= joined[-1].end:
            joined[-1] = Passage(joined[-1].start, max(end, joined[-1].end))
        else:
            joined.append(Passage(start, end))
    return joined


def _touches(sentences: Sequence[_Sentence], index: int, first: int, last: int) -> bool:
    """Return True if a sentence follows or precedes a range of sentences without a gap."""
    if index > last:
        return sentences[index].start == sentences[last].end
    return sentences[index].end == sentences[first].start


def _text(content: str, sentence: _Sentence) -> str:
    return content[sentence.start : sentence.end]


def _trimmed(content: str, passage: Passage) -> Passage:
    """Return a range without white space at its ends."""
    text = content[passage.start : passage.end]
    start = passage.start + len(text) - len(text.lstrip())
    return Passage(start, max(start, passage.start + len(text.rstrip())))
