"""Choose the best of all that was found, one by one: no packing, no budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest

from engram.model.ids import ConversationKey, MessageKey
from engram.model.search import Candidates, ProfileName
from engram.search.fuse import Scoring, has_vectors, score
from engram.search.legs import Calibrations
from engram.search.profiles import usable_profile
from engram.search.ranking import Scored

FETCHED_SHARE = 0.45
"""Of the score that says something relevant was found, what each entry must reach that nobody set a
bound for. Among 200 notes it kept 90 % of those that answer a question in other words, and 0.4 notes
of a question that none answers; the score itself kept 6 % of the answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The first of the ranking; all of them are read."""

    scoring: Scoring
    ranked: Sequence[Scored]

    @property
    def candidates(self) -> Candidates:
        """Return all that was found."""
        return self.scoring.candidates

    @property
    def messages(self) -> list[MessageKey]:
        """Return what comes as text."""
        return [item.key for item in self.ranked]

    @property
    def conversations(self) -> list[ConversationKey]:
        """Return where that was said."""
        return list(dict.fromkeys(item.conversation for item in self.ranked))

    @property
    def is_relevant(self) -> bool:
        """Say whether one of them is good enough to be an answer."""
        return any(item.score >= self.scoring.profile.relevant for item in self.ranked)


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

    Without one they must come near what the profile calls relevant. With `is_each_once`, of a
    document or conversation only the best is kept.
    """
    weighed = usable_profile(profile, has_vectors=has_vectors(candidates))
    scoring = score(candidates, profile=weighed, calibrations=calibrations, now=now)
    if score_min is None:
        score_min = FETCHED_SHARE * weighed.relevant
    ranked = scoring.rank(score_min=score_min)
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
    """Rank by all that is known and by meaning alone, and keep the best of both in turn.

    A long text has the words of a question in many places, which would all come before an answer in
    other words.
    """
    choose = partial(
        choose_best, candidates, calibrations, limit=limit, score_min=score_min, now=now
    )
    best = choose(profile="default")
    if not has_vectors(candidates):
        return best
    turns = chain.from_iterable(zip_longest(best.ranked, choose(profile="vectors").ranked))
    kept: dict[MessageKey, Scored] = {}
    for item in turns:
        if item is not None:
            kept.setdefault(item.key, item)
    return replace(best, ranked=list(kept.values())[:limit])
