"""Reading memories: by id, their history, as of a moment in the past, by recall, and as a context."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, get_args

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.document import Document
from engram.model.fields import (
    DEFAULT_PROJECT,
    AskedAt,
    Between,
    Bytes,
    Length,
    Offset,
    Project,
    Query,
    Share,
    Tags,
    TokenBudget,
)
from engram.model.ids import ChunkId, EpisodeId, MemoryId
from engram.model.memory import (
    EVERY_MEMORY,
    Category,
    Memory,
    MemoryFilters,
    MemoryVersion,
    Relation,
    RelationType,
)
from engram.model.request import Request
from engram.model.search import (
    Kind,
    Kinds,
    ProfileName,
    ScoreBreakdown,
    SearchFilters,
    check_since_before,
)
from engram.model.value import INTERNAL, Score, Value

FetchDetail = Literal["summary", "chunk", "full"]

READING_TOKENS = 10_000
"""Default token budget of a response with memories."""


class MemoryFetch(Request):
    """Which memory to read, and how much of it."""

    id: MemoryId
    project: Project | None = None
    """The project of the memory; None means any of the organisation's."""
    detail: FetchDetail = "summary"
    chunk_ids: Annotated[
        tuple[ChunkId, ...], Length(0, limits.CHUNKS_PER_CALL_MAX), "With detail chunk."
    ] = ()
    """The chunks to read with detail `chunk`; empty means all."""
    token_budget: TokenBudget = READING_TOKENS
    from_character: Annotated[
        int, Between(0, limits.MEMORY_BYTES_MAX), "With detail full: begin here, to read on."
    ] = 0

    def check(self) -> None:
        if self.from_character and self.detail != "full":
            raise InvalidRequestError("can only be given with detail full", field="from_character")
        if self.chunk_ids and self.detail != "chunk":
            raise InvalidRequestError("can only be given with detail chunk", field="chunk_ids")


class MemoryChunk(Value):
    """A range of a memory's text."""

    id: ChunkId
    index: int
    start: int
    """In characters of the content; the chunks' ranges are contiguous."""
    end: int
    text: str | None
    """None if it did not fit the token budget."""


class FetchedMemory(Value):
    """A memory with the requested level of detail."""

    memory: Memory
    summary: str
    chunk_count: int
    content: str | None = None
    chunks: tuple[MemoryChunk, ...] | None = None
    document: Document | None = None
    """The document it owns, if any."""
    is_truncated: bool = False
    """True if some of the requested text did not fit the token budget."""


class MemoryHistory(Value):
    """A memory and its earlier versions, oldest first."""

    memory: Memory
    versions: tuple[MemoryVersion, ...]


class TimelineQuery(Request):
    """Selects memories as they were known at a moment in the past."""

    as_of: datetime
    projects: tuple[Project, ...] | None = None
    """None means every project of the organisation."""
    limit: Annotated[int, Between(1, limits.MEMORY_PAGE_MAX)] = 20
    offset: Offset = 0


OverviewReason = Literal["critical", "important", "open", "decision", "preference", "latest"]
"""Why a new session should know an entry."""

OVERVIEW_REASONS: tuple[OverviewReason, ...] = get_args(OverviewReason)
RecallMode = Literal["handle", "full", "summary", "id_only"]


class RecallShape(Value):
    """Format of the answer of a recall."""

    mode: RecallMode = "handle"
    detail: FetchDetail = "summary"
    """How much text each result has, in mode `full`."""
    hops: int = 0
    """Up to how many relations away related memories are shown."""
    token_budget: int = READING_TOKENS
    has_conflicts: bool = False
    has_event: bool = False

    def __post_init__(self) -> None:
        if self.mode != "full" and self.detail != "summary":
            raise InvalidRequestError("can only be given with mode full", field="detail")


class RecallRequest(Request):
    """A query over memories."""

    query: Query
    top_k: Annotated[int, Between(1, limits.RECALL_RESULTS_MAX)] = 10
    filters: MemoryFilters = EVERY_MEMORY
    tags: Tags = ()
    """All must match."""
    since: datetime | None = None
    """Inclusive; compared with `valid_from`, or else with the time the current text was stored."""
    before: datetime | None = None
    """Exclusive."""
    min_score: Share = 0.0
    profile: ProfileName = "default"
    hops: Annotated[int, Between(0, limits.RELATION_HOPS_MAX)] = 0
    """Up to how many relations away related memories are loaded; 0 loads none."""
    asked_at: AskedAt = None
    episode_ids: tuple[EpisodeId, ...] = ()
    """Memories of these episodes rank higher."""

    def check(self) -> None:
        check_since_before(self.since, self.before)

    def as_search(self) -> SearchFilters:
        """Return its conditions as filters of a search."""
        return SearchFilters(
            tags=self.tags, since=self.since, before=self.before, memory=self.filters
        )


