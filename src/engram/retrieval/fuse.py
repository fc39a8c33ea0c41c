"""Fuse the values of a message's legs to one score, and charge for its length.

A leg's value is absolute: it depends on the query and the message, not on what else was found. So
scores can be compared between queries, and a missing leg only gives its weight to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from engram.model.search import Candidate, ScoreBreakdown

LEG_VALUE_MAX = 1.5
"""A leg may be better than good, but no leg decides alone."""

FUSED_GOOD = 1.3
"""The fused value that is shown as the score 1: very few messages reach it."""

CHARGE_FREE_TOKENS = 80
"""Messages up to this length are ordered by their fused value alone."""

CHARGE_EXPONENT = 0.4
"""How much better a longer message must be to go first: it uses up the budget of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One way to judge a message: raw values from `floor` to `floor + span` become 0 to 1."""

    name: str
    weight: float
    floor: float
    span: float
    raw: Callable[[Candidate], float]

    def value(self, candidate: Candidate) -> float:
        """Return the leg's absolute value, clipped to 0..LEG_VALUE_MAX."""
        value = (self.raw(candidate) - self.floor) / self.span
        if value <= 0.0:
            return 0.0
        return min(value, LEG_VALUE_MAX)


WORD_LEGS = (
    Leg(
        name="message_words",
        weight=0.3,
        floor=0.0,
        span=0.30,
        raw=lambda candidate: candidate.share_message,
    ),
    Leg(
        name="window_words",
        weight=0.3,
        floor=0.0,
        span=0.40,
        raw=lambda candidate: candidate.share_window,
    ),
)
"""The legs that need no embedder."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate with its place in the answer's order."""

    candidate: Candidate
    fused: float
    order: float
    """What messages are ordered by: the fused value after the charge for length."""

    @property
    def score(self) -> float:
        """The fused value as it is shown, in 0..1."""
        return min(1.0, self.fused / FUSED_GOOD)

    @property
    def tokens(self) -> int:
        """What the message costs of a token budget."""
        return tokens_of(self.candidate.characters)


def tokens_of(characters: int) -> int:
    """Return the tokens a text of that length is counted as: four characters each."""
    return -(-characters // 4)


def fuse(candidate: Candidate, legs: Sequence[Leg]) -> float:
    """Return the mean of the legs' values by their weights."""
    fused = total = 0.0
    for leg in legs:
        fused += leg.weight * leg.value(candidate)
        total += leg.weight
    return fused / total


def length_charge(characters: int) -> float:
    """Return the factor in 0..1 by which a message of that length is put back."""
    tokens = tokens_of(characters)
    if tokens <= CHARGE_FREE_TOKENS:
        return 1.0
    return (CHARGE_FREE_TOKENS / tokens) ** CHARGE_EXPONENT


def rank(
    candidates: Iterable[Candidate], *, legs: Sequence[Leg], score_min: float = 0.0
) -> list[Scored]:
    """Return the candidates that reach `score_min`, best first, ties by key."""
    scored = [_scored(candidate, legs) for candidate in candidates]
    kept = [item for item in scored if item.fused > 0 and item.score >= score_min]
    return sorted(kept, key=lambda item: (-item.order, item.candidate.key))


def explain(item: Scored, legs: Sequence[Leg]) -> ScoreBreakdown:
    """Return every component of a message's score."""
    total = sum(leg.weight for leg in legs)
    return ScoreBreakdown(
        legs={leg.name: leg.value(item.candidate) for leg in legs},
        weights={leg.name: leg.weight / total for leg in legs},
        fused=item.fused,
        length_charge=length_charge(item.candidate.characters),
        order=item.order,
    )


def _scored(candidate: Candidate, legs: Sequence[Leg]) -> Scored:
    fused = fuse(candidate, legs)
    return Scored(candidate, fused, fused * length_charge(candidate.characters))
