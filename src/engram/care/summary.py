"""The gist of a text in its own sentences: no model, any language, the same every time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from engram.text.analyse import query_terms

_SENTENCE = re.compile(r"[.!?\u2026]['\"\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]|\n")
_LEAD_WEIGHT = 0.5
"""How much the first sentence is favoured over the last: people begin with what matters."""

_SHORT_TERMS = 6
"""A sentence of fewer terms says little, however central they are."""

_GAP = " \u2026 "


@dataclass(frozen=True, slots=True)
class _Sentence:
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
        # What says nothing that is not said already is passed over.
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
