"""Writing all memories as files that hold them completely."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from engram.care.exports import ExportPlace, numbered_name, remove_others
from engram.care.pages import episode_page, memory_page
from engram.care.paths import Place
from engram.errors import ConflictError, EngramError
from engram.model.access import Principal
from engram.model.care import Exported
from engram.model.ids import EpisodeId, MemoryId
from engram.model.memory import Episode, check_project
from engram.model.transfer import MemoryRecord
from engram.service.audit_trail import AuditTrail
from engram.service.files import Files
from engram.storage.memory_ports import MemoryStore
from engram.storage.ports import Store

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
        """
        principal.require("read", "write")
        place = await self._files.place(principal, output_path, field="output_path")
        try:
            return await self.export_to(principal, place, project=project)
        except EngramError:
            await self._files.remove_if_deleted(principal.organization_id)
            raise

    async def export_to(
        self, principal: Principal, place: Place, *, project: str | None = None
    ) -> Exported:
        """Write them to a place that the principal may use."""
        principal.require("read", "write")
        if project is not None:
            check_project(project)
        export = ExportPlace(place)
        if not await asyncio.to_thread(lambda: export.exists or export.is_free()):
            message = f"{place.shown!r} holds something else: choose another output_path"
            raise ConflictError(message)
        await asyncio.to_thread(export.prepare, principal.organization_id)
        # Before the first file: an export that fails half-way was one.
        await self._trail.record(principal, "memory_export_all", path=place.shown, project=project)
        store = await self._store.organization(principal.organization_id)
        counts = Counter[str]()
        await _write_episodes(store.memories, export, project, counts)
        await _write_memories(store.memories, export, project, counts)
        names = ("memories", "versions", "relations", "episodes")
        sizes = {name: counts[name] for name in names}
        await asyncio.to_thread(
            lambda: export.mark(principal.organization_id, finished=True, **sizes)
        )
        return Exported(path=place.shown, **sizes)


async def _write_memories(
    memories: MemoryStore, export: ExportPlace, project: str | None, counts: Counter[str]
) -> None:
    after: MemoryId | None = None
    written = set[str]()
    while records := await memories.read_records(project, after=after, limit=READ_TOGETHER):
        after = records[-1].memory.id
        written |= await asyncio.to_thread(_write_records, export, records, len(written))
        counts["memories"] += len(records)
        counts["versions"] += sum(len(record.versions) for record in records)
        counts["relations"] += sum(len(record.relations) for record in records)
    await asyncio.to_thread(remove_others, export.memories, kept=written)


def _write_records(export: ExportPlace, records: Sequence[MemoryRecord], before: int) -> set[str]:
    written = set[str]()
    for number, record in enumerate(records, start=before + 1):
        name = numbered_name(number, record.memory.id)
        export.memories.child(name).write(memory_page(record))
        written.add(name)
    return written


async def _write_episodes(
    memories: MemoryStore, export: ExportPlace, project: str | None, counts: Counter[str]
) -> None:
    after: EpisodeId | None = None
    written = set[str]()
    while episodes := await memories.read_episodes(project, after=after, limit=READ_TOGETHER):
        after = episodes[-1].id
        written |= await asyncio.to_thread(_write_some_episodes, export, episodes)
        counts["episodes"] += len(episodes)
    await asyncio.to_thread(remove_others, export.episodes, kept=written)


def _write_some_episodes(export: ExportPlace, episodes: Sequence[Episode]) -> set[str]:
    for episode in episodes:
        export.episodes.child(f"{episode.id}.md").write(episode_page(episode))
    return {f"{episode.id}.md" for episode in episodes}
