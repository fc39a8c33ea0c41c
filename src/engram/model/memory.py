"""Memories: notes, typed memories and, as their owners, documents; asked for and as stored.

A memory is known in two times: `valid_from` to `valid_to` is when it holds in the world,
`created_at` and the moments of its versions are when we learned it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.checks import (
    check_choice,
    check_label,
    check_moment,
    check_range,
    check_share,
    check_tags,
    check_text,
)
from engram.model.conversation import DEFAULT_PROJECT, MessageDraft
from engram.model.ids import EpisodeId, MemoryId, RelationId

MemoryType = Literal["decision", "pattern", "error", "context", "architecture", "preference"]
Category = Literal["general", "project", "user_pref", "technical", "feedback"]
StorageMode = Literal["focused", "document"]
RelationType = Literal[
    "caused_by",
    "relates_to",
    "depends_on",
    "supersedes",
    "used_in",
    "resolved_by",
    "contradicts",
    "supports",
    "derived_from",
    "part_of",
    "follows",
]
Change = Literal["update", "invalidate", "merge"]
"""Why a version ended: it was corrected, forgotten, or merged into a newer memory."""

FailureClass = Literal[
    "vocabulary_mismatch",
    "aggregation_failure",
    "stale_ranking",
    "missing_content",
    "scope_mismatch",
    "other",
]

MEMORY_TYPES: tuple[MemoryType, ...] = get_args(MemoryType)
CATEGORIES: tuple[Category, ...] = get_args(Category)
RELATION_TYPES: tuple[RelationType, ...] = get_args(RelationType)
FAILURE_CLASSES: tuple[FailureClass, ...] = get_args(FailureClass)

IMPORTANCE_DEFAULT = 2
DEFAULT_SOURCE = "manual"

_DATE_TAG = re.compile(r"date:\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """What somebody says of a memory, its content apart."""

    memory_type: MemoryType = "context"
    category: Category = "general"
    source: str = DEFAULT_SOURCE
    importance: int = IMPORTANCE_DEFAULT
    """From 0, critical, to 4, trivial."""
    tags: tuple[str, ...] = ()
    project: str = DEFAULT_PROJECT
    immutable: bool = False
    episode_id: EpisodeId | None = None
    pattern_confidence: float | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """Exclusive."""
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        check_memory_type(self.memory_type)
        check_category(self.category)
        check_label("source", self.source, characters_max=limits.SOURCE_CHARACTERS_MAX)
        check_importance(self.importance)
        check_tags(self.tags)
        check_project(self.project)
        check_share("pattern_confidence", self.pattern_confidence)
        for name in ("valid_from", "valid_to", "expires_at"):
            check_moment(name, getattr(self, name))
        check_validity(self.valid_from, self.valid_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDraft(MemoryOptions):
    """A memory somebody wants kept; `content` is never changed."""

    content: str

    def __post_init__(self) -> None:
        if not self.content:
            raise InvalidRequestError("must not be empty", field="content")
        check_text("content", self.content, bytes_max=limits.MEMORY_BYTES_MAX)
        MemoryOptions.__post_init__(self)

    def as_message(self) -> MessageDraft:
        """Return the memory as the text that is stored and searched."""
        return MessageDraft(role="document", content=self.content, occurred_at=self.valid_from)


def date_among(tags: Sequence[str]) -> datetime | None:
    """Return the day that a tag such as `date:2026-05-08` names, as engram-go's clients write it.

    Raises:
        InvalidRequestError: there is no such day.
    """
    for index, tag in enumerate(tags):
        if _DATE_TAG.fullmatch(tag):
            try:
                return datetime.fromisoformat(tag.removeprefix("date:")).replace(tzinfo=UTC)
            except ValueError as exc:
                raise InvalidRequestError("is not a date", field=f"tags[{index}]") from exc
    return None


def check_memory_type(value: str) -> None:
    """Refuse a type that no memory has."""
    check_choice("memory_type", value, MEMORY_TYPES)


def check_category(value: str) -> None:
    """Refuse a category that no memory has."""
    check_choice("category", value, CATEGORIES)


def check_project(value: str) -> None:
    """Refuse what cannot name a project; nothing is cleaned."""
    check_label("project", value, characters_max=limits.PROJECT_CHARACTERS_MAX)


def check_importance(value: int, *, field: str = "importance") -> None:
    """Refuse an importance outside 0 to 4."""
    check_range(field, value, minimum=0, maximum=limits.IMPORTANCE_MAX)


def check_validity(valid_from: datetime | None, valid_to: datetime | None) -> None:
    """Refuse a memory that holds at no moment."""
    if valid_from and valid_to and valid_from >= valid_to:
        raise InvalidRequestError("must be earlier than valid_to", field="valid_from")


def note_draft(
    content: str,
    *,
    category: Category = "general",
    source: str = DEFAULT_SOURCE,
    tags: tuple[str, ...] = (),
    project: str = DEFAULT_PROJECT,
) -> MemoryDraft:
    """Return a note: a memory of one fact, bounded in its length.

    Raises:
        InvalidRequestError: it is too short or too long for a note.
    """
    check_note_length(content)
    return MemoryDraft(
        content=content, category=category, source=source, tags=tags, project=project
    )


def check_note_length(content: str) -> None:
    """Refuse a text that is too short or too long for a note."""
    least, most = limits.NOTE_CHARACTERS_MIN, limits.NOTE_CHARACTERS_MAX
    if not least <= len(content) <= most:
        message = f"must have {least:,} to {most:,} characters, got {len(content):,}"
        raise InvalidRequestError(message, field="content")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory as it is now, its content byte for byte as it came."""

    id: MemoryId
    content: str
    memory_type: MemoryType
    category: Category
    source: str
    importance: int
    tags: tuple[str, ...]
    project: str
    immutable: bool
    episode_id: EpisodeId | None
    pattern_confidence: float | None
    valid_from: datetime | None
    valid_to: datetime | None
    expires_at: datetime | None
    storage_mode: StorageMode
    document_id: str | None
    content_hash: str
    """SHA-256 of the content's UTF-8 in hex."""
    summary: str | None
    version: int
    """1 for a memory that was never changed."""
    created_at: datetime
    """When it was first stored."""
    updated_at: datetime
    """When its present version was stored."""
    is_searched: bool
    """False once it was forgotten or merged: searches and recalls pass it over."""
    reason: str | None = None
    """Why it was forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """What to correct in a memory; what is not given stays as it is."""

    content: str | None = None
    memory_type: MemoryType | None = None
    category: Category | None = None
    importance: int | None = None
    tags: tuple[str, ...] | None = None
    """An empty tuple takes all tags away."""
    pattern_confidence: float | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        if not self.given:
            raise InvalidRequestError("nothing to change is given")
        if self.content is not None:
            if not self.content:
                raise InvalidRequestError("must not be empty", field="content")
            check_text("content", self.content, bytes_max=limits.MEMORY_BYTES_MAX)
        if self.memory_type is not None:
            check_memory_type(self.memory_type)
        if self.category is not None:
            check_category(self.category)
        if self.importance is not None:
            check_importance(self.importance)
        check_tags(self.tags or ())
        check_share("pattern_confidence", self.pattern_confidence)
        for name in ("valid_from", "valid_to", "expires_at"):
            check_moment(name, getattr(self, name))

    def ends(self, *, now: datetime) -> bool:
        """Return True if the memory would end some time, or not hold at `now`."""
        if self.valid_to is not None or self.expires_at is not None:
            return True
        return self.valid_from is not None and self.valid_from > now

    @property
    def given(self) -> Mapping[str, Any]:
        """Return the fields to change."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory:
    """Where a draft went."""

    id: MemoryId
    is_duplicate: bool = False
    """True when the same text was there already: `id` is that memory's, and nothing was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryVersion:
    """A memory as it was before it was changed."""

    memory: Memory
    change: Change
    ended_at: datetime
    """When this version was replaced; it was learned at `memory.updated_at`."""
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilters:
    """Conditions on memories; all of them must hold."""

    projects: tuple[str, ...] | None = None
    """Any of these; None is every project of the organisation."""
    memory_types: tuple[MemoryType, ...] = ()
    categories: tuple[Category, ...] = ()
    sources: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Any of these."""
    importance_max: int | None = None
    """Memories of at least this weight: 1 is critical and important ones."""
    episode_id: EpisodeId | None = None
    storage_mode: StorageMode | None = None
    ids: tuple[MemoryId, ...] = ()
    """One of these."""

    def __post_init__(self) -> None:
        for project in self.projects or ():
            check_project(project)
        if self.projects == ():
            raise InvalidRequestError("must name at least one project", field="projects")
        for memory_type in self.memory_types:
            check_memory_type(memory_type)
        for category in self.categories:
            check_category(category)
        for source in self.sources:
            check_label("source", source, characters_max=limits.SOURCE_CHARACTERS_MAX)
        check_tags(self.tags)
        if self.importance_max is not None:
            check_importance(self.importance_max, field="min_importance")

    @property
    def is_empty(self) -> bool:
        """Return True if every memory meets them."""
        return self == EVERY_MEMORY


