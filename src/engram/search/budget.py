"""Pack ranked messages into results, under a number of results and a token budget.

The first results follow the ranking strictly. Later ones gather the messages of a conversation,
because a result costs a place and the places are few. What does not fit comes as a handle, in the place
of its best message.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engram.model.ids import ConversationKey
from engram.search.ranking import Ranking, Scored

STRICT_SHARE = 0.3
"""Of the results, those that follow the ranking strictly."""

NEAR_SHARE = 0.3
"""Of the results, those that gather what fits into the first part of the budget."""

NEAR_BUDGET_SHARE = 0.25
"""The part of the budget that the results so far may fill."""

MIDDLE_BUDGET_SHARE = 0.5
"""The part up to which places are used that neither these nor the last results can fill, because
there are fewer conversations. The last results gather the rest of the budget."""


@dataclass(frozen=True, slots=True)
class Group:
    """Messages of one conversation that make one result, the best first."""

    items: list[Scored]

    @property
    def conversation(self) -> ConversationKey:
        return self.items[0].conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What is delivered as text, and what comes as handles."""

    groups: Sequence[Group]
    handles: Sequence[Scored]
    """The best message left in each further conversation, in places that are left."""
    tokens: int
    is_truncated: bool
    """Something that was found is not delivered as text."""


def pack(ranked: Ranking, *, limit: int, token_budget: int) -> Packed:
    """Choose the messages to deliver, each once, and gather them into results."""
    strict = math.floor(STRICT_SHARE * limit)
    near = min(math.ceil(NEAR_SHARE * limit), limit - strict - 1)
    conversations = len(set(ranked.conversations))
    last = min(limit - strict - near, conversations)
    near = min(near, conversations)
    middle = limit - strict - near - last
    packing = _Packing(ranked, token_budget=token_budget)
    packing.fill(strict, tokens_max=token_budget, is_strict=True)
    packing.fill(near, tokens_max=int(token_budget * NEAR_BUDGET_SHARE))
    packing.fill(middle, tokens_max=int(token_budget * MIDDLE_BUDGET_SHARE))
    packing.fill(limit - len(packing.groups), tokens_max=token_budget)
    return Packed(
        groups=packing.groups,
        handles=ranked.best_of_each(limit - len(packing.groups), among=packing.waiting),
        tokens=packing.tokens,
        is_truncated=bool(packing.waiting),
    )


class _Packing:
    """The results so far, and the places of the messages that wait, in order."""

    def __init__(self, ranked: Ranking, *, token_budget: int) -> None:
        self.groups: list[Group] = []
        self.waiting = list(range(len(ranked)))
        self.tokens = 0
        self._ranked = ranked
        self._token_budget = token_budget
        self._full_at = token_budget - min(ranked.tokens, default=0)
        """With more tokens than these, nothing fits any more."""

    def fill(self, places: int, *, tokens_max: int, is_strict: bool = False) -> None:
        """Add up to `places` results; a message without a place or too long goes on waiting."""
        if not places or not self.waiting:
            return
        conversations, lengths = self._ranked.conversations, self._ranked.tokens
        tier: dict[ConversationKey, Group] = {}
        added: list[Group] = []
        waiting: list[int] = []
        most = min(tokens_max - 1, self._full_at)
        for index, place in enumerate(self.waiting):
            group = tier.get(conversations[place])
            has_place = group is not None or len(added) < places
            if self.tokens > most or (is_strict and not has_place):
                waiting += self.waiting[index:]
                break
            if not has_place or self.tokens + lengths[place] > self._token_budget:
                waiting.append(place)
                continue
            self.tokens += lengths[place]
            item = self._ranked[place]
            if group is not None:
                group.items.append(item)
                continue
            if is_strict:
                tier.clear()  # only neighbours in the ranking share a result
            added.append(tier.setdefault(item.conversation, Group([item])))
        self.waiting = waiting
        self.groups += added
