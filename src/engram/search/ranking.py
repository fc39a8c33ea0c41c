"""Candidates in the order of an answer.

There are hundreds in every search and few are delivered, so they stay columns of numbers until one is
looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from engram.model.ids import ConversationKey, MessageKey


class Scored(NamedTuple):
    """A candidate with its place in the answer's order."""

    row: int
    """Its place among the candidates."""
    key: MessageKey
    conversation: ConversationKey
    sequence: int
    tokens: int
    """What the message costs of a token budget."""
    score: float
    """The fused value as it is shown, in 0..1."""
    order: float
    """What messages are ordered by: the fused value after the charge for length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Sequence[Scored]):
    """Candidates, best first; a column for each field of `Scored`."""

    rows: Sequence[int]
    keys: Sequence[MessageKey]
    conversations: Sequence[ConversationKey]
    sequences: Sequence[int]
    tokens: Sequence[int]
    scores: Sequence[float]
    orders: Sequence[float]

    @overload
    def __getitem__(self, place: int) -> Scored: ...
    @overload
    def __getitem__(self, place: slice) -> list[Scored]: ...
    def __getitem__(self, place: int | slice) -> Scored | list[Scored]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return Scored(
            self.rows[place],
            self.keys[place],
            self.conversations[place],
            self.sequences[place],
            self.tokens[place],
            self.scores[place],
            self.orders[place],
        )

    def __len__(self) -> int:
        return len(self.rows)

    def best_of_each(self, limit: int, *, among: Iterable[int] | None = None) -> list[Scored]:
        """Return the first of each of the first `limit` conversations, of some places or of all."""
        best: dict[ConversationKey, int] = {}
        for place in range(len(self)) if among is None else among:
            if len(best) == limit:
                break
            best.setdefault(self.conversations[place], place)
        return [self[place] for place in best.values()]
