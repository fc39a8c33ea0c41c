"""Score candidates: leg values, their fusion, and the order that follows.

A leg's value depends on the query and the message, not on the other candidates: 0 is no sign of
relevance, 1 a good one. So scores are comparable between queries, and vectors of two models can share a
ranking. The exception is `bm25_of_best`, which the `composite` profile defines relative to the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, assert_never, overload

import numpy as np
from numpy.typing import NDArray

from engram.embedding.port import Calibration, CosineScale
from engram.model.ids import ConversationKey, MessageKey
from engram.model.search import Candidates, ScoreBreakdown
from engram.model.value import Value, replace
from engram.model.vectors import Tier
from engram.search.profiles import SCORE_WIDTH, LegName, Profile
from engram.text.excerpts import CHARACTERS_PER_TOKEN
from engram.vectors.arrays import run_lengths, run_starts

Values: TypeAlias = NDArray[np.float64]
"""One value per candidate; NaN where a leg has no data for it."""

Calibrations: TypeAlias = Mapping[Tier, Calibration]

LEG_VALUE_MAX = 1.5
"""A leg may exceed 1, but never so far that it decides alone."""

RECENCY_PER_HOUR = 0.01

CHARGE_FREE_TOKENS = 96
"""Messages up to this length are ordered by their fused value alone."""

CHARGE_EXPONENT = 0.4
"""How strongly length is charged: a long message takes budget away from others."""

EXCERPT_TOKENS_MIN, EXCERPT_TOKENS_MAX = 40, 200
"""Of a text that is longer than half of the budget, a sixth of the budget is delivered, within these bounds.

Cutting shorter messages gains room for others and loses messages that should have come whole: of the
evidence in assistant chats within 1,000 tokens, 3 points if those above 300 tokens are cut."""

COVERING_MIN = 0.7
"""The coverage of candidates that are delivered however they score."""

COVERING_MAX = 8
"""If more candidates contain the words of the query, it is no sign."""

MATCHING_NEARNESS = 0.3
"""A message without a word of the query, whose own vector is further from it, is there for its neighbours."""

USEFULNESS_SHARE = 0.2
"""The most that feedback on earlier recalls can raise or lower a memory."""

TIME_BONUS = 0.3
"""Added to the fused value of what was said in the time of which the query speaks, but at most that
value again: the time alone makes nothing relevant."""

_FIXED_SCALES: Mapping[LegName, CosineScale] = {
    "message_words": CosineScale(offset=0.0, span=0.30),
    "window_words": CosineScale(offset=0.0, span=0.40),
    "token_vectors": CosineScale(offset=0.30, span=0.35),
}
"""Where a leg's values begin to be a sign of relevance, and how far from there they count as 1: shares of the
maximal BM25 value, and the mean cosine of a query's tokens with the best ones of a message."""

_BM25_SHARE_MIN = 1e-9
"""Avoids a division by zero when no candidate contains a query word."""

_HOUR_US = 3_600 * 1_000_000

_UNKNOWN_SCALE = CosineScale(offset=np.nan, span=np.nan)


Look: TypeAlias = tuple[int, float, float, float]
"""Length, share of words, coverage and cosine of a candidate: equal for equal texts, and seldom for others."""


