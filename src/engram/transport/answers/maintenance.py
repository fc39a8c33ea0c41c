"""Answers about the care of memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.care import (
    Consolidated,
    Exported,
    Imported,
    Merge,
    Summarized,
    SummaryMethod,
    Unmerged,
    Verified,
)
from engram.model.memory import Episode, MemoryPage
from engram.service.migrating import Migrated, MigrationStatus
from engram.transport.answers.memory_views import MemoryView, budgeted_views

IDS_SHOWN = 100
"""Of what came in or is damaged; the counts say how many there are."""

FIGURES = 4
"""Digits after the point of a likeness."""


class MemorySummarized(TypedDict):
    memory_id: str
    summary: str
    method: SummaryMethod
    degraded: NotRequired[str]


class MergeView(TypedDict):
    kept_id: str
    merged_id: str
    score: float
    jaccard: float
    cosine: NotRequired[float]


class MemoriesConsolidated(TypedDict):
    project: str
    dry_run: bool
    examined: int
    merged: int
    merges: list[MergeView]
    kept_apart: int
    truncated: bool
    degraded: list[str]
    restored: NotRequired[list[str]]


class MemoriesVerified(TypedDict):
    total: int
    hashed: int
    corrupt: int
    coverage: float
    corrupt_ids: list[str]


class EmbedderMigrated(TypedDict):
    status: MigrationStatus
    new_model: str
    remaining: int


class MemoriesExported(TypedDict):
    path: str
    memories: int
    versions: int
    relations: int
    episodes: int


class MemoriesImported(TypedDict):
    files: int
    stored: int
    ids: list[str]
    duplicates: int
    purged: int
    relations: int
    episodes: int
    skipped: list[str]
    truncated: bool


class ProjectDeleted(TypedDict):
    deleted: Literal[True]
    project: str
    memories: int


class EpisodeView(TypedDict):
    episode_id: str
    project: str
    description: NotRequired[str]
    """Left out, as the summary is, for a key that may write and not read."""
    started_at: str
    ended_at: str | None
    memories: int
    summary: NotRequired[str]


class EpisodesListed(TypedDict):
    episodes: list[EpisodeView]
    count: int


class EpisodeRecalled(TypedDict):
    episode: EpisodeView
    memories: list[MemoryView]
    count: int
    total: int
    next_offset: int | None


def memory_summarized(made: Summarized) -> MemorySummarized:
    view: MemorySummarized = {
        "memory_id": made.memory_id,
        "summary": made.summary,
        "method": made.method,
    }
    if made.failure is not None:
        view["degraded"] = made.failure
    return view


def memories_consolidated(done: Consolidated) -> MemoriesConsolidated:
    return {
        "project": done.project,
        "dry_run": done.is_dry_run,
        "examined": done.examined,
        "merged": len(done.merges),
        "merges": [_merge_view(merge) for merge in done.merges],
        "kept_apart": done.kept_apart,
        "truncated": done.is_truncated,
        "degraded": list(done.degraded),
    }


def memories_unmerged(undone: Sequence[Unmerged], *, project: str) -> MemoriesConsolidated:
    """Return what an undoing did, in the shape of what it undoes."""
    return {
        "project": project,
        "dry_run": False,
        "examined": len(undone),
        "merged": 0,
        "merges": [],
        "kept_apart": 0,
        "truncated": False,
        "degraded": [],
        "restored": [each.memory_id for each in undone],
    }


def memories_verified(verified: Verified) -> MemoriesVerified:
    return {
        "total": verified.total,
        "hashed": verified.hashed,
        "corrupt": len(verified.corrupt),
        "coverage": verified.coverage,
        "corrupt_ids": list(verified.corrupt[:IDS_SHOWN]),
    }


def embedder_migrated(migrated: Migrated) -> EmbedderMigrated:
    return {
        "status": migrated.status,
        "new_model": migrated.model,
        "remaining": migrated.remaining,
    }


def memories_exported(exported: Exported) -> MemoriesExported:
    return {
        "path": exported.path,
        "memories": exported.memories,
        "versions": exported.versions,
        "relations": exported.relations,
        "episodes": exported.episodes,
    }


def memories_imported(imported: Imported) -> MemoriesImported:
    return {
        "files": imported.files,
        "stored": len(imported.stored),
        "ids": list(imported.stored[:IDS_SHOWN]),
        "duplicates": imported.duplicates,
        "purged": imported.purged,
        "relations": imported.relations,
        "episodes": imported.episodes,
        "skipped": list(imported.skipped[:IDS_SHOWN]),
        "truncated": max(len(imported.stored), len(imported.skipped)) > IDS_SHOWN,
    }


def project_deleted(project: str, memories: int) -> ProjectDeleted:
    return {"deleted": True, "project": project, "memories": memories}


def episode_view(episode: Episode, *, is_shown: bool = True) -> EpisodeView:
    """Return an episode; its texts if they are to be shown."""
    view: EpisodeView = {
        "episode_id": episode.id,
        "project": episode.project,
        "started_at": format_time(episode.started_at),
        "ended_at": None if episode.ended_at is None else format_time(episode.ended_at),
        "memories": episode.memories,
    }
    if not is_shown:
        return view
    view["description"] = episode.description
    if episode.summary is not None:
        view["summary"] = episode.summary
    return view


def episodes_listed(episodes: Sequence[Episode]) -> EpisodesListed:
    views = [episode_view(episode) for episode in episodes]
    return {"episodes": views, "count": len(views)}


def episode_recalled(
    episode: Episode, page: MemoryPage, *, token_budget: int | None
) -> EpisodeRecalled:
    return {
        "episode": episode_view(episode),
        "memories": budgeted_views(page.memories, token_budget=token_budget),
        "count": len(page.memories),
        "total": page.total,
        "next_offset": page.next_offset,
    }


def _merge_view(merge: Merge) -> MergeView:
    view: MergeView = {
        "kept_id": merge.kept,
        "merged_id": merge.merged,
        "score": round(merge.score, FIGURES),
        "jaccard": round(merge.jaccard, FIGURES),
    }
    if merge.cosine is not None:
        view["cosine"] = round(merge.cosine, FIGURES)
    return view
