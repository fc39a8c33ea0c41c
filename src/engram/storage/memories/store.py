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


class MemoryStore:
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
        """Store memories with all that is derived from them and an audit row, or nothing.

        `indexing` speaks of the drafts in their order, as for messages. With `once`, a draft whose
        content, project and category a searched memory has already is not stored again: its place
        in the answer names that memory. Drafts of one call count among each other.

        Raises:
            NotFoundError: a draft names an episode that is not here.
            QuotaExceededError: they do not fit the quota any more.
        """
        return await memory_storing.store(
            self._tenant, drafts, actor=actor, quota=quota, indexing=indexing, once=once
        )

    async def get(self, memory_ids: Sequence[MemoryId]) -> Mapping[MemoryId, Memory]:
        """Return those that exist, forgotten ones included.

        Raises:
            StoreCorruptError: the bytes of one do not match its hash.
        """
        return await self._tenant.read(lambda tx: memory_listing.get(tx, memory_ids))

    async def list(self, query: MemoryQuery, *, now: datetime) -> MemoryPage:
        """Return a page of memories under all the query's filters, newest first, ties by id.

        Those that have expired by `now`, or do not hold at that moment, are left out unless
        `include_forgotten`.
        """
        return await self._tenant.read(lambda tx: memory_listing.list_memories(tx, query, now=now))

    async def scan(
        self, project: str | None, *, after: MemoryId | None, limit: int
    ) -> tuple[Memory, ...]:
        """Return memories in the order they were first stored, forgotten ones included.

        Begins after the memory `after`; None begins with the first. For walks over everything.

        Raises:
            NotFoundError: there is no memory `after` any more.
        """
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
        """Keep the present version in the history and change the memory; return it.

        What is as asked already is no new version. A summary goes with the text it is of.
        `indexing` speaks of the new content, if there is one.

        Raises:
            NotFoundError: there is no such memory.
            ConflictError: it is immutable, or was forgotten.
            InvalidRequestError: its validity would end before it begins.
            QuotaExceededError: the new content does not fit the quota any more.
        """
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
        """End a memory's validity; it is searched no more and its text stays in the history.

        Forgotten again, nothing changes.

        Raises:
            NotFoundError: there is no such memory.
            ConflictError: it is immutable.
            QuotaExceededError: the version that is kept does not fit the quota any more.
        """
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
        """Undo a `forget`: the memory holds and is searched again as it was before.

        `indexing` speaks of its content. A memory that is not forgotten stays as it is. That it
        was forgotten stays in the history, as a version that an `update` ended.

        Raises:
            NotFoundError: there is no such memory.
            QuotaExceededError: the version that is kept does not fit the quota any more.
        """
        return await memory_forgetting.restore(
            self._tenant, memory_id, actor=actor, quota=quota, indexing=indexing
        )

    async def set_summary(
        self, memory_id: MemoryId, summary: str, *, actor: str, quota: Quota = UNBOUNDED
    ) -> None:
        """Keep a summary beside a memory; it is no new version.

        Raises:
            NotFoundError: there is no such memory.
            QuotaExceededError: it does not fit the quota any more.
        """
        await memory_changing.set_summary(
            self._tenant, memory_id, summary, actor=actor, quota=quota
        )

    async def purge(self, memory_id: MemoryId, *, actor: str, force: bool = False) -> Tombstone:
        """Remove a memory with its versions, relations, feedback, words and vectors.

        A tombstone stays. Purged again, the first tombstone is the answer.

        Raises:
            NotFoundError: there never was such a memory here.
            ConflictError: it is immutable, and not `force`.
        """
        return await memory_removal.purge(self._tenant, memory_id, actor=actor, force=force)

    async def delete_project(self, project: str, *, actor: str) -> int:
        """Remove every memory and episode of a project, immutable ones too; return how many memories.

        A tombstone stays of each memory. Conversations of the project stay, and so does what is
        stored in it meanwhile. Large projects take several transactions.
        """
        return await memory_removal.delete_project(self._tenant, project, actor=actor)

    async def history(self, memory_id: MemoryId) -> tuple[MemoryVersion, ...]:
        """Return the versions a memory had before the present one, oldest first.

        Raises:
            NotFoundError: there is no such memory.
        """
        return await self._tenant.read(lambda tx: memory_history.read_history(tx, memory_id))

    async def timeline(
        self, as_of: datetime, *, projects: Sequence[str] | None, limit: int
    ) -> tuple[Memory, ...]:
        """Return the memories that were known and held at a moment, as they were then, newest first."""
        return await self._tenant.read(
            lambda tx: memory_history.read_timeline(tx, as_of, projects=projects, limit=limit)
        )

    async def connect(
        self, draft: RelationDraft, *, actor: str, quota: Quota = UNBOUNDED
    ) -> Relation:
        """Relate two memories; the same pair and type again takes the new strength.

        Raises:
            NotFoundError: one of them is not here.
            InvalidRequestError: `supersedes` would close a circle.
            QuotaExceededError: a new relation does not fit the quota any more.
        """
        return await self._tenant.write(
            lambda tx: relations.connect(tx, draft, actor=actor, quota=quota)
        )

    async def disconnect(
        self, source_id: MemoryId, target_id: MemoryId, relation_type: RelationType, *, actor: str
    ) -> bool:
        """Take a relation away; False when there was none."""
        return await self._tenant.write(
            lambda tx: relations.disconnect(tx, source_id, target_id, relation_type, actor=actor)
        )

    async def relations(
        self, memory_ids: Sequence[MemoryId], *, hops: int = 1
    ) -> tuple[Relation, ...]:
        """Return the relations met by walking up to `hops` steps from some memories, either way.

        Nearest first, then strongest, ties by id; at most `RELATED_MAX` for each step from each
        memory: first what supersedes it, then what contradicts it, then the strongest. Memories that
        are not here are passed over.
        """
        return await self._tenant.read(lambda tx: relations.walk(tx, memory_ids, hops=hops))

    async def record_feedback(
        self, feedback: Feedback, *, actor: str, quota: Quota = UNBOUNDED
    ) -> int:
        """Keep what helped and what did not; return how many memories it speaks of.

        Said again for the same event and memory, it replaces what was said. Of a memory the last
        `FEEDBACK_KEPT` count. What names an event alone is kept in the audit.

        Raises:
            NotFoundError: one of the memories is not here; nothing is kept then.
            QuotaExceededError: it does not fit the quota any more; nothing is kept then.
        """
        return await self._tenant.write(
            lambda tx: record_feedback(tx, feedback, actor=actor, quota=quota)
        )

    async def start_episode(
        self, project: str, description: str, *, actor: str, quota: Quota = UNBOUNDED
    ) -> EpisodeId:
        """Begin an episode.

        Raises:
            QuotaExceededError: it does not fit the quota any more.
        """
        return await self._tenant.write(
            lambda tx: episodes.start_episode(tx, project, description, actor=actor, quota=quota)
        )

    async def end_episode(
        self, episode_id: EpisodeId, *, summary: str | None, actor: str, quota: Quota = UNBOUNDED
    ) -> Episode:
        """End an episode; one that has ended keeps its end, and takes a summary if one is given.

        Raises:
            NotFoundError: there is no such episode.
            QuotaExceededError: the summary does not fit the quota any more.
        """
        return await self._tenant.write(
            lambda tx: episodes.end_episode(
                tx, episode_id, summary=summary, actor=actor, quota=quota
            )
        )

    async def list_episodes(self, project: str, *, limit: int) -> tuple[Episode, ...]:
        """Return the episodes of a project, the last begun first."""
        return await self._tenant.read(lambda tx: episodes.list_episodes(tx, project, limit=limit))

    async def get_episode(self, episode_id: EpisodeId) -> Episode:
        """Return an episode.

        Raises:
            NotFoundError: there is no such episode.
        """
        return await self._tenant.read(lambda tx: episodes.get_episode(tx, episode_id))

    async def projects(self) -> tuple[ProjectSize, ...]:
        """Return the projects that have memories, forgotten ones too, by name."""
        return await self._tenant.read(memory_status.list_projects)

    async def status(self, project: str | None) -> MemoryStatus:
        """Return what the memories of a project, or of all, amount to."""
        return await self._tenant.read(lambda tx: memory_status.read_status(tx, project))

    async def read_records(
        self, project: str | None, *, after: MemoryId | None, limit: int
    ) -> tuple[MemoryRecord, ...]:
        """Return memories with their histories and relations, in the order they were first stored.

        Forgotten ones are included. Begins after the memory `after`; None begins with the first.

        Raises:
            StoreCorruptError: the bytes of one do not match its hash.
        """
        return await self._tenant.read(
            lambda tx: transfer_out.read_records(tx, project, after=after, limit=limit)
        )

    async def read_episodes(
        self, project: str | None, *, after: EpisodeId | None, limit: int
    ) -> tuple[Episode, ...]:
        """Return episodes by id: those of a project and those that its memories name, or all."""
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
        """Store memories as they were, with ids, moments and histories, or none; not their relations.

        A memory whose id is here already stays as it is, and one that was purged stays purged. One
        that owns a document is not stored: a body is uploaded, not carried with its memory.
        `indexing` speaks of the records in their order.

        Raises:
            NotFoundError: one names an episode that is not here.
            QuotaExceededError: they do not fit the quota any more.
        """
        return await transfer_in.store_records(
            self._tenant, records, actor=actor, quota=quota, indexing=indexing
        )

    async def store_episode(
        self, episode: Episode, *, actor: str, quota: Quota = UNBOUNDED
    ) -> bool:
        """Store an episode as it was; False when it is here already.

        Raises:
            QuotaExceededError: it does not fit the quota any more.
        """
        return await self._tenant.write(
            lambda tx: transfer_in.store_episode(tx, episode, actor=actor, quota=quota)
        )

    async def store_relations(
        self, relations: Sequence[Relation], *, actor: str, quota: Quota = UNBOUNDED
    ) -> int:
        """Store relations as they were; return how many are new.

        One whose memories are not both here is passed over, as is one that is here already.

        Raises:
            InvalidRequestError: `supersedes` would close a circle; none is stored then.
            QuotaExceededError: they do not fit the quota any more; none is stored then.
        """
        return await self._tenant.write(
            lambda tx: transfer_in.store_relations(tx, relations, actor=actor, quota=quota)
        )

    async def verify(
        self, project: str | None, *, after: MemoryId | None, limit: int
    ) -> MemoryProof:
        """Prove memories and their former versions by their hashes, in the order of `read_records`.

        `after` may be the id of a memory whose text cannot be read.
        """
        return await self._tenant.read(
            lambda tx: transfer_out.verify(tx, project, after=after, limit=limit)
        )