class Scored(NamedTuple):
    """A ranked candidate."""

    row: int
    """Index among the candidates."""
    key: MessageKey
    conversation: ConversationKey
    sequence: int
    tokens: int
    """Estimated cost of what is delivered of the message."""
    score: float
    """In 0..1; it orders as `order` does."""
    order: float
    """The fused value, drawn to its conversation's best, after the charge for length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Sequence[Scored]):
    """Candidates, best first, as one column for each field of `Scored`.

    A search has hundreds of candidates and returns few, so a `Scored` is only built on access.
    """

    rows: Sequence[int]
    keys: Sequence[MessageKey]
    conversations: Sequence[ConversationKey]
    sequences: Sequence[int]
    tokens: Sequence[int]
    scores: Sequence[float]
    orders: Sequence[float]
    covers: Sequence[bool]
    """Whether each contains about all words of the query, as only a few candidates do."""
    look_of: Callable[[int], Look] = field(compare=False)
    """Returns for a row that by which equal texts are recognised before any text is read."""

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
        """Return the best candidate of each of the first `limit` conversations.

        Args:
            among: the indices to consider, in order; all by default.
        """
        best: dict[ConversationKey, int] = {}
        for place in range(len(self)) if among is None else among:
            if len(best) == limit:
                break
            best.setdefault(self.conversations[place], place)
        return [self[place] for place in best.values()]

    def first(self, limit: int, *, repeats_max: int) -> list[Scored]:
        """Return the first `limit` candidates, and some more of those that look like one of them."""
        kept: list[Scored] = []
        looks = set[Look]()
        for place, row in enumerate(self.rows):
            if not limit and not repeats_max:
                break
            look = self.look_of(row)
            if look in looks and repeats_max:
                repeats_max -= 1
            elif limit:
                limit -= 1
                looks.add(look)
            else:
                continue
            kept.append(self[place])
        return kept


class DeliveredLengths(NamedTuple):
    """How long a text may be to be delivered whole, and how much comes of a longer one, in tokens."""

    whole_max: int
    excerpt: int

    @classmethod
    def within(cls, token_budget: int) -> DeliveredLengths:
        """Return the lengths for an answer of some tokens."""
        excerpt = max(EXCERPT_TOKENS_MIN, min(EXCERPT_TOKENS_MAX, token_budget // 6))
        return cls(whole_max=max(excerpt, token_budget // 2), excerpt=excerpt)

    def of(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how much is delivered of texts of these lengths."""
        return np.where(tokens > self.whole_max, self.excerpt, tokens)


WHOLE_TEXTS = DeliveredLengths(whole_max=np.iinfo(np.int64).max, excerpt=0)


class Scoring(Value):
    """The candidates of one search with every component of their scores, sorted by key."""

    candidates: Candidates
    profile: Profile
    raw: Mapping[LegName, Values]
    legs: Mapping[LegName, Values]
    time_bonus: Values
    fused: Values
    conversation_best: Values
    """The best fused value in each candidate's conversation."""
    delivered_tokens: NDArray[np.int64]
    """Estimated tokens of what would be delivered of each candidate."""
    charge: Values
    importance: Values
    usefulness: Values

    @property
    def are_memories(self) -> NDArray[np.bool_]:
        """Return for each candidate whether it is a memory."""
        return ~np.isnan(self.candidates.importance)

    @property
    def order(self) -> Values:
        """Return the sort keys of the candidates.

        A message gains from the best one in its conversation: next to a good match, others are
        more likely to be meant.
        """
        weight = self.profile.conversation_weight
        drawn = (self.fused + weight * self.conversation_best) / (1 + weight) * self.charge
        return drawn * self.importance * self.usefulness

    @property
    def scores(self) -> Values:
        """Return the scores of the candidates, in 0..1: one half at the profile's middle."""
        return 1.0 / (1.0 + np.exp((self.profile.middle - self.order) / SCORE_WIDTH))

    @property
    def nearness(self) -> Values:
        """Return the leg of each candidate's deep vector; 0 without one."""
        near = self.legs.get("message_vector")
        if near is None:
            return np.zeros(len(self.fused))
        return np.where(self.candidates.is_deep, np.nan_to_num(near), 0.0)

    @property
    def are_matching(self) -> NDArray[np.bool_]:
        """Return which candidates match by themselves, and not only by what is said around them."""
        near = self.legs.get("message_vector")
        if near is None:
            return np.ones(len(self.fused), dtype=np.bool_)
        has_words = self.candidates.share_message > 0
        return has_words | np.isnan(near) | (near >= MATCHING_NEARNESS)

    def with_middle(self, order: float) -> Scoring:
        """Return the same scoring with another order value whose score is one half."""
        return replace(self, profile=replace(self.profile, middle=order))

    @property
    def _covers(self) -> NDArray[np.bool_]:
        covers = self.candidates.coverage >= COVERING_MIN
        return covers if covers.sum() <= COVERING_MAX else np.zeros_like(covers)

    def rank(
        self,
        *,
        score_min: float = 0.0,
        coverage_min: float = math.inf,
        also: NDArray[np.bool_] | None = None,
    ) -> Ranking:
        """Return the candidates that reach `score_min` or `coverage_min`, best first, ties by key.

        Args:
            also: a mask of others to return.
        """
        candidates, scores, order = self.candidates, self.scores, self.order
        is_good = (scores >= score_min) | (candidates.coverage >= coverage_min)
        if also is not None:
            is_good |= also
        kept = ((self.fused > 0) & is_good).nonzero()[0]
        # Candidates are sorted by key, so a stable sort breaks ties by key.
        rows = kept.take((-order.take(kept)).argsort(kind="stable"))
        return Ranking(
            rows=rows.tolist(),
            keys=candidates.keys.take(rows).tolist(),
            conversations=candidates.conversations.take(rows).tolist(),
            sequences=candidates.sequences.take(rows).tolist(),
            tokens=self.delivered_tokens.take(rows).tolist(),
            scores=scores.take(rows).tolist(),
            orders=order.take(rows).tolist(),
            covers=self._covers.take(rows).tolist(),
            look_of=self._look_of,
        )

    def _look_of(self, row: int) -> Look:
        found = self.candidates
        share, cosine = float(found.share_message[row]), float(found.cosine[row])
        if math.isnan(cosine):
            cosine = -2.0  # NaN is not equal to itself
            if not share:
                # A length alone says nothing: without more no two look alike.
                return -1 - row, share, 0.0, cosine
        return int(found.characters[row]), share, float(found.coverage[row]), cosine

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
            time_bonus=float(self.time_bonus[row]),
            fused=float(self.fused[row]),
            conversation_best=float(self.conversation_best[row]),
            length_charge=float(self.charge[row]),
            importance_factor=float(self.importance[row]),
            usefulness_factor=float(self.usefulness[row]),
            order=item.order,
        )

    def _tier(self, row: int) -> Tier:
        return "deep" if self.candidates.is_deep[row] else "instant"


