"""Cut texts to token budgets, counted as `engram.text.tokens` estimates them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engram.text.excerpts import Excerpt, cut
from engram.text.quoting import quote
from engram.text.tokens import beginning, count_tokens

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
