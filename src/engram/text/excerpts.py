"""Cut texts to so many characters or tokens, never within a character; share a token budget."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from engram.text.quoting import quote
from engram.text.tokens import beginning, count_tokens

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


_NEAR = 0.97
"""A cut that fills this share of its budget is not improved: every try renders the text anew."""


def cut_tokens(text: str, tokens_max: int) -> Excerpt:
    """Return the beginning of a text that is at most `tokens_max` tokens."""
    return cut(text, beginning(text, tokens_max))


def fit(texts: Sequence[str], *, token_budget: int) -> list[Excerpt]:
    """Cut texts to fit a budget together: short ones stay whole, long ones get equal shares."""
    shown: list[Excerpt | None] = [None] * len(texts)
    left, long = token_budget, list(range(len(texts)))
    while long:
        # What short texts leave of their shares is shared again among those that were cut.
        share = left // len(long)
        for index in long:
            shown[index] = cut_tokens(texts[index], share)
        still = [index for index in long if (part := shown[index]) and part.is_cut]
        left -= sum(count_tokens(texts[index]) for index in set(long) - set(still))
        if len(still) == len(long):
            break
        long = still
    return [each or Excerpt("", is_cut=False) for each in shown]


def longest(characters: int, *, cost: Callable[[int], int], tokens_max: int) -> int:
    """Return how many characters, of so many, cost at most `tokens_max`; very nearly the most that do.

    Args:
        characters: the most to return.
        cost: the tokens that a number of characters costs; it grows with them.
        tokens_max: what the characters may cost.
    """
    fitting, beyond = 0, characters + 1
    spent, beyond_cost = 0, 0
    tried = characters
    while fitting < tried:
        tokens = cost(tried)
        if tokens <= tokens_max:
            fitting, spent = tried, tokens
        else:
            beyond, beyond_cost = tried, tokens
        if beyond - fitting <= 1 or spent >= tokens_max * _NEAR:
            break
        # Where it would be if every character cost the same, but always some steps nearer.
        share = (tokens_max - spent) / (beyond_cost - spent)
        step = int((beyond - fitting) * min(max(share, 0.1), 0.9))
        tried = fitting + min(max(step, 1), beyond - fitting - 1)
    return fitting


def quotable(content: str, tokens_max: int) -> int:
    """Return how many characters of a text fit when quoted, never splitting a character."""
    fitting = longest(
        # Quoting makes nothing cheaper, so what is too long already need not be quoted.
        beginning(content, tokens_max),
        cost=lambda characters: count_tokens(quote(content[:characters])),
        tokens_max=tokens_max,
    )
    return len(cut(content, fitting).text)
