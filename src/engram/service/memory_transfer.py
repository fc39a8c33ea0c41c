"""Export memories to files; import them from exports, a CLAUDE.md or any text files."""

from __future__ import annotations

import asyncio

from engram import limits
from engram.errors import EngramError
from engram.model.access import Principal
from engram.model.ids import MemoryId
from engram.model.maintenance import Exported, Imported
from engram.model.memory import Episode, MemoryDraft, Relation, check_project
from engram.service import Tools, UseCases
from engram.service.memories import Memories
from engram.service.organization_files import FileQuota, OrganizationFiles
from engram.storage.organization import OrganizationStore
from engram.transfer import markdown_directory
from engram.transfer.files import SafePath
from engram.transfer.memories import (
    MemoryRecord,
    store_episode,
    store_records,
    store_relations,
)

BATCH_BYTES = 8_000_000
"""Approximate size of the texts stored in one transaction."""


class MemoryTransfer(UseCases):
    """Exports memories to files and imports files as memories."""

    def __init__(self, tools: Tools, files: OrganizationFiles, memories: Memories) -> None:
        super().__init__(tools)
        self._files = files
        self._memories = memories

    async def export_all(
        self, principal: Principal, output_path: str, *, project: str | None = None
    ) -> Exported:
        """Write the memories and episodes of a project, or of all, with versions and relations.

        An export that is there already is brought up to date. Memories stored meanwhile are in it
        or are not; each that is, is whole. Files are written, so this needs `write` beside `read`.

        Raises:
            ConflictError: the directory holds something else.
            QuotaExceededError: it does not fit the quota any more; no file of it stays.
        """
        principal.require("read", "write")
        path = await self._files.locate(principal, output_path, field="output_path")
        store = await self._tools.store.organization(principal.organization_id)
        quota = FileQuota(store, principal, self._files)
        try:
            async with quota.counting():
                return await self.export_to(principal, path, project=project, quota=quota)
        except EngramError:
            await self._files.remove_if_deleted(principal.organization_id)
            raise

    async def export_to(
        self,
        principal: Principal,
        path: SafePath,
        *,
        project: str | None = None,
        quota: FileQuota | None = None,
    ) -> Exported:
        """Write them to a path that the principal may use; without a quota nothing is counted."""
        principal.require("read", "write")
        if project is not None:
            check_project(project)
        export = markdown_directory.Export(
            directory=path,
            owner=principal.organization_id,
            claim=markdown_directory.claim_nothing if quota is None else quota.claim,
        )
        await export.prepare()
        # Before the first file: an export that fails half-way was one.
        await self._tools.trail.record(
            principal, "memory_export_all", path=path.shown, project=project
        )
        store = await self._tools.store.organization(principal.organization_id)
        counts = await export.write(store, project=project)
        return Exported(path=path.shown, **counts)

    async def ingest(self, principal: Principal, path: str, *, project: str) -> Imported:
        """Store a text file, a directory of them, or an export with all that belongs to it.

        A text file becomes one memory of the project. A file of an export becomes the memory it
        was, under its id and in its project. Done twice, nothing is stored twice.

        Raises:
            NotFoundError: there is no such file or directory.
            LimitExceededError: a file is too large for a memory, or there are too many; it is named
                and nothing is stored.
            InvalidRequestError: a file holds no text, or an exported one was changed.
        """
        principal.require("write")
        located = await self._files.locate(principal, path)
        return await self.ingest_from(principal, located, project=project)

    async def ingest_from(self, principal: Principal, path: SafePath, *, project: str) -> Imported:
        """Store what is at a path that the principal may use."""
        batches = await self._begin(principal)
        check_project(project)
        for file in await asyncio.to_thread(markdown_directory.find_files, path):
            batches.files += 1
            found = await asyncio.to_thread(markdown_directory.read_file, file, project=project)
            if found is None:
                batches.skipped.append(file.shown)
            else:
                await batches.add(found)
        return await batches.finish()

    async def import_claudemd(self, principal: Principal, path: str, *, project: str) -> Imported:
        """Store each section of a CLAUDE.md, or of any Markdown file, as a memory of the project.

        Raises:
            NotFoundError: there is no such file.
            InvalidRequestError: it holds no text, or a section is too long.
        """
        principal.require("write")
        located = await self._files.locate(principal, path)
        return await self.import_sections(principal, located, project=project)

    async def import_sections(
        self, principal: Principal, path: SafePath, *, project: str
    ) -> Imported:
        """Store the sections of a file that the principal may use."""
        batches = await self._begin(principal)
        check_project(project)
        drafts = await asyncio.to_thread(markdown_directory.read_sections, path, project=project)
        batches.files += 1
        for draft in drafts:
            await batches.add(draft)
        return await batches.finish()

    async def _begin(self, principal: Principal) -> _Batches:
        store = await self._open(principal, "write")
        return _Batches(principal, store, self._tools, self._memories)


