"""Pack ranked messages into an answer, within a limit and a token budget.

Messages come in the order of the ranking, each once. Those that look like an earlier one take no room: whether their
texts are the same is known when they are read. Unless the caller sets a minimum score, a message has
to earn its place: the more has been packed, the closer to the best one it must score. Whatever the limit or
the budget leaves out is returned as handles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engram.model.ids import ConversationKey
from engram.model.search import CutBy
from engram.search.score import Look, Ranking, Scored

BAR_SHARE = 0.38
"""The share of the best order value that the first messages after it must reach."""

WORDS_BAR_SHARE = 0.45
"""The same where there are no vectors: a neighbour of a message with all words reaches 0.43 by its window alone."""

BAR_RISE = 0.4
"""By how much that share has risen after 1,000 tokens of text. It rises with their square: while an answer is short,
one more line costs little, and a model that has read 1,000 tokens seldom needs the next.

Measured on the chats and the assistant chats of docs/evaluation.md, this delivers two thirds of the tokens
of a full budget, and of the evidence within its first 1,000 tokens all but a point. At the same tokens a
straight rise keeps half a point less."""

NEW_SOURCE_SHARE = 0.15
"""How much higher the bar is for the first message of another conversation, which has to be named too.

Of 15 messages a third fewer conversations are named, at the same evidence."""

COVERING_ROOM = 0.25
"""The share of the budget that stays free beside the messages with the words of the query, until they are
packed: their labels and their true tokens, of which characters are an estimate, need room as well."""

HANDLES_MAX = 10
"""Of what an answer has no room for, more is a listing."""


REPEATS_MAX = 100
"""Messages that are read because they look like others, to count those that repeat them."""


class Packed(NamedTuple):
    """The messages returned as text, and those returned as handles."""

    items: Sequence[Scored]
    handles: Sequence[Scored]
    """The best message of each further conversation that the limit or the budget left out."""
    weaker: int
    """How many candidates were not good enough."""
    cut_by: CutBy | None = None
    """The bound that left out the best of what is missing."""
    alike: Sequence[Scored] = ()
    """Messages that look like earlier items, and come only if their texts differ and there is room."""
    kept: frozenset[int] = frozenset()
    """Rows of items that others left room for."""


def pack(
    ranked: Ranking,
    *,
    limit: int,
    token_budget: int,
    has_bar: bool,
    bar_share: float = BAR_SHARE,
) -> Packed:
    """Choose the messages to return, in the order of the ranking.

    A message that does not fit is left out, and shorter ones after it may still fit.
    """
    packer = _Packer(ranked, limit=limit, token_budget=token_budget, bar_share=bar_share)
    if has_bar:
        packer.keep_room_for_covering()
    weaker = 0
    for rank in range(len(ranked)):
        is_weak = ranked.orders[rank] < packer.bar_of(rank) and not ranked.covers[rank]
        if has_bar and is_weak:
            weaker += 1
        else:
            packer.add(rank)
    return packer.finish(weaker=weaker)


def count_good(ranked: Ranking, *, bar_share: float = BAR_SHARE) -> int:
    """Return how many of the first candidates are above the bar, before anything is packed."""
    if not len(ranked):
        return 0
    bar = ranked.orders[0] * bar_share
    return sum(1 for order in ranked.orders if order >= bar)


class _Room(NamedTuple):
    places: int
    tokens: int


class _Packer:
    """The messages packed so far, and the ranks of those that did not fit."""

    def __init__(self, ranked: Ranking, *, limit: int, token_budget: int, bar_share: float) -> None:
        self._ranked = ranked
        self._bar_share = bar_share
        self._limit = limit
        self._token_budget = token_budget
        self._best = ranked.orders[0] if len(ranked) else 0.0
        self._tokens = 0
        self._sources = set[ConversationKey]()
        self._packed: list[int] = []
        self._looks = set[Look]()
        self._alike: list[int] = []
        self._left_out: list[int] = []
        self._cut_by: CutBy | None = None
        self._kept_rows = frozenset[int]()
        self._kept = _Room(0, 0)
        """For the messages with the words of the query that are still to be packed."""

    def keep_room_for_covering(self) -> None:
        """Leave room for the messages with the words of the query, wherever they rank.

        If they alone fill half of an answer, it is no longer about a few.
        """
        ranked = self._ranked
        ranks = [rank for rank, covers in enumerate(ranked.covers) if covers]
        tokens = sum(ranked.tokens[rank] for rank in ranks)
        if len(ranks) <= self._limit // 2 and tokens <= self._token_budget // 2:
            self._kept = _Room(len(ranks), tokens)
            self._kept_rows = frozenset(ranked.rows[rank] for rank in ranks)

    def _room_for(self, rank: int) -> _Room:
        """Return the places and the tokens that an answer may have with a message."""
        kept, tokens = self._kept, self._token_budget
        if not kept.places:
            return _Room(self._limit, tokens)
        if self._ranked.covers[rank]:
            self._kept = _Room(kept.places - 1, kept.tokens - self._ranked.tokens[rank])
            return _Room(self._limit, tokens)
        free = tokens - int(tokens * COVERING_ROOM) - kept.tokens
        return _Room(self._limit - kept.places, free)

    def bar_of(self, rank: int) -> float:
        """Return the order value that a message must reach to be packed next."""
        is_new = self._packed and self._ranked.conversations[rank] not in self._sources
        share = self._bar_share + BAR_RISE * (self._tokens / 1000) ** 2
        # What is as good as the best is never weak, however much was packed.
        return self._best * min(share + NEW_SOURCE_SHARE if is_new else share, 1.0)

    def add(self, rank: int) -> None:
        """Pack a message, or leave it out."""
        look = self._ranked.look_of(self._ranked.rows[rank])
        if look in self._looks and len(self._alike) < REPEATS_MAX:
            self._alike.append(rank)
            return
        tokens = self._tokens + self._ranked.tokens[rank]
        room = self._room_for(rank)
        is_full = len(self._packed) >= room.places
        if is_full or tokens > room.tokens:
            self._cut_by = self._cut_by or ("limit" if is_full else "token_budget")
            self._left_out.append(rank)
            return
        self._packed.append(rank)
        self._looks.add(look)
        self._sources.add(self._ranked.conversations[rank])
        self._tokens = tokens

    def finish(self, *, weaker: int) -> Packed:
        """Return what was packed, and handles for what was left out."""
        return Packed(
            items=[self._ranked[rank] for rank in self._packed],
            handles=self._ranked.best_of_each(HANDLES_MAX, among=self._left_out),
            weaker=weaker,
            cut_by=self._cut_by,
            alike=[self._ranked[rank] for rank in self._alike],
            kept=self._kept_rows,
        )
