"""What the care of memories is asked for, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engram import limits
from engram.model.checks import check_range
from engram.model.conversation import DEFAULT_PROJECT
from engram.model.ids import MemoryId
from engram.model.memory import check_project

SummaryMethod = Literal["extractive", "language_model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationRequest:
    """Which memories to look at for near-duplicates."""

    project: str = DEFAULT_PROJECT
    dry_run: bool = False
    limit: int = limits.CONSOLIDATE_MERGES_MAX
    """Merges at most."""

    def __post_init__(self) -> None:
        check_project(self.project)
        check_range("limit", self.limit, minimum=1, maximum=limits.CONSOLIDATE_MERGES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """An older memory that gave way to a newer one that says the same."""

    kept: MemoryId
    merged: MemoryId
    jaccard: float
    cosine: float | None
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidated:
    """What a consolidation did, or would do."""

    project: str
    is_dry_run: bool
    examined: int
    merges: tuple[Merge, ...]
    kept_apart: int
    """Near-duplicates that stay: a filter that finds the older would not find the newer."""
    is_truncated: bool
    """Whether there may be more: a bound was reached."""
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmerged:
    """A merge that was undone."""

    memory_id: MemoryId
    kept: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarized:
    """A summary that was made and kept."""

    memory_id: MemoryId
    summary: str
    method: SummaryMethod
    failure: str | None = None
    """Why the language model that was to make it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Whether what memories say is what was stored."""

    total: int
    hashed: int
    corrupt: tuple[MemoryId, ...]

    @property
    def coverage(self) -> float:
        """Return the share of memories that were proved, from 0 to 1."""
        return self.hashed / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export wrote, and where."""

    path: str
    """Relative to the organisation's directory."""
    memories: int
    versions: int
    relations: int
    episodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came in from files."""

    files: int
    stored: tuple[MemoryId, ...]
    duplicates: int
    """Memories that were here already."""
    purged: int = 0
    """Memories that were removed here for good, and stay removed."""
    relations: int = 0
    episodes: int = 0
    skipped: tuple[str, ...] = ()
    """Files that hold no text to store, and memories whose documents are not in an export."""