def score(
    candidates: Candidates,
    *,
    profile: Profile,
    calibrations: Calibrations,
    now: int,
    lengths: DeliveredLengths = WHOLE_TEXTS,
) -> Scoring:
    """Score every candidate on every leg of a profile.

    Args:
        lengths: how much of a long text is delivered; all of it by default.
    """
    raw: dict[LegName, Values] = {
        name: _raw_values(candidates, name, now=now) for name in profile.weights
    }
    legs = _leg_values(raw, is_deep=candidates.is_deep, calibrations=calibrations)
    matched = fuse(legs, profile.weights)
    time_bonus = _time_bonus(candidates, matched)
    fused = matched + time_bonus
    tokens = tokens_in(candidates.characters)
    delivered = lengths.of(tokens)
    return Scoring(
        candidates=candidates,
        profile=profile,
        raw=raw,
        legs=legs,
        time_bonus=time_bonus,
        fused=fused,
        conversation_best=_best_of_conversations(candidates.conversations, fused),
        delivered_tokens=delivered,
        charge=_charge(candidates, delivered) if profile.charges_length else np.ones(len(fused)),
        importance=_importance_factor(candidates.importance, profile.importance_exponent),
        usefulness=1.0 + USEFULNESS_SHARE * candidates.usefulness,
    )


def best_rows(
    candidates: Candidates, *, profile: Profile, calibrations: Calibrations, now: int, limit: int
) -> NDArray[np.int64]:
    """Return the rows of the best candidates, to compare their tokens; none if the profile does not."""
    if "token_vectors" not in profile.weights:
        return np.empty(0, dtype=np.int64)
    scoring = score(candidates, profile=profile, calibrations=calibrations, now=now)
    return (-scoring.order).argsort(kind="stable")[:limit]


def has_vectors(candidates: Candidates) -> bool:
    """Return True if any candidate has a cosine."""
    return not np.isnan(candidates.cosine).all()


def fuse(legs: Mapping[LegName, Values], weights: Mapping[LegName, float]) -> Values:
    """Return the weighted mean of the legs' values; 0 where no leg has one.

    The weight of a leg without a value is shared among the others in proportion.
    """
    values = np.array([legs[name] for name in weights])
    is_missing = np.isnan(values)
    shares = np.where(is_missing, 0.0, np.array([[weight] for weight in weights.values()]))
    summed = (np.where(is_missing, 0.0, values) * shares).sum(axis=0)
    total = shares.sum(axis=0)
    return np.divide(summed, total, out=np.zeros_like(summed), where=total > 0)


