"""Choose which candidates of a search to read and return.

`choose` packs results within a token budget; `choose_best` and `choose_either_way` take the top of the
ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, count, zip_longest
from math import inf, log2
from typing import NamedTuple, assert_never

from engram.model.ids import ConversationKey, MessageKey
from engram.model.search import Candidates, ProfileName, SearchRequest
from engram.model.value import Value, replace
from engram.search.pack import Packed, count_good, pack
from engram.search.profiles import usable_profile
from engram.search.score import (
    WHOLE_TEXTS,
    Calibrations,
    DeliveredLengths,
    Ranking,
    Scored,
    Scoring,
    has_vectors,
    score,
)
from engram.text.excerpts import tokens_of

RELEVANT_SCORE = 0.5
"""An answer whose best score is lower has nothing relevant, unless `RELEVANT_COVERAGE` is reached."""

RELEVANT_COVERAGE = 0.6
"""A message with so much of the query's words is an answer whatever its score.

Questions about a chat reach it in 60 %, questions about other people's chats in 1 %."""

WEAK_SCORE = 0.16
"""Messages that score lower are not delivered by default: they hold 3 to 5 % of the evidence in chats."""

NEAREST = 3
"""Handles of what came nearest if nothing is relevant."""


class Rise(NamedTuple):
    """A share that grows with the logarithm of the number of candidates."""

    start: float
    doubling: float
    most: float


FETCHED_SHARE = 0.45
"""Share of the profile's middle that an entry found by words alone must reach by default."""

FETCHED_FEW = 9
"""The shares with vectors hold for up to so many candidates. They rise with every doubling from there: the
best of many unrelated notes comes nearer to a query than the best of a few, as the maximum of a larger
sample does."""

FETCHED_QUESTION = Rise(start=0.36, doubling=0.09, most=0.7)
FETCHED_TOPIC = Rise(start=0.27, doubling=0.045, most=0.7)
"""A few words without a question come near to nothing: a higher share would keep hardly any answer.
`python -m bench notes` prints the answers kept, and the foreign queries that bring nothing."""


class Chosen(Value):
    """The ranked candidates, and what of them is delivered."""

    scoring: Scoring
    calibrations: Calibrations
    packed: Packed
    lengths: DeliveredLengths
    """How much of a long text is delivered."""
    is_relevant: bool
    is_silent: bool
    """Whether nothing is delivered but handles of what came nearest."""

    @property
    def candidates(self) -> Candidates:
        return self.scoring.candidates

    @property
    def messages(self) -> list[MessageKey]:
        """Return the messages to read."""
        return [item.key for item in self.packed.items]

    @property
    def conversations(self) -> list[ConversationKey]:
        """Return the conversations of texts and handles."""
        return list(
            dict.fromkeys(item.conversation for item in (*self.packed.items, *self.packed.handles))
        )

    @property
    def excerpted(self) -> list[MessageKey]:
        """Return the messages of which only a part is delivered."""
        characters = self.candidates.characters
        return [
            item.key
            for item in self.packed.items
            if tokens_of(int(characters[item.row])) > self.lengths.whole_max
        ]


class Best(Value):
    """The top of the ranking, all of it to be read."""

    scoring: Scoring
    ranked: Sequence[Scored]

    @property
    def candidates(self) -> Candidates:
        return self.scoring.candidates

    @property
    def messages(self) -> list[MessageKey]:
        """Return the messages to read."""
        return [item.key for item in self.ranked]

    @property
    def conversations(self) -> list[ConversationKey]:
        """Return the conversations of those messages."""
        return list(dict.fromkeys(item.conversation for item in self.ranked))

    @property
    def is_relevant(self) -> bool:
        """Return True if one of them scores high enough to be an answer."""
        return any(item.score >= RELEVANT_SCORE for item in self.ranked)

    @property
    def excerpted(self) -> list[MessageKey]:
        """Return no messages: recall and contexts cut long texts themselves."""
        return []


def choose(
    candidates: Candidates, calibrations: Calibrations, *, request: SearchRequest, now: int
) -> Chosen:
    """Rank the candidates and pack them in the detail that a request asks for."""
    profile = usable_profile(request.profile, has_vectors=has_vectors(candidates))
    is_by_message = request.detail == "messages"
    lengths = DeliveredLengths.within(request.token_budget) if is_by_message else WHOLE_TEXTS
    scoring = score(
        candidates, profile=profile, calibrations=calibrations, now=now, lengths=lengths
    )
    found = scoring.rank(score_min=request.min_score or 0.0)
    is_relevant = _is_relevant(found, candidates)
    is_silent = request.min_score is None and not is_relevant
    if is_silent:
        packed = _nearest(found)
    elif request.min_score is None:
        good = scoring.rank(score_min=WEAK_SCORE, coverage_min=RELEVANT_COVERAGE)
        packed = _packed(good, request, scoring)
        packed = packed._replace(weaker=packed.weaker + len(found) - len(good))
    else:
        packed = _packed(found, request, scoring)
    return Chosen(
        scoring=scoring,
        calibrations=calibrations,
        packed=packed,
        lengths=lengths,
        is_relevant=is_relevant,
        is_silent=is_silent,
    )


