"""Pack ranked messages into an answer, within a limit and a token budget.

Messages come in the order of the ranking, each once. Unless the caller sets a minimum score, a message has
to earn its place: the more has been packed, the closer to the best one it must score. Whatever the limit or
the budget leaves out is returned as handles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engram.model.ids import ConversationKey
from engram.model.search import CutBy
from engram.search.score import Ranking, Scored

BAR_SHARE = 0.45
"""The share of the best order value that the first messages after it must reach."""

BAR_RISE = 0.22
"""By how much that share rises with every 1,000 tokens.

Measured on the chats and the assistant chats of docs/evaluation.md, this delivers two thirds of the tokens
of a full budget, and of the evidence within its first 1,000 tokens all but half a point."""

LINE_TOKENS, SOURCE_TOKENS = 6, 15
"""What a model reads beside the text: about so much for each message, and for each conversation."""

NEW_SOURCE_TOKENS = 300
"""How much further the bar rises for the first message of another conversation, which has to be named too.

Of 15 messages a third fewer conversations are named, at the same evidence."""

HANDLES_MAX = 10
"""Of what an answer has no room for, more is a listing."""


class Packed(NamedTuple):
    """The messages returned as text, and those returned as handles."""

    items: Sequence[Scored]
    handles: Sequence[Scored]
    """The best message of each further conversation that the limit or the budget left out."""
    weaker: int
    """How many candidates were not good enough."""
    cut_by: CutBy | None = None
    """The bound that left out the best of what is missing."""


def pack(ranked: Ranking, *, limit: int, token_budget: int, has_bar: bool) -> Packed:
    """Choose the messages to return, in the order of the ranking.

    A message that does not fit is left out, and shorter ones after it may still fit.
    """
    packer = _Packer(ranked, limit=limit, token_budget=token_budget)
    weaker = 0
    for rank in range(len(ranked)):
        is_weak = ranked.orders[rank] < packer.bar_of(rank) and not ranked.covers[rank]
        if has_bar and is_weak:
            weaker += 1
        else:
            packer.add(rank)
    return packer.finish(weaker=weaker)


def count_good(ranked: Ranking) -> int:
    """Return how many of the first candidates are above the bar, before anything is packed."""
    if not len(ranked):
        return 0
    bar = ranked.orders[0] * BAR_SHARE
    return sum(1 for order in ranked.orders if order >= bar)


class _Packer:
    """The messages packed so far, and the ranks of those that did not fit."""

    def __init__(self, ranked: Ranking, *, limit: int, token_budget: int) -> None:
        self._ranked = ranked
        self._limit = limit
        self._token_budget = token_budget
        self._best = ranked.orders[0] if len(ranked) else 0.0
        self._tokens = self._paid = 0
        self._sources = set[ConversationKey]()
        self._packed: list[int] = []
        self._left_out: list[int] = []
        self._cut_by: CutBy | None = None

    def bar_of(self, rank: int) -> float:
        """Return the order value that a message must reach to be packed next."""
        is_known = self._ranked.conversations[rank] in self._sources
        paid = self._paid if is_known or not self._packed else self._paid + NEW_SOURCE_TOKENS
        return self._best * (BAR_SHARE + BAR_RISE * paid / 1000)

    def add(self, rank: int) -> None:
        """Pack a message, or leave it out."""
        tokens = self._tokens + self._ranked.tokens[rank]
        is_full = len(self._packed) == self._limit
        if is_full or tokens > self._token_budget:
            self._cut_by = self._cut_by or ("limit" if is_full else "token_budget")
            self._left_out.append(rank)
            return
        self._packed.append(rank)
        self._sources.add(self._ranked.conversations[rank])
        self._tokens = tokens
        self._paid = tokens + LINE_TOKENS * len(self._packed) + SOURCE_TOKENS * len(self._sources)

    def finish(self, *, weaker: int) -> Packed:
        """Return what was packed, and handles for what was left out."""
        return Packed(
            items=[self._ranked[rank] for rank in self._packed],
            handles=self._ranked.best_of_each(HANDLES_MAX, among=self._left_out),
            weaker=weaker,
            cut_by=self._cut_by,
        )
