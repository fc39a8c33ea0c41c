"""What callers may send about typed memories, in the names that engram-go's clients know."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.conversation import DEFAULT_PROJECT
from engram.model.ids import ChunkId, EpisodeId, MemoryId
from engram.model.memory import (
    DEFAULT_SOURCE,
    IMPORTANCE_DEFAULT,
    Category,
    FailureClass,
    Feedback,
    MemoryChange,
    MemoryDraft,
    MemoryFilters,
    MemoryOptions,
    MemoryQuery,
    MemoryType,
    RelationDraft,
    RelationType,
    date_among,
)
from engram.model.memory_reading import READING_TOKENS, FetchDetail, MemoryFetch, TimelineQuery
from engram.transport.requests.fields import (
    WHOLE,
    Moment,
    Name,
    Offset,
    Project,
    Share,
    Source,
    Tags,
    TokenBudget,
)
from engram.transport.requests.request import Request

Importance = Annotated[
    int, Field(ge=0, le=limits.IMPORTANCE_MAX, description="0 critical to 4 trivial."), WHOLE
]


class InProject(Request):
    """A request that speaks of one project."""

    project: Project = DEFAULT_PROJECT


class MemoryFields(Request):
    """What may be said of a memory, its content and its project apart."""

    memory_type: MemoryType = "context"
    category: Category = "general"
    source: Source = DEFAULT_SOURCE
    importance: Importance = IMPORTANCE_DEFAULT
    tags: Tags = []
    immutable: bool = False
    episode_id: str | None = None
    pattern_confidence: Share | None = None
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    expires_at: Moment | None = None

    def to_options(self, project: str) -> MemoryOptions:
        return MemoryOptions(**self._options(project))

    def _options(self, project: str) -> dict[str, Any]:
        return {
            "memory_type": self.memory_type,
            "category": self.category,
            "source": self.source,
            "importance": self.importance,
            "tags": tuple(self.tags),
            "project": project,
            "immutable": self.immutable,
            "episode_id": None if self.episode_id is None else EpisodeId(self.episode_id),
            "pattern_confidence": self.pattern_confidence,
            "valid_from": _begin(self.valid_from, self.tags),
            "valid_to": self.valid_to,
            "expires_at": self.expires_at,
        }


class WithContent(Request):
    content: Annotated[str, Field(min_length=1, description="Kept verbatim.")]


class MemoryInput(MemoryFields, WithContent):
    """A memory to keep; where it belongs is said beside it."""

    def to_draft(self, project: str) -> MemoryDraft:
        return MemoryDraft(content=self.content, **self._options(project))


class StoreMemory(MemoryInput, InProject):
    def to_model(self) -> MemoryDraft:
        return self.to_draft(self.project)


class BatchedMemory(MemoryInput):
    project: Annotated[Project | None, Field(description="Else that of the batch.")] = None


class StoreMemories(InProject):
    memories: Annotated[
        list[BatchedMemory], Field(min_length=1, max_length=limits.MEMORIES_PER_CALL_MAX)
    ]

    def to_model(self) -> tuple[MemoryDraft, ...]:
        drafts = list[MemoryDraft]()
        for index, memory in enumerate(self.memories):
            try:
                drafts.append(memory.to_draft(memory.project or self.project))
            except InvalidRequestError as exc:
                raise exc.within(f"memories[{index}]") from exc
        return tuple(drafts)


class FetchMemory(InProject):
    id: str
    detail: FetchDetail = "summary"
    chunk_ids: Annotated[
        list[str], Field(max_length=limits.CHUNKS_PER_CALL_MAX, description="With detail chunk.")
    ] = []
    token_budget: TokenBudget = READING_TOKENS

    def to_model(self) -> MemoryFetch:
        return MemoryFetch(
            memory_id=MemoryId(self.id),
            project=self.project,
            detail=self.detail,
            chunk_ids=tuple(map(ChunkId, self.chunk_ids)),
            token_budget=self.token_budget,
        )


class ListMemories(InProject):
    limit: Annotated[int, Field(ge=1, le=limits.MEMORY_PAGE_MAX), WHOLE] = 50
    offset: Offset = 0
    memory_type: MemoryType | None = None
    tags: Annotated[Tags, Field(description="Any may match.")] = []
    token_budget: TokenBudget = READING_TOKENS

    def to_model(self) -> MemoryQuery:
        filters = MemoryFilters(
            projects=(self.project,),
            memory_types=() if self.memory_type is None else (self.memory_type,),
            tags=tuple(self.tags),
        )
        return MemoryQuery(limit=self.limit, offset=self.offset, filters=filters)


class MemoryHistoryOf(InProject):
    memory_id: str
    token_budget: TokenBudget = READING_TOKENS


class Timeline(InProject):
    as_of: Moment
    limit: Annotated[int, Field(ge=1, le=limits.MEMORY_PAGE_MAX), WHOLE] = 20
    token_budget: TokenBudget = READING_TOKENS

    def to_model(self) -> TimelineQuery:
        return TimelineQuery(as_of=self.as_of, projects=(self.project,), limit=self.limit)


class ConnectMemories(InProject):
    source_id: str
    target_id: str
    relation_type: RelationType = "relates_to"
    strength: Share = 1.0

    def to_model(self) -> RelationDraft:
        return RelationDraft(
            source_id=MemoryId(self.source_id),
            target_id=MemoryId(self.target_id),
            relation_type=self.relation_type,
            strength=self.strength,
        )


class MemoryCorrection(Request):
    """What to change in a memory; what is left out stays."""

    content: Annotated[str | None, Field(min_length=1)] = None
    tags: Annotated[Tags | None, Field(description="[] takes all away.")] = None
    importance: Importance | None = None
    pattern_confidence: Share | None = None
    memory_type: MemoryType | None = None
    category: Category | None = None
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    expires_at: Moment | None = None

    def to_change(self) -> MemoryChange:
        return MemoryChange(
            content=self.content,
            memory_type=self.memory_type,
            category=self.category,
            importance=self.importance,
            tags=None if self.tags is None else tuple(self.tags),
            pattern_confidence=self.pattern_confidence,
            valid_from=_begin(self.valid_from, self.tags or ()),
            valid_to=self.valid_to,
            expires_at=self.expires_at,
        )


class CorrectMemory(MemoryCorrection, InProject):
    memory_id: str
    token_budget: TokenBudget = READING_TOKENS


class ForgetMemory(InProject):
    memory_id: str
    reason: str | None = None


class MemoryFeedback(InProject):
    memory_ids: Annotated[list[str], Field(max_length=limits.FEEDBACK_MEMORIES_MAX)] = []
    helpful: bool = True
    event_id: Annotated[Name | None, Field(description="Of a recall.")] = None
    failure_class: Annotated[FailureClass | None, Field(description="Needs event_id.")] = None

    def to_model(self) -> Feedback:
        return Feedback(
            memory_ids=tuple(map(MemoryId, dict.fromkeys(self.memory_ids))),
            helpful=self.helpful,
            event_id=self.event_id,
            failure_class=self.failure_class,
        )


class ListProjects(Request):
    project: Annotated[Project | None, Field(description="Only this one.")] = None


class MemoryStatusOf(InProject):
    """Whose memories to count."""


def _begin(given: datetime | None, tags: list[str] | tuple[str, ...]) -> datetime | None:
    """Return from when a memory holds: as given, else by a tag that names a date."""
    return given or date_among(tags)