def tokens_in(characters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the estimated tokens of texts of these lengths, as `tokens_of` does for one."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def length_charge(tokens: NDArray[np.int64]) -> Values:
    """Return the factors in 0..1 by which messages of these lengths are ranked lower."""
    return np.minimum(1.0, CHARGE_FREE_TOKENS / np.maximum(tokens, 1)) ** CHARGE_EXPONENT


def _raw_values(candidates: Candidates, name: LegName, *, now: int) -> Values:
    """Return what a leg measured; for recency, the age of each message in hours."""
    match name:
        case "message_vector" | "cosine":
            return candidates.cosine
        case "neighbor_vectors":
            return candidates.cosine_around
        case "message_words" | "bm25_of_best":
            return candidates.share_message
        case "window_words":
            return candidates.share_window
        case "token_vectors":
            return _token_match(candidates)
        case "recency":
            return np.maximum(now - candidates.said_at, 0) / _HOUR_US
        case _:
            assert_never(name)


def _token_match(candidates: Candidates) -> Values:
    if candidates.token_match is None:
        return np.full(len(candidates.keys), np.nan)
    return candidates.token_match


def _leg_values(
    raw: Mapping[LegName, Values], *, is_deep: NDArray[np.bool_], calibrations: Calibrations
) -> dict[LegName, Values]:
    """Return each leg's absolute values, clipped to 0..LEG_VALUE_MAX."""
    absolute = [_absolute(name, values, is_deep, calibrations) for name, values in raw.items()]
    clipped = np.minimum(np.maximum(absolute, 0.0), LEG_VALUE_MAX)
    return dict(zip(raw, clipped, strict=True))


def _absolute(
    name: LegName, values: Values, is_deep: NDArray[np.bool_], calibrations: Calibrations
) -> Values:
    match name:
        case "message_vector":
            return _calibrated(values, is_deep, {t: c.message for t, c in calibrations.items()})
        case "neighbor_vectors":
            return _calibrated(
                values, is_deep, {t: c.neighborhood for t, c in calibrations.items()}
            )
        case "message_words" | "window_words" | "token_vectors":
            scale = _FIXED_SCALES[name]
            return (values - scale.offset) / scale.span
        case "cosine":
            return values
        case "bm25_of_best":
            return values / max(values.max(initial=0.0), _BM25_SHARE_MIN)
        case "recency":
            return np.exp(-RECENCY_PER_HOUR * values)
        case _:
            assert_never(name)


def _calibrated(
    cosines: Values, is_deep: NDArray[np.bool_], scales: Mapping[Tier, CosineScale]
) -> Values:
    """Return cosines on the scale of the model that made them; NaN for an uncalibrated model."""
    deep, instant = scales.get("deep", _UNKNOWN_SCALE), scales.get("instant", _UNKNOWN_SCALE)
    offsets = np.where(is_deep, deep.offset, instant.offset)
    return (cosines - offsets) / np.where(is_deep, deep.span, instant.span)


def _time_bonus(candidates: Candidates, matched: Values) -> Values:
    """Return what each candidate gains by its time."""
    if candidates.are_in_time is None:
        return np.zeros(len(matched))
    return np.where(candidates.are_in_time, np.minimum(TIME_BONUS, matched), 0.0)


def _best_of_conversations(conversations: NDArray[np.int64], values: Values) -> Values:
    """Return for each candidate the best value in its conversation; conversations are sorted."""
    if not len(values):
        return values
    starts = run_starts(conversations)
    return np.repeat(np.maximum.reduceat(values, starts), run_lengths(starts, len(values)))


def _importance_factor(importance: Values, exponent: float) -> Values:
    """Return the factor for each memory's importance; 1 for messages.

    engram-go multiplies by (5 - importance) / 3; the exponent weakens that.
    """
    are_messages = np.isnan(importance)
    if are_messages.all():
        return np.ones(len(importance))
    return np.where(are_messages, 1.0, ((5.0 - importance) / 3.0) ** exponent)


def _charge(candidates: Candidates, tokens: NDArray[np.int64]) -> Values:
    """Return each candidate's charge for what is delivered of it; chunks of documents are exempt."""
    return np.where(candidates.are_documents, 1.0, length_charge(tokens))