class _Batches:
    """Collects what one import reads, stores a batch whenever it is full, and counts."""

    def __init__(
        self,
        principal: Principal,
        store: OrganizationStore,
        tools: Tools,
        memories: Memories,
    ) -> None:
        self.files = 0
        self.skipped: list[str] = []
        self._principal = principal
        self._store = store
        self._tools = tools
        self._memories = memories
        self._drafts: list[MemoryDraft] = []
        self._records: list[MemoryRecord] = []
        self._relations: list[Relation] = []
        self._bytes = 0
        self._stored: list[MemoryId] = []
        self._duplicates = self._purged = self._episodes = 0

    async def add(self, value: MemoryDraft | MemoryRecord | Episode) -> None:
        """Take a new memory, whose text is stored once, or what an exported file holds, as it was."""
        match value:
            case Episode():
                self._episodes += await store_episode(
                    self._store, value, actor=self._principal.actor, quota=self._principal.quota
                )
                return
            case MemoryDraft():
                self._drafts.append(value)
                self._bytes += len(value.content.encode())
            case MemoryRecord():
                self._records.append(value)
                self._relations.extend(value.relations)
                self._bytes += value.content_bytes
        count = max(len(self._drafts), len(self._records))
        if count >= limits.MEMORIES_PER_CALL_MAX or self._bytes >= BATCH_BYTES:
            await self._flush()

    async def finish(self) -> Imported:
        """Store what is left, then the relations: now all their memories are here."""
        await self._flush()
        relations = 0
        for start in range(0, len(self._relations), limits.MEMORIES_PER_CALL_MAX):
            some = self._relations[start : start + limits.MEMORIES_PER_CALL_MAX]
            relations += await store_relations(
                self._store, some, actor=self._principal.actor, quota=self._principal.quota
            )
        return Imported(
            files=self.files,
            stored=tuple(self._stored),
            duplicates=self._duplicates,
            purged=self._purged,
            relations=relations,
            episodes=self._episodes,
            skipped=tuple(self.skipped),
        )

    async def _flush(self) -> None:
        drafts, records = self._drafts, self._records
        self._drafts, self._records, self._bytes = [], [], 0
        if drafts:
            stored = await self._memories.store_batch(self._principal, drafts, once=True)
            new = [each.id for each in stored.memories if not each.is_duplicate]
            self._stored.extend(new)
            self._duplicates += len(drafts) - len(new)
        if records:
            await self._store_records(records)

    async def _store_records(self, records: list[MemoryRecord]) -> None:
        texts = [MemoryDraft(content=record.memory.content) for record in records]
        outcome = await store_records(
            self._store,
            records,
            actor=self._principal.actor,
            quota=self._principal.quota,
            indexing=await self._tools.indexer.index_new(
                [text.as_message() for text in texts],
                organization_id=self._principal.organization_id,
            ),
        )
        self._tools.background.announce_work(self._principal.organization_id)
        self._stored.extend(outcome.stored)
        self._duplicates += outcome.present
        self._purged += outcome.purged
        self.skipped.extend(
            f"{memory_id}: its document is to be uploaded" for memory_id in outcome.documents
        )
