"""Fuse the values of a message's legs to one score, charge for its length, and weigh memories.

A leg that knows nothing of a message gives its weight to the others in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engram.model.search import Candidates, ScoreBreakdown
from engram.model.vectors import Tier
from engram.retrieval.legs import Calibrations, LegName, Values, leg_values, raw_values
from engram.retrieval.profiles import Profile
from engram.retrieval.ranking import Ranking, Scored
from engram.text.tokens import CHARACTERS_PER_TOKEN
from engram.vectors.arrays import run_lengths, run_starts

CHARGE_FREE_TOKENS = 96
"""Messages up to this length are ordered by their fused value alone."""

CHARGE_EXPONENT = 0.4
"""How much better a longer message must be to go first: it uses up the budget of others."""

USEFULNESS_SHARE = 0.2
"""What a memory gains or loses at most by what was said of it after recalls."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """The candidates of one search, and every value that their scores were made of.

    They ascend by key, and so does whatever is chosen of them without another order.
    """

    candidates: Candidates
    profile: Profile
    raw: Mapping[LegName, Values]
    legs: Mapping[LegName, Values]
    fused: Values
    around: Values
    """The best fused value in the conversation of each."""
    charge: Values
    importance: Values
    usefulness: Values

    @property
    def are_memories(self) -> NDArray[np.bool_]:
        """Say of each whether it is a memory."""
        return ~np.isnan(self.candidates.importance)

    @property
    def order(self) -> Values:
        """Return what messages are ordered by.

        Where the best of a conversation stands, its other messages are the likelier to be meant.
        """
        weight = self.profile.conversation_weight
        drawn = (self.fused + weight * self.around) / (1 + weight) * self.charge
        return drawn * self.importance * self.usefulness

    @property
    def scores(self) -> Values:
        """Return what is shown of each, in 0..1."""
        shown = self.fused
        if self.profile.scores_importance:
            shown = shown * self.importance * self.usefulness
        return np.minimum(1.0, shown / self.profile.good)

    def rank(self, *, score_min: float = 0.0) -> Ranking:
        """Return the candidates that reach `score_min`, best first, ties by key."""
        candidates, scores, order = self.candidates, self.scores, self.order
        kept = ((self.fused > 0) & (scores >= score_min)).nonzero()[0]
        rows = kept.take((-order.take(kept)).argsort(kind="stable"))
        return Ranking(
            rows=rows.tolist(),
            keys=candidates.keys.take(rows).tolist(),
            conversations=candidates.conversations.take(rows).tolist(),
            sequences=candidates.sequences.take(rows).tolist(),
            tokens=tokens_in(candidates.characters.take(rows)).tolist(),
            scores=scores.take(rows).tolist(),
            orders=order.take(rows).tolist(),
        )

    def explain(self, item: Scored) -> ScoreBreakdown:
        """Return every component of a message's score."""
        row = item.row
        present: dict[LegName, float] = {
            name: float(values[row])
            for name, values in self.legs.items()
            if not np.isnan(values[row])
        }
        total = sum(self.profile.weights[name] for name in present)
        has_vector = not np.isnan(self.candidates.cosine[row])
        return ScoreBreakdown(
            raw={name: float(self.raw[name][row]) for name in present},
            legs={**present},
            weights={name: self.profile.weights[name] / total for name in present},
            vector_tier=self._tier(row) if has_vector else None,
            fused=float(self.fused[row]),
            conversation_best=float(self.around[row]),
            length_charge=float(self.charge[row]),
            importance_factor=float(self.importance[row]),
            usefulness_factor=float(self.usefulness[row]),
            order=item.order,
        )

    def _tier(self, row: int) -> Tier:
        return "deep" if self.candidates.is_deep[row] else "instant"


def score(
    candidates: Candidates, *, profile: Profile, calibrations: Calibrations, now: int
) -> Scoring:
    """Score every candidate on every leg of a profile."""
    raw = raw_values(candidates, profile.weights, now=now)
    legs = leg_values(raw, is_deep=candidates.is_deep, calibrations=calibrations)
    fused = fuse(legs, profile.weights)
    is_charged = profile.charges_length
    return Scoring(
        candidates=candidates,
        profile=profile,
        raw=raw,
        legs=legs,
        fused=fused,
        around=best_of_conversations(candidates.conversations, fused),
        charge=_charge(candidates) if is_charged else np.ones(len(fused)),
        importance=importance_factor(candidates.importance, profile.importance_exponent),
        usefulness=1.0 + USEFULNESS_SHARE * candidates.usefulness,
    )


def has_vectors(candidates: Candidates) -> bool:
    """Say whether any candidate could be compared by meaning."""
    return not np.isnan(candidates.cosine).all()


def best_of_conversations(conversations: NDArray[np.int64], values: Values) -> Values:
    """Return for each candidate the best value in its conversation; conversations ascend."""
    if not len(values):
        return values
    starts = run_starts(conversations)
    return np.repeat(np.maximum.reduceat(values, starts), run_lengths(starts, len(values)))


def fuse(legs: Mapping[LegName, Values], weights: Mapping[LegName, float]) -> Values:
    """Return the mean of the legs' values by their weights; 0 where no leg has any."""
    values = np.array([legs[name] for name in weights])
    is_missing = np.isnan(values)
    shares = np.where(is_missing, 0.0, np.array([[weight] for weight in weights.values()]))
    summed = (np.where(is_missing, 0.0, values) * shares).sum(axis=0)
    total = shares.sum(axis=0)
    return np.divide(summed, total, out=np.zeros_like(summed), where=total > 0)


def tokens_in(characters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the tokens that texts of these lengths are counted as."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def importance_factor(importance: Values, exponent: float) -> Values:
    """Return what memories of these importances are multiplied by; 1 for messages.

    The multiplier of engram-go, (5 - importance) / 3, to a power that says how much it counts.
    """
    are_messages = np.isnan(importance)
    if are_messages.all():
        return np.ones(len(importance))
    return np.where(are_messages, 1.0, ((5.0 - importance) / 3.0) ** exponent)


def _charge(candidates: Candidates) -> Values:
    """Return what each is put back by for its length; a document is as long as it has to be."""
    return np.where(candidates.are_documents, 1.0, length_charge(candidates.characters))


def length_charge(characters: NDArray[np.int64]) -> Values:
    """Return the factors in 0..1 by which messages of these lengths are put back."""
    tokens = np.maximum(tokens_in(characters), 1)
    return np.minimum(1.0, CHARGE_FREE_TOKENS / tokens) ** CHARGE_EXPONENT
