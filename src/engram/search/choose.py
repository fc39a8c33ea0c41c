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
from engram.search.pack import BAR_SHARE, WORDS_BAR_SHARE, Packed, count_good, pack
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

RELEVANT_SCORE = 0.5
"""An answer whose best score is lower has nothing relevant, unless it is so by its words or its nearness."""

RELEVANT_COVERAGE = 0.6
"""A message with so much of the query's words is an answer whatever its score.

Questions about a chat reach it in 60 %, questions about other people's chats in 1 %."""

RELEVANT_NEARNESS = 0.78
"""A message whose deep vector is so near to the query's is an answer whatever its score.

It saves answers in other words: a third of those that questions about a chat would lose, while one in
a hundred more of the questions about other people's chats brings something."""

WEAK_SCORE = 0.13
"""Messages that score lower are not delivered by default: they hold 3 to 5 % of the evidence in chats.

Nor are those below `RELEVANT_SCORE` that match only by their neighbours, as "ok, thanks" after an answer does."""

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

FETCHED_QUESTION = Rise(start=0.34, doubling=0.085, most=0.66)
FETCHED_TOPIC = Rise(start=0.256, doubling=0.043, most=0.66)
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
        return [item.key for item in (*self.packed.items, *self.packed.alike)]

    @property
    def conversations(self) -> list[ConversationKey]:
        """Return the conversations of texts and handles."""
        packed = self.packed
        items = (*packed.items, *packed.alike, *packed.handles)
        return list(dict.fromkeys(item.conversation for item in items))

    @property
    def whole_tokens_max(self) -> int:
        """Return the longest text that is delivered whole."""
        return self.lengths.whole_max


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
        """Return True if one of them is good enough to be an answer."""
        coverage = self.candidates.coverage
        return any(
            item.score >= RELEVANT_SCORE or coverage[item.row] >= RELEVANT_COVERAGE
            for item in self.ranked
        )

    @property
    def whole_tokens_max(self) -> None:
        """Return no bound: recall and contexts cut long texts themselves."""


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
    is_relevant = _is_relevant(found, scoring)
    is_silent = request.min_score is None and not is_relevant
    if is_silent:
        packed = _nearest(found)
    elif request.min_score is None:
        weak = (scoring.scores >= WEAK_SCORE) & scoring.are_matching
        good = scoring.rank(score_min=RELEVANT_SCORE, coverage_min=RELEVANT_COVERAGE, also=weak)
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


def _is_relevant(ranked: Ranking, scoring: Scoring) -> bool:
    """Return True if one of the candidates is good enough to be an answer."""
    if max(ranked.scores, default=0.0) >= RELEVANT_SCORE:
        return True
    are_covering = scoring.candidates.coverage >= RELEVANT_COVERAGE
    are_near = scoring.nearness >= RELEVANT_NEARNESS
    return bool((are_covering | are_near)[ranked.rows].any())


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
    repeats_max: int = 0,
) -> Best:
    """Rank the candidates and keep the first `limit` that reach `score_min`.

    A score of one half is where relevance begins, as in a search; for a few short notes that is nearer
    to the query than nothing is, and for a chat much nearer.

    Args:
        score_min: by default `RELEVANT_SCORE`.
        is_each_once: keep only the best message of each conversation, or chunk of each document.
        is_topic: the query is a few words, not a question; this lowers the default of `score_min`.
        repeats_max: how many are kept beside, because they look like one of the first.
    """
    chosen_profile = usable_profile(profile, has_vectors=has_vectors(candidates))
    scoring = score(candidates, profile=chosen_profile, calibrations=calibrations, now=now)
    scoring = scoring.with_middle(fetched_order(scoring, is_topic=is_topic))
    ranked = scoring.rank(
        score_min=RELEVANT_SCORE if score_min is None else score_min,
        coverage_min=RELEVANT_COVERAGE if score_min is None else inf,
    )
    if is_each_once:
        kept = ranked.best_of_each(limit)
    else:
        kept = ranked.first(limit, repeats_max=repeats_max)
    return Best(scoring=scoring, ranked=kept)


def fetched_order(scoring: Scoring, *, is_topic: bool) -> float:
    """Return the order value below which an entry is not relevant enough to be fetched."""
    share = FETCHED_SHARE
    if has_vectors(scoring.candidates):
        rise = FETCHED_TOPIC if is_topic else FETCHED_QUESTION
        doublings = log2(max(len(scoring.fused), FETCHED_FEW) / FETCHED_FEW)
        share = min(rise.start + rise.doubling * doublings, rise.most)
    return share * scoring.profile.middle


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
    bar_share = BAR_SHARE if has_vectors(scoring.candidates) else WORDS_BAR_SHARE
    good = count_good(ranked, bar_share=bar_share) if has_bar else len(ranked)
    weaker = len(ranked) - good
    match request.detail:
        case "messages":
            return pack(
                ranked,
                limit=request.limit,
                token_budget=request.token_budget,
                has_bar=has_bar,
                bar_share=bar_share,
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
