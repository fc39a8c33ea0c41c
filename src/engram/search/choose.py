"""Choose which candidates of a search to read and return.

`choose` packs results within a token budget; `choose_best` and `choose_either_way` take the top of the
ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, count, zip_longest
from math import log2
from typing import NamedTuple, assert_never

from engram.model.ids import ConversationKey, MessageKey
from engram.model.search import Candidates, ProfileName, SearchRequest
from engram.model.value import Value, replace
from engram.search.pack import Packed, pack
from engram.search.profiles import usable_profile
from engram.search.score import Calibrations, Ranking, Scored, Scoring, has_vectors, score


class Rise(NamedTuple):
    """A share that grows with the logarithm of the number of candidates."""

    start: float
    doubling: float
    most: float


FETCHED_SHARE = 0.45
"""Share of the profile's `relevant` score that an entry found by words alone must reach by default."""

FETCHED_FEW = 9
"""The shares with vectors hold for up to so many candidates. They rise with every doubling from there: the
best of many unrelated notes comes nearer to a query than the best of a few, as the maximum of a larger
sample does."""

FETCHED_QUESTION = Rise(start=0.36, doubling=0.09, most=0.7)
FETCHED_TOPIC = Rise(start=0.27, doubling=0.045, most=0.7)
"""A few words without a question come near to nothing: a higher share would keep hardly any answer.
`python -m bench notes` prints the answers kept, and the foreign queries that bring nothing."""


class Chosen(Value):
    """The ranked candidates, packed into texts and handles."""

    scoring: Scoring
    ranked: Ranking
    packed: Packed

    @property
    def candidates(self) -> Candidates:
        return self.scoring.candidates

    @property
    def messages(self) -> list[MessageKey]:
        """Return the messages to read."""
        return [item.key for group in self.packed.groups for item in group.items]

    @property
    def conversations(self) -> list[ConversationKey]:
        """Return the conversations of texts and handles."""
        groups = dict.fromkeys(group.conversation for group in self.packed.groups)
        handles = dict.fromkeys(item.conversation for item in self.packed.handles)
        return list(groups | handles)

    @property
    def is_relevant(self) -> bool:
        """Return True if the best candidate scores high enough to be an answer."""
        return max(self.ranked.scores, default=0.0) >= self.scoring.profile.relevant


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
        return any(item.score >= self.scoring.profile.relevant for item in self.ranked)


def choose(
    candidates: Candidates, calibrations: Calibrations, *, request: SearchRequest, now: int
) -> Chosen:
    """Rank the candidates and pack them in the detail that a request asks for."""
    profile = usable_profile(request.profile, has_vectors=has_vectors(candidates))
    scoring = score(candidates, profile=profile, calibrations=calibrations, now=now)
    ranked = scoring.rank(score_min=request.min_score)
    return Chosen(scoring=scoring, ranked=ranked, packed=_packed(ranked, request, scoring))


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
    if score_min is None:
        score_min = fetched_min(scoring, is_topic=is_topic)
    ranked = scoring.rank(score_min=score_min)
    kept = ranked.best_of_each(limit) if is_each_once else ranked[:limit]
    return Best(scoring=scoring, ranked=kept)


def fetched_min(scoring: Scoring, *, is_topic: bool) -> float:
    """Return the score below which an entry is not relevant enough to be fetched."""
    share = FETCHED_SHARE
    if has_vectors(scoring.candidates):
        rise = FETCHED_TOPIC if is_topic else FETCHED_QUESTION
        doublings = log2(max(len(scoring.fused), FETCHED_FEW) / FETCHED_FEW)
        share = min(rise.start + rise.doubling * doublings, rise.most)
    return share * scoring.profile.relevant


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
    match request.detail:
        case "messages":
            return pack(ranked, limit=request.limit, token_budget=request.token_budget)
        case "handle":
            best = ranked.best_of_each(request.limit + 1)
            return _as_handles(best[: request.limit], is_truncated=len(best) > request.limit)
        case "window":
            # The windows depend on the lengths of the conversations, which are read later.
            shown = _limit_memories(ranked, request.limit + 1, scoring)
            return _as_handles(shown, is_truncated=False)
        case _:
            assert_never(request.detail)


def _limit_memories(ranked: Sequence[Scored], limit: int, scoring: Scoring) -> list[Scored]:
    """Return the ranking without memories after the first `limit`: each is read with its text."""
    are_memories = scoring.are_memories.tolist()
    numbers = count(1)
    return [item for item in ranked if not are_memories[item.row] or next(numbers) <= limit]


def _as_handles(items: Sequence[Scored], *, is_truncated: bool) -> Packed:
    return Packed(groups=(), handles=items, tokens=0, is_truncated=is_truncated)
