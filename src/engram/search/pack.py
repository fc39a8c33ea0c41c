"""Pack ranked messages into results within a result limit and a token budget.

The first results follow the ranking strictly. Later ones group the messages of a conversation,
because results are few and each takes up one. Whatever does not fit is returned as a handle, in the
position of its best message.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from engram.model.ids import ConversationKey
from engram.search.score import Ranking, Scored

STRICT_SHARE = 0.3
"""Share of the results that follow the ranking strictly."""

NEAR_SHARE = 0.3
"""Share of the results that group by conversation within the first part of the budget."""

NEAR_BUDGET_SHARE = 0.25
"""Share of the budget that all results up to those may use."""

MIDDLE_BUDGET_SHARE = 0.5
"""Share of the budget up to which results are added that the other tiers cannot fill, because there
are too few conversations. The last tier uses the rest of the budget."""


class Group(NamedTuple):
    """Messages of one conversation that make up one result, best first."""

    items: list[Scored]

    @property
    def conversation(self) -> ConversationKey:
        return self.items[0].conversation


class Packed(NamedTuple):
    """The messages returned as text, and those returned as handles."""

    groups: Sequence[Group]
    handles: Sequence[Scored]
    """The best remaining message of each further conversation, up to the result limit."""
    tokens: int
    is_truncated: bool
    """Whether some candidates are not returned as text."""


def pack(ranked: Ranking, *, limit: int, token_budget: int) -> Packed:
    """Choose the messages to return, each once, and group them into results."""
    strict = math.floor(STRICT_SHARE * limit)
    near = min(math.ceil(NEAR_SHARE * limit), limit - strict - 1)
    conversations = len(set(ranked.conversations))
    last = min(limit - strict - near, conversations)
    near = min(near, conversations)
    middle = limit - strict - near - last
    packer = _Packer(ranked, token_budget=token_budget)
    packer.fill(strict, tokens_max=token_budget, is_strict=True)
    packer.fill(near, tokens_max=int(token_budget * NEAR_BUDGET_SHARE))
    packer.fill(middle, tokens_max=int(token_budget * MIDDLE_BUDGET_SHARE))
    packer.fill(limit - len(packer.groups), tokens_max=token_budget)
    return Packed(
        groups=packer.groups,
        handles=ranked.best_of_each(limit - len(packer.groups), among=packer.remaining),
        tokens=packer.tokens,
        is_truncated=bool(packer.remaining),
    )


class _Packer:
    """The results so far, and the ranks of the messages not yet packed, in order."""

    def __init__(self, ranked: Ranking, *, token_budget: int) -> None:
        self.groups: list[Group] = []
        self.remaining = list(range(len(ranked)))
        self.tokens = 0
        self._ranked = ranked
        self._token_budget = token_budget
        self._full_at = token_budget - min(ranked.tokens, default=0)
        """Above this, not even the shortest message fits."""

    def fill(self, count: int, *, tokens_max: int, is_strict: bool = False) -> None:
        """Add up to `count` results; messages that do not fit remain for later tiers."""
        if not count or not self.remaining:
            return
        conversations, lengths = self._ranked.conversations, self._ranked.tokens
        tier: dict[ConversationKey, Group] = {}
        added: list[Group] = []
        remaining: list[int] = []
        most = min(tokens_max - 1, self._full_at)
        for index, rank in enumerate(self.remaining):
            group = tier.get(conversations[rank])
            has_room = group is not None or len(added) < count
            if self.tokens > most or (is_strict and not has_room):
                remaining += self.remaining[index:]
                break
            if not has_room or self.tokens + lengths[rank] > self._token_budget:
                remaining.append(rank)
                continue
            self.tokens += lengths[rank]
            item = self._ranked[rank]
            if group is not None:
                group.items.append(item)
                continue
            if is_strict:
                tier.clear()  # only neighbours in the ranking share a result
            added.append(tier.setdefault(item.conversation, Group([item])))
        self.remaining = remaining
        self.groups += added
