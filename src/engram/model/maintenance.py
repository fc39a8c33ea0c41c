"""Requests and results of the use cases of the `maintenance` toolset."""

from __future__ import annotations

from typing import Annotated, Literal

from engram import limits
from engram.model.fields import DEFAULT_PROJECT, Between, Length, Project
from engram.model.ids import MemoryId
from engram.model.request import Request
from engram.model.value import Mark, Score, Value, computed

SummaryMethod = Literal["extractive", "language_model"]
ReembeddingStatus = Literal["planned", "running", "done"]
Obstacle = Literal[
    "memory_type",
    "category",
    "valid_from",
    "valid_to",
    "expires_at",
    "tags",
    "importance",
    "episode_id",
    "undone",
    "related",
]
"""Why near-duplicates are not merged: a field in which a filter finds the older and would miss the newer,
an undone merge of the two, or a relation that says the opposite."""


class ConsolidationRequest(Request):
    """Selects the memories to search for near-duplicates."""

    project: Project = DEFAULT_PROJECT
    dry_run: Annotated[bool, "Only say what would be merged."] = False
    limit: Annotated[int, Between(1, limits.CONSOLIDATE_MERGES_MAX), "Merges."] = (
        limits.CONSOLIDATE_MERGES_MAX
    )
    only: Annotated[
        tuple[MemoryId, ...],
        Length(0, limits.MEMORIES_PER_CALL_MAX),
        "Merge only these older memories of pairs.",
    ] = ()


class Merge(Value, omit_defaults=True):
    """An older memory that was merged into a newer near-duplicate."""

    kept_id: MemoryId
    merged_id: MemoryId
    score: Score
    jaccard: Score
    cosine: Annotated[float | None, Mark.ROUNDED] = None


class KeptApart(Value):
    """A memory that was not merged into a newer near-duplicate, and why."""

    older_id: MemoryId
    newer_id: MemoryId
    jaccard: Score
    because: tuple[Obstacle, ...]


class Consolidated(Value, omit_defaults=True):
    """What a consolidation did, or would do."""

    project: str
    dry_run: bool
    examined: int
    merges: tuple[Merge, ...]
    kept_apart: int
    """Near-duplicates left alone."""
    apart: tuple[KeptApart, ...] = ()
    """The first of them."""
    truncated: bool
    """True if a limit was reached, so that there may be more."""
    degraded: tuple[str, ...]
    restored: tuple[MemoryId, ...] | None = None
    """Memories whose merge was undone, if the request was to undo."""

    @computed
    def merged(self) -> int:
        """Return how many memories were merged into others."""
        return len(self.merges)


class Unmerged(Value):
    """A merge that was undone."""

    memory_id: MemoryId
    kept: MemoryId


class Summarized(Value, omit_defaults=True):
    """A summary that was generated and stored."""

    memory_id: MemoryId
    summary: str
    method: SummaryMethod
    degraded: str | None = None
    """Why the configured language model was not used."""


class MemoriesChecked(Value):
    """Result of verifying a batch of memories: those whose text does not match its hash."""

    checked: int
    corrupt: tuple[MemoryId, ...]
    last: MemoryId | None
    """Where the next batch begins; None at the end."""


class Verified(Value):
    """Result of verifying the hashes of a project's memories."""

    total: int
    hashed: int
    corrupt: tuple[MemoryId, ...]

    @property
    def coverage(self) -> float:
        """Return the share of memories that were verified, from 0 to 1."""
        return self.hashed / self.total if self.total else 1.0


class Exported(Value):
    """Path and counts of an export."""

    path: str
    """Relative to the organisation's directory."""
    memories: int
    versions: int
    relations: int
    episodes: int


class Imported(Value):
    """Result of an import."""

    files: int
    stored: tuple[MemoryId, ...]
    duplicates: int
    """Memories that were already stored."""
    purged: int = 0
    """Memories that were purged from this store, and are not brought back."""
    relations: int = 0
    episodes: int = 0
    skipped: tuple[str, ...] = ()
    """Files without text to store, and memories whose documents are not part of the export."""


class ReembeddingProgress(Value):
    """Progress of a re-embedding."""

    new_model: str
    status: ReembeddingStatus
    remaining: int
    """Texts without a vector of the new model."""
