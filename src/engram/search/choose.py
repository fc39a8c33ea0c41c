"""Choose which candidates of a search to read and return.

`choose` packs results within a token budget; `choose_best` and `choose_either_way` take the top of the
ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, count, zip_longest
from typing import assert_never

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

RECALLED_SCORE_MIN = 0.09
"""The least score of a memory that is recalled, if the caller sets no minimum.

Among 200 notes it kept 90 % of those that answer a question in other words, and 0.4 notes for a question
that none answers."""

WEAK_SCORE = 0.16
"""Messages that score lower are not delivered by default: they hold 3 to 5 % of the evidence in chats."""

NEAREST = 3
"""Handles of what came nearest if nothing is relevant."""


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
) -> Best:
    """Rank the candidates and keep the first `limit` that reach `score_min`.

    Args:
        score_min: by default `RECALLED_SCORE_MIN`.
        is_each_once: keep only the best message of each conversation, or chunk of each document.
    """
    chosen_profile = usable_profile(profile, has_vectors=has_vectors(candidates))
    scoring = score(candidates, profile=chosen_profile, calibrations=calibrations, now=now)
    ranked = scoring.rank(score_min=RECALLED_SCORE_MIN if score_min is None else score_min)
    kept = ranked.best_of_each(limit) if is_each_once else ranked[:limit]
    return Best(scoring=scoring, ranked=kept)


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
