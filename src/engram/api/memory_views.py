"""Answers with memories and episodes, which lean texts are written from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from engram.model.access import QuotaWarning
from engram.model.document import DocumentState
from engram.model.ids import ChunkId, DocumentId, EpisodeId, MemoryId
from engram.model.memory import Category, Change, Memory, MemoryType, ProjectSize
from engram.model.value import INTERNAL, Score, Value, computed


class MemoryView(Memory, omit_defaults=True):
    """A memory; its content may be truncated to a token budget."""

    truncated: bool = False

    @computed
    def forgotten(self) -> Literal[True] | None:
        """Return True if it is forgotten; None leaves the field out."""
        return None if self.is_searched else True

    @computed
    def invalidation_reason(self) -> str | None:
        """Return why it was forgotten."""
        return self.reason


class ChunkView(Value, omit_defaults=True):
    """A range of a memory's text."""

    id: ChunkId
    chunk_index: int
    start: int
    end: int
    chunk_text: str | None = None


class DocumentProgress(Value, omit_defaults=True):
    """How much of a document is indexed."""

    id: MemoryId
    document_id: DocumentId
    state: DocumentState
    text_bytes: int
    text_bytes_indexed: int
    progress: Score
    """The share of the text that is indexed, 0 to 1."""
    problem: str | None = None


class MemoryFetched(Value, omit_defaults=True):
    """A memory with the requested level of detail."""

    id: MemoryId
    memory_type: MemoryType
    project: str
    summary: str
    chunk_count: int
    truncated: bool
    forgotten: Literal[True] | None = None
    invalidation_reason: str | None = None
    content: str | None = None
    chunks: tuple[ChunkView, ...] | None = None
    document: DocumentProgress | None = None
    memory: Annotated[Memory, INTERNAL]
    from_character: Annotated[int, INTERNAL] = 0
    """Where the content begins."""


class MemoriesListed(Value):
    """One page of memories and the total count."""

    memories: tuple[MemoryView, ...]
    count: int
    total: int
    next_offset: int | None


class VersionView(Value, omit_defaults=True):
    """An earlier version of a memory."""

    version: int
    content: str
    memory_type: MemoryType
    category: Category
    tags: tuple[str, ...]
    importance: int
    content_hash: str
    system_from: datetime
    system_to: datetime
    change_type: Change
    actor: str
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    truncated: bool = False


class MemoryHistoryRead(Value, omit_defaults=True):
    """The earlier versions of a memory, oldest first."""

    memory_id: MemoryId
    versions: tuple[VersionView, ...]
    count: int
    next_offset: int | None = None
    total: Annotated[int, INTERNAL] = 0


class TimelineRead(Value, omit_defaults=True):
    """The memories that were known and valid at a moment in the past."""

    as_of: datetime
    memories: tuple[MemoryView, ...]
    count: int
    next_offset: int | None = None
    """Where there may be more: only a full page has it."""


class ProjectsListed(Value):
    """Projects by name."""

    projects: tuple[ProjectSize, ...]
    count: int


class SummarizationView(Value):
    """How many memories have a summary."""

    pending: int
    completed: int


class MemoryStatusRead(Value):
    """Statistics of a project's memories."""

    total_memories: int
    forgotten: int
    total_chunks: int
    chunks_total: int
    chunks_embedded: int
    chunks_pending_embedding: int
    total_relationships: int
    by_type: Mapping[str, int]
    by_importance: Mapping[str, int]
    oldest: datetime | None
    newest: datetime | None
    pending_summarization: int
    summarization: SummarizationView


class MemoriesVerified(Value):
    """Result of verifying the hashes of memories."""

    total: int
    hashed: int
    corrupt: int
    coverage: float
    corrupt_ids: tuple[MemoryId, ...]


class EpisodeView(Value, omit_defaults=True):
    """A stretch of work that memories belong to."""

    episode_id: EpisodeId
    project: str
    started_at: datetime
    ended_at: datetime | None
    memories: int
    description: str | None = None
    """Omitted, as is the summary, for a key without the scope `read`."""
    summary: str | None = None
    quota_warning: QuotaWarning = None


class EpisodesListed(Value, omit_defaults=True):
    """Episodes, the most recently started first."""

    episodes: tuple[EpisodeView, ...]
    count: int
    next_offset: int | None = None
    """Where there may be more: only a full page has it."""


class EpisodeRecalled(Value):
    """An episode and a page of its memories."""

    episode: EpisodeView
    memories: tuple[MemoryView, ...]
    count: int
    total: int
    next_offset: int | None
