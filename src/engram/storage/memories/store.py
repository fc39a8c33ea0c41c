"""The `MemoryStore` of one organisation's SQLite file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from engram.model.access import UNBOUNDED, Quota
from engram.model.ids import EpisodeId, MemoryId
from engram.model.memory import (
    Change,
    Episode,
    Feedback,
    Memory,
    MemoryChange,
    MemoryDraft,
    MemoryPage,
    MemoryQuery,
    MemoryStatus,
    MemoryVersion,
    ProjectSize,
    Relation,
    RelationDraft,
    RelationType,
    StoredMemory,
    Tombstone,
)
from engram.model.transfer import MemoryProof, MemoryRecord, RecordsStored
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.memories import changing as memory_changing
from engram.storage.memories import correcting as memory_correcting
from engram.storage.memories import episodes, relations, transfer_in, transfer_out
from engram.storage.memories import forgetting as memory_forgetting
from engram.storage.memories import history as memory_history
from engram.storage.memories import listing as memory_listing
from engram.storage.memories import removal as memory_removal
from engram.storage.memories import status as memory_status
from engram.storage.memories import storing as memory_storing
from engram.storage.memories.feedback import record_feedback
from engram.storage.tenant import Tenant


class TableMemoryStore:
    """The memories of one organisation, in its own file."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._database = tenant.database

    async def store(
        self,
        drafts: Sequence[MemoryDraft],
        *,
        actor: str,
        quota: Quota,
        indexing: Indexing = WORDS_ALONE,
        once: bool = False,
    ) -> tuple[StoredMemory, ...]:
        return await memory_storing.store(
            self._tenant, drafts, actor=actor, quota=quota, indexing=indexing, once=once
        )

    async def get(self, memory_ids: Sequence[MemoryId]) -> Mapping[MemoryId, Memory]:
        return await self._tenant.read(lambda tx: memory_listing.get(tx, memory_ids))

    async def list(self, query: MemoryQuery, *, now: datetime) -> MemoryPage:
        return await self._tenant.read(lambda tx: memory_listing.list_memories(tx, query, now=now))

    async def scan(
        self, project: str | None, *, after: MemoryId | None, limit: int
    ) -> tuple[Memory, ...]:
        return await self._tenant.read(
            lambda tx: memory_listing.scan(tx, project, after=after, limit=limit)
        )

    async def correct(
        self,
        memory_id: MemoryId,
        change: MemoryChange,
        *,
        actor: str,
        quota: Quota,
        indexing: Indexing = WORDS_ALONE,
    ) -> Memory:
        return await memory_correcting.correct(
            self._tenant, memory_id, change, actor=actor, quota=quota, indexing=indexing
        )

    async def forget(
        self,
        memory_id: MemoryId,
        *,
        reason: str | None,
        change: Change = "invalidate",
        actor: str,
        now: datetime,
        quota: Quota = UNBOUNDED,
    ) -> Memory:
        return await memory_forgetting.forget(
            self._tenant, memory_id, reason=reason, change=change, actor=actor, quota=quota, now=now
        )

    async def restore(
        self,
        memory_id: MemoryId,
        *,
        actor: str,
        quota: Quota = UNBOUNDED,
        indexing: Indexing = WORDS_ALONE,
    ) -> Memory:
        return await memory_forgetting.restore(
            self._tenant, memory_id, actor=actor, quota=quota, indexing=indexing
        )

    async def set_summary(
        self, memory_id: MemoryId, summary: str, *, actor: str, quota: Quota = UNBOUNDED
    ) -> None:
        await memory_changing.set_summary(
            self._tenant, memory_id, summary, actor=actor, quota=quota
        )

    async def purge(self, memory_id: MemoryId, *, actor: str, force: bool = False) -> Tombstone:
        return await memory_removal.purge(self._tenant, memory_id, actor=actor, force=force)

    async def delete_project(self, project: str, *, actor: str) -> int:
        return await memory_removal.delete_project(self._tenant, project, actor=actor)

    async def history(self, memory_id: MemoryId) -> tuple[MemoryVersion, ...]:
        return await self._tenant.read(lambda tx: memory_history.read_history(tx, memory_id))

    async def timeline(
        self, as_of: datetime, *, projects: Sequence[str] | None, limit: int
    ) -> tuple[Memory, ...]:
        return await self._tenant.read(
            lambda tx: memory_history.read_timeline(tx, as_of, projects=projects, limit=limit)
        )

    async def connect(
        self, draft: RelationDraft, *, actor: str, quota: Quota = UNBOUNDED
    ) -> Relation:
        return await self._tenant.write(
            lambda tx: relations.connect(tx, draft, actor=actor, quota=quota)
        )

    async def disconnect(
        self, source_id: MemoryId, target_id: MemoryId, relation_type: RelationType, *, actor: str
    ) -> bool:
        return await self._tenant.write(
            lambda tx: relations.disconnect(tx, source_id, target_id, relation_type, actor=actor)
        )

    async def relations(
        self, memory_ids: Sequence[MemoryId], *, hops: int = 1
    ) -> tuple[Relation, ...]:
        return await self._tenant.read(lambda tx: relations.walk(tx, memory_ids, hops=hops))

    async def record_feedback(
        self, feedback: Feedback, *, actor: str, quota: Quota = UNBOUNDED
    ) -> int:
        return await self._tenant.write(
            lambda tx: record_feedback(tx, feedback, actor=actor, quota=quota)
        )

    async def start_episode(
        self, project: str, description: str, *, actor: str, quota: Quota = UNBOUNDED
    ) -> EpisodeId:
        return await self._tenant.write(
            lambda tx: episodes.start_episode(tx, project, description, actor=actor, quota=quota)
        )

    async def end_episode(
        self, episode_id: EpisodeId, *, summary: str | None, actor: str, quota: Quota = UNBOUNDED
    ) -> Episode:
        return await self._tenant.write(
            lambda tx: episodes.end_episode(
                tx, episode_id, summary=summary, actor=actor, quota=quota
            )
        )

    async def list_episodes(self, project: str, *, limit: int) -> tuple[Episode, ...]:
        return await self._tenant.read(lambda tx: episodes.list_episodes(tx, project, limit=limit))

    async def get_episode(self, episode_id: EpisodeId) -> Episode:
        return await self._tenant.read(lambda tx: episodes.get_episode(tx, episode_id))

    async def projects(self) -> tuple[ProjectSize, ...]:
        return await self._tenant.read(memory_status.list_projects)

    async def status(self, project: str | None) -> MemoryStatus:
        return await self._tenant.read(lambda tx: memory_status.read_status(tx, project))

    async def read_records(
        self, project: str | None, *, after: MemoryId | None, limit: int
    ) -> tuple[MemoryRecord, ...]:
        return await self._tenant.read(
            lambda tx: transfer_out.read_records(tx, project, after=after, limit=limit)
        )

    async def read_episodes(
        self, project: str | None, *, after: EpisodeId | None, limit: int
    ) -> tuple[Episode, ...]:
        return await self._tenant.read(
            lambda tx: transfer_out.read_episodes(tx, project, after=after, limit=limit)
        )

    async def store_records(
        self,
        records: Sequence[MemoryRecord],
        *,
        actor: str,
        quota: Quota,
        indexing: Indexing = WORDS_ALONE,
    ) -> RecordsStored:
        return await transfer_in.store_records(
            self._tenant, records, actor=actor, quota=quota, indexing=indexing
        )

    async def store_episode(
        self, episode: Episode, *, actor: str, quota: Quota = UNBOUNDED
    ) -> bool:
        return await self._tenant.write(
            lambda tx: transfer_in.store_episode(tx, episode, actor=actor, quota=quota)
        )

    async def store_relations(
        self, relations: Sequence[Relation], *, actor: str, quota: Quota = UNBOUNDED
    ) -> int:
        return await self._tenant.write(
            lambda tx: transfer_in.store_relations(tx, relations, actor=actor, quota=quota)
        )

    async def verify(
        self, project: str | None, *, after: MemoryId | None, limit: int
    ) -> MemoryProof:
        return await self._tenant.read(
            lambda tx: transfer_out.verify(tx, project, after=after, limit=limit)
        )