def _is_relevant(ranked: Ranking, candidates: Candidates) -> bool:
    """Return True if one of the candidates is good enough to be an answer."""
    is_good = max(ranked.scores, default=0.0) >= RELEVANT_SCORE
    return is_good or bool((candidates.coverage[ranked.rows] >= RELEVANT_COVERAGE).any())


def _nearest(ranked: Ranking) -> Packed:
    """Return handles of what came nearest."""
    nearest = ranked.best_of_each(NEAREST)
    return Packed(items=(), handles=nearest, weaker=len(ranked))


def choose_best(
    candidates: Candidates,
    calibrations: Calibrations,
    *,
    profile: ProfileName,
    limit: int,
    score_min: float | None,
    now: int,
    is_each_once: bool = False,
    is_topic: bool = False,
) -> Best:
    """Rank the candidates and keep the first `limit` that reach `score_min`.

    Args:
        score_min: by default `fetched_min`.
        is_each_once: keep only the best message of each conversation, or chunk of each document.
        is_topic: the query is a few words, not a question; this lowers the default of `score_min`.
    """
    chosen_profile = usable_profile(profile, has_vectors=has_vectors(candidates))
    scoring = score(candidates, profile=chosen_profile, calibrations=calibrations, now=now)
    ranked = scoring.rank(
        score_min=fetched_min(scoring, is_topic=is_topic) if score_min is None else score_min,
        coverage_min=RELEVANT_COVERAGE if score_min is None else inf,
    )
    kept = ranked.best_of_each(limit) if is_each_once else ranked[:limit]
    return Best(scoring=scoring, ranked=kept)


def fetched_min(scoring: Scoring, *, is_topic: bool) -> float:
    """Return the score below which an entry is not relevant enough to be fetched."""
    share = FETCHED_SHARE
    if has_vectors(scoring.candidates):
        rise = FETCHED_TOPIC if is_topic else FETCHED_QUESTION
        doublings = log2(max(len(scoring.fused), FETCHED_FEW) / FETCHED_FEW)
        share = min(rise.start + rise.doubling * doublings, rise.most)
    return scoring.profile.score_of(share * scoring.profile.middle)


def choose_either_way(
    candidates: Candidates,
    calibrations: Calibrations,
    *,
    limit: int,
    score_min: float | None,
    now: int,
) -> Best:
    """Interleave the ranking by all legs with the one by vectors alone, and keep the first `limit`.

    A long text repeats the words of a question in many places, which would otherwise all come
    before an answer in other words.
    """
    choose_by = partial(
        choose_best, candidates, calibrations, limit=limit, score_min=score_min, now=now
    )
    best = choose_by(profile="default")
    if not has_vectors(candidates):
        return best
    turns = chain.from_iterable(zip_longest(best.ranked, choose_by(profile="vectors").ranked))
    kept: dict[MessageKey, Scored] = {}
    for item in turns:
        if item is not None:
            kept.setdefault(item.key, item)
    return replace(best, ranked=list(kept.values())[:limit])


def _packed(ranked: Ranking, request: SearchRequest, scoring: Scoring) -> Packed:
    has_bar = request.min_score is None
    good = count_good(ranked) if has_bar else len(ranked)
    weaker = len(ranked) - good
    match request.detail:
        case "messages":
            return pack(
                ranked, limit=request.limit, token_budget=request.token_budget, has_bar=has_bar
            )
        case "handle":
            best = ranked.best_of_each(request.limit + 1, among=range(good))
            cut_by = "limit" if len(best) > request.limit else None
            return Packed(items=(), handles=best[: request.limit], weaker=weaker, cut_by=cut_by)
        case "window":
            # The windows depend on the lengths of the conversations, which are read later.
            shown = _limit_memories(ranked[:good], request.limit + 1, scoring)
            return Packed(items=(), handles=shown, weaker=weaker)
        case _:
            assert_never(request.detail)


def _limit_memories(ranked: Sequence[Scored], limit: int, scoring: Scoring) -> list[Scored]:
    """Return the ranking without memories after the first `limit`: each is read with its text."""
    are_memories = scoring.are_memories.tolist()
    numbers = count(1)
    return [item for item in ranked if not are_memories[item.row] or next(numbers) <= limit]
