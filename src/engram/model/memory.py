"""Memories, which are notes, typed memories and owners of documents: requests and stored values.

Memories are bitemporal: `valid_from` to `valid_to` is when a memory is true in the world;
`created_at` and the timestamps of its versions are when we learned it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, get_args

from msgspec.structs import asdict

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.conversation import MessageDraft
from engram.model.fields import (
    DEFAULT_PROJECT,
    Between,
    Bytes,
    Length,
    Name,
    Offset,
    Project,
    Share,
    Source,
    Tags,
    check_label,
)
from engram.model.ids import EpisodeId, MemoryId, RelationId
from engram.model.request import Request
from engram.model.trash import Restorable
from engram.model.value import INTERNAL, Value, computed

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
"""Why a version was replaced: it was corrected, forgotten, or merged into a newer memory."""

Validity = Literal["now", "not_now", "any"]
"""Selects memories by time: those that are valid now, those that are forgotten, have expired or are not valid
now, or both."""

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

UNFILED: Category = "general"
"""The category of a memory that was given none."""

IMPORTANCE_DEFAULT = 2
IMPORTANCE_NAMES = ("critical", "high", "normal", "low", "trivial")
"""By importance."""

DEFAULT_SOURCE = "manual"

_DATE_TAG = re.compile(r"date:\d{4}-\d{2}-\d{2}", re.ASCII)


Importance = Annotated[int, Between(0, limits.IMPORTANCE_MAX), "0 critical to 4 trivial."]
MemoryContent = Annotated[str, Length(1), Bytes(limits.MEMORY_BYTES_MAX)]


class MemoryOptions(Request):
    """The fields of a memory other than its content."""

    memory_type: MemoryType = "context"
    category: Category = UNFILED
    source: Source = DEFAULT_SOURCE
    importance: Importance = IMPORTANCE_DEFAULT
    tags: Tags = ()
    project: Project = DEFAULT_PROJECT
    immutable: bool = False
    episode_id: EpisodeId | None = None
    pattern_confidence: Share | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """Exclusive."""
    expires_at: datetime | None = None

    def check(self) -> None:
        check_validity(self.valid_from, self.valid_to)


class MemoryDraft(MemoryOptions):
    """A memory to store; `content` is stored verbatim."""

    content: Annotated[MemoryContent, "Kept verbatim."]

    def as_message(self) -> MessageDraft:
        """Return the message under which the content is stored and indexed."""
        return MessageDraft(role="document", content=self.content, occurred_at=self.valid_from)


def date_among(tags: Sequence[str]) -> datetime | None:
    """Return the day of a tag such as `date:2026-05-08`, a convention of engram-go's clients.

    Raises:
        InvalidRequestError: the day does not exist.
    """
    for index, tag in enumerate(tags):
        if _DATE_TAG.fullmatch(tag):
            try:
                return datetime.fromisoformat(tag.removeprefix("date:")).replace(tzinfo=UTC)
            except ValueError as exc:
                raise InvalidRequestError("is not a date", field=f"tags[{index}]") from exc
    return None


def check_project(value: str) -> None:
    """Reject an invalid project name; it is never normalised into a valid one."""
    check_label("project", value, characters_max=limits.PROJECT_CHARACTERS_MAX)


def check_validity(valid_from: datetime | None, valid_to: datetime | None) -> None:
    """Reject an empty period of validity."""
    if valid_from and valid_to and valid_from >= valid_to:
        raise InvalidRequestError("must be earlier than valid_to", field="valid_from")


class NoteDraft(Request):
    """A note to store: a memory of one fact."""

    content: Annotated[
        str,
        Length(limits.NOTE_CHARACTERS_MIN, limits.NOTE_CHARACTERS_MAX),
        "One fact, at most 2,000 characters.",
    ]
    category: Category = UNFILED
    source: Source = DEFAULT_SOURCE
    tags: Tags = ()
    project: Project = DEFAULT_PROJECT

    def as_memory(self) -> MemoryDraft:
        """Return the memory as which the note is stored."""
        return MemoryDraft(**asdict(self))


class Memory(Value):
    """The current version of a memory; its content is byte for byte what was sent."""

    id: MemoryId
    content: str
    memory_type: MemoryType
    category: Category
    source: str
    importance: int
    tags: tuple[str, ...]
    project: str
    immutable: bool
    episode_id: EpisodeId | None = None
    pattern_confidence: float | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    storage_mode: StorageMode
    document_id: str | None = None
    content_hash: str
    """SHA-256 of the content's UTF-8 in hex."""
    summary: str | None = None
    version: int
    """1 for a memory that was never changed; incremented with each change."""
    created_at: datetime
    """When it was first stored."""
    updated_at: datetime
    """When its current version was stored."""
    is_searched: Annotated[bool, INTERNAL]
    """False once it was forgotten or merged: searches and recalls leave it out."""
    reason: Annotated[str | None, INTERNAL] = None
    """Why it was forgotten."""