EVERY_MEMORY = MemoryFilters()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """Which memories to list, newest first."""

    limit: int = 50
    offset: int = 0
    filters: MemoryFilters = field(default_factory=MemoryFilters)
    include_forgotten: bool = False

    def __post_init__(self) -> None:
        check_range("limit", self.limit, minimum=1, maximum=limits.MEMORY_PAGE_MAX)
        check_range("offset", self.offset, minimum=0, maximum=limits.WHOLE_NUMBER_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPage:
    """One page of memories and the true total."""

    memories: tuple[Memory, ...]
    total: int
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationDraft:
    """A relation somebody wants between two memories."""

    source_id: MemoryId
    target_id: MemoryId
    relation_type: RelationType = "relates_to"
    strength: float = 1.0

    def __post_init__(self) -> None:
        check_choice("relation_type", self.relation_type, RELATION_TYPES)
        check_share("strength", self.strength)
        if self.source_id == self.target_id:
            raise InvalidRequestError("must be another memory than source_id", field="target_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A stored relation between two memories."""

    id: RelationId
    source_id: MemoryId
    target_id: MemoryId
    relation_type: RelationType
    strength: float
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A stretch of work that memories belong to."""

    id: EpisodeId
    project: str
    description: str
    started_at: datetime
    ended_at: datetime | None
    summary: str | None
    memories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What somebody says of memories after they were recalled."""

    memory_ids: tuple[MemoryId, ...]
    helpful: bool = True
    event_id: str | None = None
    failure_class: FailureClass | None = None

    def __post_init__(self) -> None:
        if not self.memory_ids and self.event_id is None:
            raise InvalidRequestError("must name at least one memory", field="memory_ids")
        check_range(
            "memory_ids", len(self.memory_ids), minimum=0, maximum=limits.FEEDBACK_MEMORIES_MAX
        )
        check_label("event_id", self.event_id, characters_max=limits.NAME_CHARACTERS_MAX)
        if self.failure_class is not None:
            check_choice("failure_class", self.failure_class, FAILURE_CLASSES)
            if self.event_id is None:
                raise InvalidRequestError("is needed with failure_class", field="event_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """What is left of a purged memory."""

    id: MemoryId
    content_hash: str
    removed_at: datetime
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSize:
    """A project and how many memories are searched in it."""

    project: str
    memories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatus:
    """What the memories of a project, or of all, amount to."""

    memories: int
    forgotten: int
    chunks: int
    """Texts that are searched for themselves."""
    chunks_pending: int
    """Those that wait for deep vectors."""
    relations: int
    by_type: Mapping[MemoryType, int]
    by_importance: Mapping[int, int]
    oldest: datetime | None
    newest: datetime | None
    summaries: int
    """Memories with a summary."""
