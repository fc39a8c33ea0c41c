"""Rank the candidates of a search and choose what is delivered of them, before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import assert_never

from engram.model.ids import ConversationKey, MessageKey
from engram.model.search import Candidates, SearchRequest
from engram.search.budget import Packed, pack
from engram.search.fuse import Scoring, has_vectors, score
from engram.search.legs import Calibrations
from engram.search.profiles import usable_profile
from engram.search.ranking import Ranking, Scored


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The candidates in their order, and which of them come as text and which as handles."""

    scoring: Scoring
    ranked: Ranking
    packed: Packed

    @property
    def candidates(self) -> Candidates:
        """Return all that was found."""
        return self.scoring.candidates

    @property
    def messages(self) -> list[MessageKey]:
        """Return what comes as text."""
        return [item.key for group in self.packed.groups for item in group.items]

    @property
    def conversations(self) -> list[ConversationKey]:
        """Return where that was said, and where handles point to."""
        groups = dict.fromkeys(group.conversation for group in self.packed.groups)
        handles = dict.fromkeys(item.conversation for item in self.packed.handles)
        return list(groups | handles)

    @property
    def is_relevant(self) -> bool:
        """Say whether the best of the messages found is good enough to be an answer."""
        return max(self.ranked.scores, default=0.0) >= self.scoring.profile.relevant


def choose(
    candidates: Candidates, calibrations: Calibrations, *, request: SearchRequest, now: int
) -> Chosen:
    """Rank the candidates and choose what of them a request gets."""
    profile = usable_profile(request.profile, has_vectors=has_vectors(candidates))
    scoring = score(candidates, profile=profile, calibrations=calibrations, now=now)
    ranked = scoring.rank(score_min=request.min_score)
    return Chosen(scoring=scoring, ranked=ranked, packed=_packed(ranked, request, scoring))


def _packed(ranked: Ranking, request: SearchRequest, scoring: Scoring) -> Packed:
    match request.detail:
        case "messages":
            return pack(ranked, limit=request.limit, token_budget=request.token_budget)
        case "handle":
            best = ranked.best_of_each(request.limit + 1)
            return _as_handles(best[: request.limit], is_truncated=len(best) > request.limit)
        case "window":
            # Which windows there are, the lengths of the conversations tell.
            shown = _few_memories(ranked, request.limit + 1, scoring)
            return _as_handles(shown, is_truncated=False)
        case _:
            assert_never(request.detail)


def _few_memories(ranked: Sequence[Scored], limit: int, scoring: Scoring) -> list[Scored]:
    """Return the ranking without memories after the first `limit`: reading one reads its text."""
    are_memories = scoring.are_memories.tolist()
    places = count(1)
    return [item for item in ranked if not are_memories[item.row] or next(places) <= limit]


def _as_handles(items: Sequence[Scored], *, is_truncated: bool) -> Packed:
    return Packed(groups=(), handles=items, tokens=0, is_truncated=is_truncated)
