"""Storing many memories from files, in batches that are each one transaction."""

from __future__ import annotations

from engram import limits
from engram.model.access import Principal
from engram.model.care import Imported
from engram.model.ids import MemoryId
from engram.model.memory import Episode, MemoryDraft, Relation
from engram.model.transfer import MemoryRecord
from engram.service.background import Background
from engram.service.indexing import Indexer
from engram.service.keeping import Keeping
from engram.storage.memories.store import MemoryStore
from engram.storage.store import Store

BATCH_BYTES = 8_000_000
"""Of the texts of one transaction, about."""


class IntakeFactory:
    """Opens intakes; each serves one request."""

    def __init__(
        self, store: Store, *, keeping: Keeping, indexer: Indexer, background: Background
    ) -> None:
        self._store = store
        self._keeping = keeping
        self._indexer = indexer
        self._background = background

    async def open(self, principal: Principal) -> Intake:
        """Return an empty intake of the principal's organisation."""
        store = await self._store.organization(principal.organization_id)
        return Intake(
            principal,
            store.memories,
            keeping=self._keeping,
            indexer=self._indexer,
            background=self._background,
        )


class Intake:
    """Gathers drafts and records, stores a batch whenever it is full, and counts."""

    def __init__(
        self,
        principal: Principal,
        memories: MemoryStore,
        *,
        keeping: Keeping,
        indexer: Indexer,
        background: Background,
    ) -> None:
        self.files = 0
        self.skipped: list[str] = []
        self._principal = principal
        self._memories = memories
        self._keeping = keeping
        self._indexer = indexer
        self._background = background
        self._drafts: list[MemoryDraft] = []
        self._records: list[MemoryRecord] = []
        self._relations: list[Relation] = []
        self._bytes = 0
        self._stored: list[MemoryId] = []
        self._duplicates = self._purged = self._episodes = 0

    async def add_draft(self, draft: MemoryDraft) -> None:
        """Take a new memory; the same text in the same project and category is stored once."""
        self._drafts.append(draft)
        await self._grow(len(draft.content.encode()))

    async def add_page(self, value: MemoryRecord | Episode) -> None:
        """Take what an exported file holds, as it was."""
        if isinstance(value, Episode):
            self._episodes += await self._memories.store_episode(
                value, actor=self._principal.actor, quota=self._principal.quota
            )
            return
        self._records.append(value)
        self._relations.extend(value.relations)
        texts = [value.memory, *(version.memory for version in value.versions)]
        await self._grow(sum(len(memory.content.encode()) for memory in texts))

    async def finish(self) -> Imported:
        """Store what is left, then the relations: now all memories they speak of are here."""
        await self._flush()
        relations = 0
        for start in range(0, len(self._relations), limits.MEMORIES_PER_CALL_MAX):
            some = self._relations[start : start + limits.MEMORIES_PER_CALL_MAX]
            relations += await self._memories.store_relations(
                some, actor=self._principal.actor, quota=self._principal.quota
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

    async def _grow(self, content_bytes: int) -> None:
        self._bytes += content_bytes
        count = max(len(self._drafts), len(self._records))
        if count >= limits.MEMORIES_PER_CALL_MAX or self._bytes >= BATCH_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        drafts, records = self._drafts, self._records
        self._drafts, self._records, self._bytes = [], [], 0
        if drafts:
            kept = await self._keeping.keep(self._principal, drafts, once=True)
            new = [each.id for each in kept.memories if not each.is_duplicate]
            self._stored.extend(new)
            self._duplicates += len(drafts) - len(new)
        if records:
            await self._store_records(records)

    async def _store_records(self, records: list[MemoryRecord]) -> None:
        texts = [MemoryDraft(content=record.memory.content) for record in records]
        outcome = await self._memories.store_records(
            records,
            actor=self._principal.actor,
            quota=self._principal.quota,
            indexing=await self._indexer.index_new(
                [text.as_message() for text in texts],
                organization_id=self._principal.organization_id,
            ),
        )
        self._background.notice(self._principal.organization_id)
        self._stored.extend(outcome.stored)
        self._duplicates += outcome.present
        self._purged += outcome.purged
        self.skipped.extend(
            f"{memory_id}: its document is to be uploaded" for memory_id in outcome.documents
        )
