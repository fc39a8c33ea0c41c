"""Summaries without a model: the central sentences of a text, the beginning and outline of a document.

Both are deterministic and work in any language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from engram.limits import OUTLINE_BYTES, SYNOPSIS_BYTES
from engram.text.analyse import query_terms
from engram.text.markdown import Heading, HeadingScanner, Mark

_SENTENCE = re.compile(r"[.!?\u2026]['\"\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]|\n")
_LEAD_WEIGHT = 0.5
"""The advantage of the first sentence over the last: texts begin with what matters."""

_SHORT_TERMS = 6
"""A sentence of fewer terms says little, however central they are."""

_GAP = " \u2026 "

OUTLINE_MARK = "\n\n--- Outline ---\n"
"""Separates the beginning from the headings."""

OUTLINE_LEVEL_MAX = 2
"""The deepest level of headings that are listed."""


class _Sentence(NamedTuple):
    place: int
    text: str
    terms: frozenset[str]


def extract_summary(text: str, *, characters_max: int) -> str:
    """Return the most central sentences of a text in their order, at most so many characters.

    A text that is short enough is its own summary. Nothing is invented: every word is the text's.
    """
    whole = " ".join(text.split())
    if len(whole) <= characters_max:
        return whole
    sentences = _split(text)
    chosen = _choose(sentences, characters_max=characters_max)
    if not chosen:
        return _cut(sentences[0].text if sentences else whole, characters_max)
    return _join(chosen)


def _split(text: str) -> list[_Sentence]:
    pieces = list[str]()
    start = 0
    for match in _SENTENCE.finditer(text):
        pieces.append(text[start : match.end()])
        start = match.end()
    pieces.append(text[start:])
    spoken = [" ".join(piece.split()) for piece in pieces]
    kept = [piece for piece in spoken if any(character.isalnum() for character in piece)]
    return [
        _Sentence(place, piece, frozenset(query_terms(piece))) for place, piece in enumerate(kept)
    ]


def _choose(sentences: Sequence[_Sentence], *, characters_max: int) -> list[_Sentence]:
    """Return the best sentences that fit together, in their order."""
    counts = Counter(term for sentence in sentences for term in sentence.terms)
    ranked = sorted(sentences, key=lambda each: (-_score(each, counts, len(sentences)), each.place))
    chosen = list[_Sentence]()
    covered = set[str]()
    left = characters_max
    for sentence in ranked:
        cost = len(sentence.text) + len(_GAP)
        # A sentence whose terms are all covered already adds nothing.
        if cost <= left + len(_GAP) and not sentence.terms <= covered:
            chosen.append(sentence)
            covered |= sentence.terms
            left -= cost
    return sorted(chosen, key=lambda each: each.place)


def _score(sentence: _Sentence, counts: Counter[str], total: int) -> float:
    """Return how much of the text's own vocabulary a sentence carries, and how early it stands."""
    if not sentence.terms:
        return 0.0
    shared = sum(counts[term] for term in sentence.terms) / max(len(sentence.terms), _SHORT_TERMS)
    return shared * (1 + _LEAD_WEIGHT * (1 - sentence.place / total))


def _join(chosen: Sequence[_Sentence]) -> str:
    joined = chosen[0].text
    for before, sentence in pairwise(chosen):
        joined += (" " if sentence.place == before.place + 1 else _GAP) + sentence.text
    return joined


def _cut(text: str, characters_max: int) -> str:
    """Return the start of a text, cut after a word where there is one."""
    start = text[: characters_max - 1]
    word_end = start.rfind(" ")
    return (start[:word_end] if word_end > characters_max // 2 else start) + "\u2026"


class SynopsisWriter:
    """Builds the synopsis of a document that is fed in pieces, buffering only what it shows."""

    def __init__(self) -> None:
        self._beginning = b""
        self._scanner = HeadingScanner()
        self._outline = Outline()

    def feed(self, text: str) -> None:
        """Process the next piece."""
        room = SYNOPSIS_BYTES - len(self._beginning)
        if room >= 0:
            # One byte more than is shown, to tell whether the text continues.
            self._beginning += text[: room + 1].encode()[: room + 1]
        self._add_headings(self._scanner.feed(text))

    def finish(self) -> str:
        """Return a short document whole, or the beginning and outline of a longer one."""
        self._add_headings(self._scanner.finish())
        beginning = self._beginning[:SYNOPSIS_BYTES].decode(errors="ignore")
        outline = self._outline.text()
        is_whole = len(self._beginning) <= SYNOPSIS_BYTES
        return beginning if is_whole or not outline else beginning + OUTLINE_MARK + outline

    def _add_headings(self, marks: Iterable[Mark]) -> None:
        for mark in marks:
            if isinstance(mark, Heading) and mark.level <= OUTLINE_LEVEL_MAX and mark.title:
                self._outline.add(f"{'#' * mark.level} {mark.title}")


class Outline:
    """A list of lines up to `OUTLINE_BYTES`, with a count of those omitted."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._bytes = 0
        self._omitted = 0

    def add(self, line: str) -> None:
        """Append a line if it fits and none was omitted before."""
        size = len(line.encode()) + 1
        if self._omitted or self._bytes + size > OUTLINE_BYTES:
            self._omitted += 1
        else:
            self._lines.append(line)
            self._bytes += size

    def text(self) -> str:
        """Return the lines, each with a line end, and the count of omitted ones."""
        lines, omitted = list(self._lines), self._omitted
        if not omitted:
            return "".join(f"{line}\n" for line in lines)
        size = self._bytes
        while size + len(_more(omitted).encode()) > OUTLINE_BYTES:
            size -= len(lines.pop().encode()) + 1
            omitted += 1
        return "".join(f"{line}\n" for line in lines) + _more(omitted)


def synopsis(text: str) -> str:
    """Return the synopsis of a whole document."""
    writer = SynopsisWriter()
    writer.feed(text)
    return writer.finish()


def _more(count: int) -> str:
    return f"… and {count:,} more\n"