class ConnectedMemory(Value):
    """A memory that is related to a recalled one, directly or through another."""

    memory: Memory
    relation_type: RelationType
    """Type of the last relation on the path to it."""
    is_source: bool
    """True if this memory is the source of that relation."""
    strength: float
    hops: int


class RecalledMemory(Value):
    """A recalled memory, with its score and how it came about."""

    memory: Memory
    score: float
    breakdown: ScoreBreakdown
    matched: MemoryChunk
    """The chunk that matches the query best; a short memory has a single one."""
    chunk_count: int
    episode_boost: float = 1.0
    """Above 1 if it ranks higher because of its episode."""
    superseded_by: tuple[MemoryId, ...] = ()
    """Memories that supersede it; it is ranked behind those of them that are recalled too."""
    connected: tuple[ConnectedMemory, ...] = ()


class Recalled(Value):
    """Result of a recall, best first."""

    event_id: str
    """Identifies this recall in `memory_feedback`; nothing is stored under it."""
    results: tuple[RecalledMemory, ...]
    conflicts: Sequence[Relation]
    """`contradicts` relations between two of the results."""
    total_candidates: int
    pending: int
    """The organisation's texts that wait for deep vectors."""
    degraded: tuple[str, ...] = ()
    is_relevant: bool = True
    """False if none of the results scores high enough to be an answer."""


class ContextRequest(Request):
    """Describes the work that a model needs context for."""

    query: Annotated[
        str | None,
        Length(limits.CONTEXT_QUERY_CHARACTERS_MIN),
        Bytes(limits.QUERY_BYTES_MAX),
        "What you work on. Without it: what a new session should know.",
    ] = None
    top_k: Annotated[int, Between(1, limits.CONTEXT_RESULTS_MAX)] = 5
    category_filter: Category | None = None
    project: Project | None = None
    min_score: Share | None = None
    """Minimum score of an entry; None means a default near which relevant answers begin."""
    token_budget: TokenBudget = 1500
    kinds: Kinds = ("note",)
    asked_at: AskedAt = None

    def check(self) -> None:
        least = limits.CONTEXT_QUERY_CHARACTERS_MIN
        if self.query is not None and len(self.query.strip()) < least:
            raise InvalidRequestError(f"must have at least {least} characters", field="query")


class ContextEntry(Value, omit_defaults=True):
    """A memory, or a message of a conversation, that is relevant to the work."""

    kind: Kind
    id: str
    """Id of the memory or the message."""
    content: Annotated[str, INTERNAL] = ""
    """The verbatim excerpt shown in the fenced text; answers have it only there."""
    score: Score | None = None
    """Relevance to the query; an entry of an overview has none."""
    date: datetime
    """When it was said or became valid, or else when it was stored."""
    source: str
    """The source of a memory, or the speaker of a message."""
    category: Category | None = None
    """Category of a memory."""
    conversation_id: str | None = None
    """Conversation of a message."""
    project: str = DEFAULT_PROJECT
    reason: OverviewReason | None = None
    """Why a new session should know it; None if it was found by the query."""
    truncated: bool = False
    """True if the stored text is longer."""


class NearMiss(Value, omit_defaults=True):
    """Handle of an entry that is not relevant enough to be shown."""

    kind: Kind
    id: str
    date: datetime
    category: Category | None = None
    score: Score


class CurrentProject(Value):
    """A project that was worked on lately."""

    project: str
    active_at: datetime
    """When something was last stored in it."""


class Context(Value):
    """Entries, best first, and the fenced text that presents them to a model."""

    context: str
    """A fenced block that no stored text can break out of; see `engram.text.fence`."""
    entries: tuple[ContextEntry, ...]
    used_tokens: int
    """Estimated tokens of the fenced text."""
    omitted: int
    """Relevant entries that did not fit the budget."""
    below_cut: int = 0
    """Candidates whose score is below `min_score` or its default; `min_score: 0` shows them."""
    nearest: tuple[NearMiss, ...] = ()
    """The best of those, if nothing is relevant."""
    projects: tuple[CurrentProject, ...] = ()
    """Current projects, the latest first, in an overview of more than one."""
    degraded: tuple[str, ...] = ()
