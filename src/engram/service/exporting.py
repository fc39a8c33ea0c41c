"""Writing all memories as files that hold them completely."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from engram.care.exports import MARK, MARK_BYTES, ExportPlace, numbered_name, remove_others
from engram.care.pages import episode_page, memory_page
from engram.care.paths import Place
from engram.errors import ConflictError, EngramError, QuotaExceededError
from engram.model.access import Principal
from engram.model.care import Exported
from engram.model.ids import EpisodeId, MemoryId
from engram.model.memory import Episode, check_project
from engram.model.transfer import MemoryRecord
from engram.service.audit_trail import AuditTrail
from engram.service.file_quota import FileQuota
from engram.service.files import Files
from engram.storage.memories.store import MemoryStore
from engram.storage.store import Store

READ_TOGETHER = 50
"""Memories with their histories held at once."""


class Exporting:
    """Writes memories below the data directory, one file each."""

    def __init__(self, store: Store, *, files: Files, trail: AuditTrail) -> None:
        self._store = store
        self._trail = trail
        self._files = files

    async def export_all(
        self, principal: Principal, output_path: str, *, project: str | None = None
    ) -> Exported:
        """Write the memories and episodes of a project, or of all, with histories and relations.

        An export that is there already is brought up to date. Memories stored meanwhile are in it
        or are not; each that is, is whole. Files are written, so this needs `write` beside `read`.

        Raises:
            ConflictError: the directory holds something else.
            QuotaExceededError: it does not fit the quota any more; no page of it stays.
        """
        principal.require("read", "write")
        place = await self._files.place(principal, output_path, field="output_path")
        store = await self._store.organization(principal.organization_id)
        quota = FileQuota(store, principal, self._files)
        try:
            async with quota.counting():
                return await self.export_to(principal, place, project=project, quota=quota)
        except EngramError:
            await self._files.remove_if_deleted(principal.organization_id)
            raise

    async def export_to(
        self,
        principal: Principal,
        place: Place,
        *,
        project: str | None = None,
        quota: FileQuota | None = None,
    ) -> Exported:
        """Write them to a place that the principal may use; without a quota nothing is counted."""
        principal.require("read", "write")
        if project is not None:
            check_project(project)
        export = ExportPlace(place)
        if not await asyncio.to_thread(lambda: export.exists or export.is_free()):
            message = f"{place.shown!r} holds something else: choose another output_path"
            raise ConflictError(message)
        if quota is not None:
            await quota.claim({place.child(MARK): bytes(MARK_BYTES)})
        await asyncio.to_thread(export.prepare, principal.organization_id)
        # Before the first file: an export that fails half-way was one.
        await self._trail.record(principal, "memory_export_all", path=place.shown, project=project)
        store = await self._store.organization(principal.organization_id)
        sizes = await _write_all(store.memories, export, project, quota)
        await asyncio.to_thread(
            lambda: export.mark(principal.organization_id, finished=True, **sizes)
        )
        return Exported(path=place.shown, **sizes)


async def _write_all(
    memories: MemoryStore, export: ExportPlace, project: str | None, quota: FileQuota | None
) -> dict[str, int]:
    """Write every page; return how many there are of what."""
    counts = Counter[str]()
    try:
        await _write_episodes(memories, export, project, counts, quota)
        await _write_memories(memories, export, project, counts, quota)
    except QuotaExceededError:
        await asyncio.to_thread(_remove_pages, export)
        raise
    return {name: counts[name] for name in ("memories", "versions", "relations", "episodes")}


async def _write_memories(
    memories: MemoryStore,
    export: ExportPlace,
    project: str | None,
    counts: Counter[str],
    quota: FileQuota | None,
) -> None:
    after: MemoryId | None = None
    written = set[str]()
    while records := await memories.read_records(project, after=after, limit=READ_TOGETHER):
        after = records[-1].memory.id
        pages = await asyncio.to_thread(_record_pages, export, records, len(written))
        written |= await _write(pages, quota)
        counts["memories"] += len(records)
        counts["versions"] += sum(len(record.versions) for record in records)
        counts["relations"] += sum(len(record.relations) for record in records)
    await asyncio.to_thread(remove_others, export.memories, kept=written)


def _record_pages(
    export: ExportPlace, records: Sequence[MemoryRecord], before: int
) -> dict[Place, bytes]:
    return {
        export.memories.child(numbered_name(number, record.memory.id)): memory_page(record)
        for number, record in enumerate(records, start=before + 1)
    }


async def _write(pages: Mapping[Place, bytes], quota: FileQuota | None) -> set[str]:
    """Write pages that fit the quota; return the names of their files."""
    if quota is not None:
        await quota.claim(pages)

    def write_all() -> set[str]:
        for place, page in pages.items():
            place.write(page)
        return {place.name for place in pages}

    return await asyncio.to_thread(write_all)


def _remove_pages(export: ExportPlace) -> None:
    for directory in (export.memories, export.episodes):
        remove_others(directory, kept=set())


async def _write_episodes(
    memories: MemoryStore,
    export: ExportPlace,
    project: str | None,
    counts: Counter[str],
    quota: FileQuota | None,
) -> None:
    after: EpisodeId | None = None
    written = set[str]()
    while episodes := await memories.read_episodes(project, after=after, limit=READ_TOGETHER):
        after = episodes[-1].id
        written |= await _write(_episode_pages(export, episodes), quota)
        counts["episodes"] += len(episodes)
    await asyncio.to_thread(remove_others, export.episodes, kept=written)


def _episode_pages(export: ExportPlace, episodes: Sequence[Episode]) -> dict[Place, bytes]:
    return {
        export.episodes.child(f"{episode.id}.md"): episode_page(episode) for episode in episodes
    }