class MemoryChange(Request):
    """Corrections to a memory; an omitted field stays as it is."""

    needs_a_field: ClassVar = True

    content: MemoryContent | None = None
    tags: Annotated[Tags | None, "[] takes all away."] = None
    importance: Importance | None = None
    pattern_confidence: Share | None = None
    memory_type: MemoryType | None = None
    category: Category | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    to_project: Annotated[Project | None, "Moves it."] = None

    def check(self) -> None:
        if not self.given:
            raise InvalidRequestError("at least one field to change is required")

    def ends(self, *, now: datetime) -> bool:
        """Return True if the change lets the memory end or expire, or begin only after `now`."""
        if self.valid_to is not None or self.expires_at is not None:
            return True
        return self.valid_from is not None and self.valid_from > now

    @property
    def given(self) -> Mapping[str, Any]:
        """Return the fields of the memory to change."""
        values = {name: getattr(self, name) for name in MemoryChange.__struct_fields__}
        values["project"] = values.pop("to_project")
        return {name: value for name, value in values.items() if value is not None}


class StoredMemory(Value):
    """Result of storing a draft."""

    id: MemoryId
    is_duplicate: bool = False
    """True if the same text was already stored: `id` is that memory's, and nothing was added."""


class MemoryVersion(Value):
    """An earlier version of a memory."""

    memory: Memory
    change: Change
    ended_at: datetime
    """When this version was replaced; it was learned at `memory.updated_at`."""
    actor: str


class MemoryFilters(Request):
    """Conditions on memories; all of them must hold."""

    projects: Annotated[tuple[Project, ...], Length(1)] | None = None
    """Any of these; None means every project of the organisation."""
    memory_types: tuple[MemoryType, ...] = ()
    categories: tuple[Category, ...] = ()
    sources: tuple[Source, ...] = ()
    tags: Tags = ()
    """Any of these."""
    importance_max: Importance | None = None
    """Memories at least this important: 1 selects critical and important ones."""
    episode_id: EpisodeId | None = None
    storage_mode: StorageMode | None = None
    ids: tuple[MemoryId, ...] = ()
    """Any of these."""

    @property
    def is_empty(self) -> bool:
        """Return True if every memory matches."""
        return self == EVERY_MEMORY


EVERY_MEMORY = MemoryFilters()


class MemoryQuery(Request):
    """Filters and page of a list of memories, newest first."""

    limit: Annotated[int, Between(1, limits.MEMORY_PAGE_MAX)] = 50
    offset: Offset = 0
    filters: MemoryFilters = EVERY_MEMORY
    validity: Validity = "now"


class MemoryPage(Value):
    """One page of memories and the total count."""

    memories: tuple[Memory, ...]
    total: int
    next_offset: int | None


class RelationDraft(Request):
    """A relation to create between two memories."""

    source_id: MemoryId
    target_id: MemoryId
    relation_type: RelationType = "relates_to"
    strength: Share = 1.0

    def check(self) -> None:
        if self.source_id == self.target_id:
            raise InvalidRequestError("must not be the same memory as source_id", field="target_id")


class Relation(Value):
    """A stored relation between two memories."""

    id: RelationId
    source_id: MemoryId
    target_id: MemoryId
    relation_type: RelationType
    strength: float
    created_at: datetime


class Episode(Value):
    """A stretch of work that memories belong to."""

    id: EpisodeId
    project: str
    description: str
    started_at: datetime
    ended_at: datetime | None
    summary: str | None
    memories: int


class Feedback(Request):
    """A rating of recalled memories."""

    needs_a_field: ClassVar = True

    memory_ids: Annotated[tuple[MemoryId, ...], Length(0, limits.FEEDBACK_MEMORIES_MAX)] = ()
    helpful: bool = True
    event_id: Annotated[Name | None, "Of a recall."] = None
    failure_class: Annotated[FailureClass | None, "Needs event_id."] = None

    def check(self) -> None:
        if self.event_id is None and not self.memory_ids:
            raise InvalidRequestError("must name at least one memory", field="memory_ids")
        if self.failure_class is not None and self.event_id is None:
            raise InvalidRequestError("is required with failure_class", field="event_id")


class FeedbackCounts(Value):
    """How often a memory helped, and how often it did not; only the last ratings count."""

    memory_id: MemoryId
    helpful: int
    unhelpful: int


class Tombstone(Value, omit_defaults=True):
    """What remains of a purged memory: no text, but its hash."""

    id: MemoryId
    content_hash: str
    removed_at: datetime
    actor: Annotated[str, INTERNAL] = ""
    restorable_until: Restorable = None

    @computed
    def removed(self) -> Literal[True]:
        """Return True."""
        return True


class ProjectSize(Value):
    """A project and the number of its searchable memories."""

    project: str
    count: int


class ProjectCounts(Value):
    """A project, and how much is stored in it."""

    project: str
    conversations: int = 0
    messages: int = 0
    memories: int = 0
    """Only those that are searched."""
    last_used_at: datetime | None = None
    """When one of its conversations was last appended to or edited."""


class MemoryStatus(Value):
    """Statistics of the memories of one project, or of all."""

    memories: int
    forgotten: int
    chunks: int
    """Separately indexed texts."""
    chunks_pending: int
    """Chunks that wait for deep vectors."""
    relations: int
    by_type: Mapping[MemoryType, int]
    by_importance: Mapping[int, int]
    oldest: datetime | None
    newest: datetime | None
    summaries: int
    """Memories with a summary."""
