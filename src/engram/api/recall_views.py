"""The answer of a recall: handles, results, or ids alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from engram.api.memories import Degraded
from engram.api.memory_views import MemoryView
from engram.model.ids import ChunkId, MemoryId
from engram.model.memory import MemoryType, StorageMode
from engram.model.recall import Recalled, RecallShape
from engram.model.value import INTERNAL, Score, Value


class HandleView(Value, omit_defaults=True):
    """A memory by its summary; its text is fetched separately."""

    id: MemoryId
    project: str
    summary: str
    tags: tuple[str, ...]
    score: Score
    storage_mode: StorageMode
    chunk_count: int
    bytes: int
    is_handle: Literal[True]
    fetch_hint: str
    superseded_by: tuple[MemoryId, ...] = ()


class BriefView(Value):
    """A memory in one line."""

    id: MemoryId
    project: str
    memory_type: MemoryType
    summary: str


class ConnectedView(Value):
    """A memory that is related to a recalled one."""

    memory: BriefView
    rel_type: str
    direction: Literal["outgoing", "incoming"]
    strength: float
    hops: int


class RecalledView(Value, omit_defaults=True):
    """A recalled memory, with its score and how it came about."""

    memory: MemoryView
    score: Score
    score_breakdown: Mapping[str, float]
    chunk_count: int
    matched_chunk_id: ChunkId
    matched_chunk_index: int
    connected: tuple[ConnectedView, ...]
    matched_chunk: str | None = None
    connected_omitted: int = 0
    superseded_by: tuple[MemoryId, ...] = ()


class ConflictView(Value):
    """A memory that contradicts a recalled one."""

    memory: BriefView
    contradicts_id: MemoryId
    strength: float


class MemoriesRecalled(Value, omit_defaults=True):
    """What was recalled, best first."""

    count: int
    total_candidates: int
    pending: int
    truncated: bool
    degraded: Degraded
    handles: tuple[HandleView, ...] | None = None
    results: tuple[RecalledView, ...] | None = None
    ids: tuple[MemoryId, ...] | None = None
    fetch_hint: str | None = None
    event_id: str | None = None
    feedback_hint: str | None = None
    conflicting_results: tuple[ConflictView, ...] | None = None
    conflict_count: int | None = None
    warnings: tuple[str, ...] = ()
    note: str | None = None
    """Set if nothing is relevant."""
    found: Annotated[Recalled, INTERNAL]
    shape: Annotated[RecallShape, INTERNAL]
