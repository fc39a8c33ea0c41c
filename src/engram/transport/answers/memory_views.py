"""How memories, their versions and their chunks look in every answer that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired, cast

from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.memory import (
    Category,
    Change,
    Memory,
    MemoryType,
    MemoryVersion,
    StorageMode,
)
from engram.model.memory_reading import MemoryChunk
from engram.text.excerpts import Excerpt, fit


class DegradedView(TypedDict):
    embed: bool
    """True while something is found by its words alone, or not yet."""
    reason: str | None


class MemoryView(TypedDict):
    id: str
    content: str
    memory_type: MemoryType
    category: Category
    source: str
    importance: int
    tags: list[str]
    project: str
    immutable: bool
    storage_mode: StorageMode
    content_hash: str
    version: int
    created_at: str
    updated_at: str
    episode_id: NotRequired[str]
    pattern_confidence: NotRequired[float]
    valid_from: NotRequired[str]
    valid_to: NotRequired[str]
    expires_at: NotRequired[str]
    document_id: NotRequired[str]
    summary: NotRequired[str]
    forgotten: NotRequired[Literal[True]]
    invalidation_reason: NotRequired[str]
    truncated: NotRequired[Literal[True]]


class MemoryReceipt(TypedDict):
    """All that a key without `read` learns of a memory it has changed."""

    id: str
    version: int
    updated_at: str


class MemoryCorrected(MemoryReceipt):
    """The memory as it is now; without the scope `read` the receipt alone."""

    content: NotRequired[str]
    memory_type: NotRequired[MemoryType]
    category: NotRequired[Category]
    source: NotRequired[str]
    importance: NotRequired[int]
    tags: NotRequired[list[str]]
    project: NotRequired[str]
    immutable: NotRequired[bool]
    storage_mode: NotRequired[StorageMode]
    content_hash: NotRequired[str]
    created_at: NotRequired[str]
    episode_id: NotRequired[str]
    pattern_confidence: NotRequired[float]
    valid_from: NotRequired[str]
    valid_to: NotRequired[str]
    expires_at: NotRequired[str]
    document_id: NotRequired[str]
    summary: NotRequired[str]
    forgotten: NotRequired[Literal[True]]
    invalidation_reason: NotRequired[str]
    truncated: NotRequired[Literal[True]]


class VersionView(TypedDict):
    version: int
    content: str
    memory_type: MemoryType
    category: Category
    tags: list[str]
    importance: int
    content_hash: str
    system_from: str
    system_to: str
    change_type: Change
    actor: str
    valid_from: NotRequired[str]
    valid_to: NotRequired[str]
    truncated: NotRequired[Literal[True]]


class ChunkView(TypedDict):
    id: str
    chunk_index: int
    start: int
    end: int
    chunk_text: NotRequired[str]


def memory_view(memory: Memory, shown: Excerpt | None = None) -> MemoryView:
    """Absent fields are left out: an answer is paid for by the token."""
    view: MemoryView = {
        "id": memory.id,
        "content": memory.content if shown is None else shown.text,
        "memory_type": memory.memory_type,
        "category": memory.category,
        "source": memory.source,
        "importance": memory.importance,
        "tags": list(memory.tags),
        "project": memory.project,
        "immutable": memory.immutable,
        "storage_mode": memory.storage_mode,
        "content_hash": memory.content_hash,
        "version": memory.version,
        "created_at": format_time(memory.created_at),
        "updated_at": format_time(memory.updated_at),
    }
    _add_times(view, memory)
    _add_facts(view, memory)
    if shown is not None and shown.is_cut:
        view["truncated"] = True
    return view


def memory_corrected(
    memory: Memory, *, is_shown: bool, token_budget: int | None = None
) -> MemoryCorrected:
    """Return a changed memory as far as its caller may read it."""
    (view,) = budgeted_views([memory], token_budget=token_budget)
    if is_shown:
        return cast("MemoryCorrected", view)
    return {"id": view["id"], "version": view["version"], "updated_at": view["updated_at"]}


def budgeted_views(memories: Sequence[Memory], *, token_budget: int | None) -> list[MemoryView]:
    """Return memories whose contents fit a budget together; those that are cut say so."""
    if token_budget is None:
        return [memory_view(memory) for memory in memories]
    shown = fit([memory.content for memory in memories], token_budget=token_budget)
    return [memory_view(memory, part) for memory, part in zip(memories, shown, strict=True)]


def version_view(version: MemoryVersion, shown: Excerpt) -> VersionView:
    memory = version.memory
    view: VersionView = {
        "version": memory.version,
        "content": shown.text,
        "memory_type": memory.memory_type,
        "category": memory.category,
        "tags": list(memory.tags),
        "importance": memory.importance,
        "content_hash": memory.content_hash,
        "system_from": format_time(memory.updated_at),
        "system_to": format_time(version.ended_at),
        "change_type": version.change,
        "actor": version.actor,
    }
    _add_times(view, memory)
    if shown.is_cut:
        view["truncated"] = True
    return view


def chunk_view(chunk: MemoryChunk) -> ChunkView:
    view: ChunkView = {
        "id": chunk.id,
        "chunk_index": chunk.index,
        "start": chunk.start,
        "end": chunk.end,
    }
    if chunk.text is not None:
        view["chunk_text"] = chunk.text
    return view


def _add_times(view: MemoryView | VersionView, memory: Memory) -> None:
    if memory.valid_from is not None:
        view["valid_from"] = format_time(memory.valid_from)
    if memory.valid_to is not None:
        view["valid_to"] = format_time(memory.valid_to)


def _add_facts(view: MemoryView, memory: Memory) -> None:
    if memory.expires_at is not None:
        view["expires_at"] = format_time(memory.expires_at)
    if memory.episode_id is not None:
        view["episode_id"] = memory.episode_id
    if memory.pattern_confidence is not None:
        view["pattern_confidence"] = memory.pattern_confidence
    if memory.document_id is not None:
        view["document_id"] = memory.document_id
    if memory.summary is not None:
        view["summary"] = memory.summary
    if not memory.is_searched:
        view["forgotten"] = True
    if memory.reason is not None:
        view["invalidation_reason"] = memory.reason
