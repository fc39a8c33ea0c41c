"""The answers about typed memories, in the shapes that engram-go's clients know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.memory import (
    Memory,
    MemoryPage,
    MemoryStatus,
    MemoryType,
    ProjectSize,
    Relation,
    RelationType,
)
from engram.model.memory_reading import FetchedMemory, MemoryHistory
from engram.service.keeping import Kept
from engram.text.excerpts import Excerpt, fit
from engram.transport.answers.documents import DocumentProgress, document_progress
from engram.transport.answers.memory_views import (
    ChunkView,
    DegradedView,
    MemoryView,
    VersionView,
    budgeted_views,
    chunk_view,
    version_view,
)


class MemoryStored(TypedDict):
    id: str
    status: Literal["stored"]
    degraded: DegradedView


class MemoriesStored(TypedDict):
    ids: list[str]
    count: int
    degraded: DegradedView


class MemoryFetched(TypedDict):
    id: str
    memory_type: MemoryType
    project: str
    summary: str
    chunk_count: int
    truncated: bool
    forgotten: NotRequired[Literal[True]]
    invalidation_reason: NotRequired[str]
    content: NotRequired[str]
    chunks: NotRequired[list[ChunkView]]
    document: NotRequired[DocumentProgress]


class MemoriesListed(TypedDict):
    memories: list[MemoryView]
    count: int
    total: int
    next_offset: int | None


class MemoryHistoryRead(TypedDict):
    memory_id: str
    versions: list[VersionView]
    count: int


class TimelineRead(TypedDict):
    as_of: str
    memories: list[MemoryView]
    count: int


class MemoriesConnected(TypedDict):
    status: Literal["connected"]
    id: str
    source_id: str
    target_id: str
    relation_type: RelationType
    strength: float


class MemoryForgotten(TypedDict):
    deleted: Literal[True]
    memory_id: str
    valid_to: str | None


class FeedbackRecorded(TypedDict):
    status: Literal["recorded"]
    count: int


class ProjectView(TypedDict):
    project: str
    count: int


class ProjectsListed(TypedDict):
    projects: list[ProjectView]
    count: int


class SummarizationView(TypedDict):
    pending: int
    completed: int


class MemoryStatusRead(TypedDict):
    total_memories: int
    forgotten: int
    total_chunks: int
    chunks_total: int
    chunks_embedded: int
    chunks_pending_embedding: int
    total_relationships: int
    by_type: Mapping[str, int]
    by_importance: Mapping[str, int]
    oldest: str | None
    newest: str | None
    pending_summarization: int
    summarization: SummarizationView


def memory_stored(kept: Kept) -> MemoryStored:
    return {"id": kept.memories[0].id, "status": "stored", "degraded": _degraded(kept)}


def memories_stored(kept: Kept) -> MemoriesStored:
    ids: list[str] = [stored.id for stored in kept.memories]
    return {"ids": ids, "count": len(ids), "degraded": _degraded(kept)}


def memory_fetched(fetched: FetchedMemory) -> MemoryFetched:
    memory = fetched.memory
    view: MemoryFetched = {
        "id": memory.id,
        "memory_type": memory.memory_type,
        "project": memory.project,
        "summary": fetched.summary,
        "chunk_count": fetched.chunk_count,
        "truncated": fetched.is_truncated,
    }
    if not memory.is_searched:
        view["forgotten"] = True
    if memory.reason is not None:
        view["invalidation_reason"] = memory.reason
    if fetched.content is not None:
        view["content"] = fetched.content
    if fetched.chunks is not None:
        view["chunks"] = [chunk_view(chunk) for chunk in fetched.chunks]
    if fetched.document is not None:
        view["document"] = document_progress(fetched.document)
    return view


def memories_listed(page: MemoryPage, *, token_budget: int | None = None) -> MemoriesListed:
    return {
        "memories": budgeted_views(page.memories, token_budget=token_budget),
        "count": len(page.memories),
        "total": page.total,
        "next_offset": page.next_offset,
    }


def memory_history_read(history: MemoryHistory, *, token_budget: int | None) -> MemoryHistoryRead:
    contents = [version.memory.content for version in history.versions]
    shown = (
        [Excerpt(content, is_cut=False) for content in contents]
        if token_budget is None
        else fit(contents, token_budget=token_budget)
    )
    versions = [
        version_view(version, part) for version, part in zip(history.versions, shown, strict=True)
    ]
    return {"memory_id": history.memory.id, "versions": versions, "count": len(versions)}


def timeline_read(
    as_of: datetime, memories: Sequence[Memory], *, token_budget: int | None = None
) -> TimelineRead:
    return {
        "as_of": format_time(as_of),
        "memories": budgeted_views(memories, token_budget=token_budget),
        "count": len(memories),
    }


def memories_connected(relation: Relation) -> MemoriesConnected:
    return {
        "status": "connected",
        "id": relation.id,
        "source_id": relation.source_id,
        "target_id": relation.target_id,
        "relation_type": relation.relation_type,
        "strength": relation.strength,
    }


def memory_forgotten(memory: Memory) -> MemoryForgotten:
    ended = None if memory.valid_to is None else format_time(memory.valid_to)
    return {"deleted": True, "memory_id": memory.id, "valid_to": ended}


def feedback_recorded(count: int) -> FeedbackRecorded:
    return {"status": "recorded", "count": count}


def projects_listed(sizes: Sequence[ProjectSize]) -> ProjectsListed:
    views: list[ProjectView] = [{"project": size.project, "count": size.memories} for size in sizes]
    return {"projects": views, "count": len(views)}


def memory_status_read(status: MemoryStatus) -> MemoryStatusRead:
    waiting = status.memories - status.summaries
    return {
        "total_memories": status.memories,
        "forgotten": status.forgotten,
        "total_chunks": status.chunks,
        "chunks_total": status.chunks,
        "chunks_embedded": status.chunks - status.chunks_pending,
        "chunks_pending_embedding": status.chunks_pending,
        "total_relationships": status.relations,
        "by_type": {str(kind): count for kind, count in status.by_type.items()},
        "by_importance": {str(level): count for level, count in status.by_importance.items()},
        "oldest": None if status.oldest is None else format_time(status.oldest),
        "newest": None if status.newest is None else format_time(status.newest),
        "pending_summarization": waiting,
        "summarization": {"pending": waiting, "completed": status.summaries},
    }


def _degraded(kept: Kept) -> DegradedView:
    return {"embed": kept.vector_gap is not None, "reason": kept.vector_gap}
