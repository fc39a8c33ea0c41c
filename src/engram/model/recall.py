"""What is recalled of memories, and what is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.checks import check_choice, check_range, check_share, check_text
from engram.model.ids import MemoryId
from engram.model.memory import Memory, MemoryFilters, Relation, RelationType
from engram.model.memory_reading import (
    READING_TOKENS,
    FetchDetail,
    MemoryChunk,
    check_token_budget,
)
from engram.model.search import PROFILES, ProfileName, ScoreBreakdown, SearchFilters

RecallMode = Literal["handle", "full", "summary", "id_only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallShape:
    """How the answer of a recall looks."""

    mode: RecallMode = "handle"
    detail: FetchDetail = "summary"
    """How much text comes with each result, in mode `full`."""
    hops: int = 0
    """How far related memories are shown."""
    token_budget: int = READING_TOKENS
    has_conflicts: bool = False
    has_event: bool = False

    def __post_init__(self) -> None:
        if self.mode != "full" and self.detail != "summary":
            raise InvalidRequestError("goes with mode full", field="detail")
        check_token_budget(self.token_budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """One question to the memories."""

    query: str
    top_k: int = 10
    filters: MemoryFilters = field(default_factory=MemoryFilters)
    tags: tuple[str, ...] = ()
    """All must match."""
    since: datetime | None = None
    """Inclusive; compared with `valid_from`, else with when the present text was stored."""
    before: datetime | None = None
    """Exclusive."""
    min_score: float = 0.0
    profile: ProfileName = "default"
    hops: int = 0
    """How far related memories are brought along; 0 is not at all."""

    def __post_init__(self) -> None:
        if not self.query.strip():
            raise InvalidRequestError("must not be empty", field="query")
        check_text("query", self.query, bytes_max=limits.QUERY_BYTES_MAX)
        check_range("top_k", self.top_k, minimum=1, maximum=limits.RECALL_RESULTS_MAX)
        check_share("min_score", self.min_score)
        check_choice("profile", self.profile, PROFILES)
        check_range("hops", self.hops, minimum=0, maximum=limits.RELATION_HOPS_MAX)
        self.as_search()

    def as_search(self) -> SearchFilters:
        """Return all its conditions as those of a search."""
        return SearchFilters(
            tags=self.tags, since=self.since, before=self.before, memory=self.filters
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedMemory:
    """A memory that is related to a recalled one, itself or through another."""

    memory: Memory
    relation_type: RelationType
    """Of the last step to it."""
    is_source: bool
    """Whether that relation begins at this memory."""
    strength: float
    hops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledMemory:
    """A memory that answers a question, and why."""

    memory: Memory
    score: float
    breakdown: ScoreBreakdown
    matched: MemoryChunk
    """The part that the question is about; a short memory is one part."""
    chunk_count: int
    superseded_by: tuple[MemoryId, ...] = ()
    """Memories that hold in its place; it is ranked behind those that are recalled too."""
    connected: tuple[ConnectedMemory, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """Memories, best first, and what is to be known of them together."""

    event_id: str
    """Names this recall for `memory_feedback`; nothing is kept of it."""
    results: tuple[RecalledMemory, ...]
    conflicts: Sequence[Relation]
    """`contradicts` between two of the results."""
    total_candidates: int
    pending: int
    """Texts of the organisation that wait for deep vectors."""
    degraded: tuple[str, ...] = ()
