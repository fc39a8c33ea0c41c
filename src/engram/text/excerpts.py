"""Fit texts into token budgets: estimate tokens, and cut texts between characters."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

CHARACTERS_PER_TOKEN = 4
"""The estimate that every token budget uses."""

BRIEF_CHARACTERS = 200
"""A sentence or two: enough to tell one text from another."""

MARKS_MAX = 32
"""Longer runs of combining marks are not writing and may be cut."""

_JOINERS = frozenset("\u200c\u200d")
_SENTENCE_END = re.compile(r"[.!?\u2026]['\"\u201d\u2019)\]]*(?=\s)|[\u3002\uff01\uff1f]|\n")


class Excerpt(NamedTuple):
    """The beginning of a text."""

    text: str
    is_cut: bool
    """Whether the text continues after it."""


def tokens_of(characters: int) -> int:
    """Return the estimated tokens of a text of that length."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def cut(text: str, characters_max: int) -> Excerpt:
    """Return the beginning of a text, never cut within a character made of several code points."""
    if len(text) <= characters_max:
        return Excerpt(text, is_cut=False)
    end = characters_max
    while end > max(0, characters_max - MARKS_MAX) and _is_within_character(text, end):
        end -= 1
    return Excerpt(text[:end], is_cut=True)


def brief(text: str) -> str:
    """Return the first sentences of a text on one line, up to `BRIEF_CHARACTERS`."""
    start = text.lstrip()[: BRIEF_CHARACTERS + 1]
    if len(start) <= BRIEF_CHARACTERS:
        return " ".join(start.split())
    ends = [
        match.end() for match in _SENTENCE_END.finditer(start) if match.end() <= BRIEF_CHARACTERS
    ]
    kept = start[: ends[-1]] if ends else cut(start, BRIEF_CHARACTERS).text
    return " ".join(kept.split()) + " …"


def _is_within_character(text: str, place: int) -> bool:
    """Return True if a cut before `place` would part a mark from its letter, or split an emoji."""
    following, previous = text[place], text[place - 1]
    return (
        following in _JOINERS
        or previous in _JOINERS
        or unicodedata.category(following) in {"Mn", "Mc", "Me"}
        or "\U0001f3fb" <= following <= "\U0001f3ff"  # skin tones
    )
