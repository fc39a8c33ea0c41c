"""Use cases of notes and typed memories: store, read, list, correct, relate, forget, remove."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Literal

from engram import errors, limits
from engram.model.access import Principal
from engram.model.fields import check_range, check_text
from engram.model.ids import MemoryId
from engram.model.memory import (
    Feedback,
    FeedbackCounts,
    Memory,
    MemoryChange,
    MemoryDraft,
    MemoryPage,
    MemoryQuery,
    MemoryStatus,
    NoteDraft,
    ProjectSize,
    Relation,
    RelationDraft,
    StoredMemory,
    Tombstone,
    check_project,
)
from engram.model.recall import FetchedMemory, MemoryFetch, MemoryHistory, TimelineQuery
from engram.model.value import Value, replace
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.service import UseCases
from engram.service.access.usage import find_quota_warning
from engram.service.projects import with_episodes
from engram.storage.memories.store import MemoryStore
from engram.storage.organization import OrganizationStore
from engram.text.chunks import read_memory
from engram.yielding import offload

VectorGap = Literal["no_embedder", "embed_pending"]
"""Why memories are found by their words alone: permanently, or until the background embeds them."""


class StoredMemories(Value):
    """The result of storing memories, which are durable and searchable by now."""

    memories: tuple[StoredMemory, ...]
    """In the order of the drafts."""
    vector_gap: VectorGap | None = None
    quota_warning: str | None = None
    """Set when the organisation has used most of its quota."""


class Memories(UseCases):
    """The use cases of the `notes` and `memories` toolsets.

    A memory is known by its id within the organisation. Where a project is given too, a memory of
    another project is as unknown as one that does not exist.
    """

    async def store(self, principal: Principal, draft: MemoryDraft) -> StoredMemories:
        """Store one memory."""
        return await self.store_batch(principal, [draft])

    async def store_note(self, principal: Principal, draft: NoteDraft) -> StoredMemories:
        """Store a note, unless the same one is stored already."""
        return await self.store_notes(principal, [draft])

    async def store_notes(
        self, principal: Principal, drafts: Sequence[NoteDraft]
    ) -> StoredMemories:
        """Store several notes, all or none, without those that are stored already.

        Which were is told only to those who may read: others could find out by guessing.
        """
        memories = [draft.as_memory() for draft in drafts]
        stored = await self.store_batch(principal, memories, once=True)
        if principal.allows("read"):
            return stored
        return replace(stored, memories=tuple(StoredMemory(id=each.id) for each in stored.memories))

    async def store_batch(
        self, principal: Principal, drafts: Sequence[MemoryDraft], *, once: bool = False
    ) -> StoredMemories:
        """Store all the memories or none; with `once`, those that exist already are not repeated.

        Notes and imports, which are stored once, belong to no automatic episode.

        Raises:
            NotFoundError: a draft names an unknown episode.
            LimitExceededError: there are too many of them, or they are too large together.
            QuotaExceededError: they do not fit the quota any more.
        """
        store = await self._open(principal, "write")
        _check_batch(drafts)
        if not once:
            drafts = await with_episodes(store.memories, principal, drafts)
        indexing = await self._tools.indexer.index_new(
            [draft.as_message() for draft in drafts], organization_id=principal.organization_id
        )
        stored = await store.memories.store(
            drafts, actor=principal.actor, quota=principal.quota, indexing=indexing, once=once
        )
        self._tools.background.announce_work(principal.organization_id)
        self._tools.activity.memories_stored += sum(not each.is_duplicate for each in stored)
        return StoredMemories(
            memories=stored,
            vector_gap=_vector_gap(indexing),
            quota_warning=await find_quota_warning(principal, store),
        )

    async def fetch(self, principal: Principal, request: MemoryFetch) -> FetchedMemory:
        """Return a memory, as much of it as is asked for and fits the budget."""
        store = await self._open(principal, "read")
        memory = await _find(store.memories, request.id, request.project)
        work = partial(read_memory, memory, request)
        fetched = await offload(work, characters=len(memory.content))
        if memory.storage_mode != "document":
            return fetched
        owned = await store.documents.of_memories([memory.id])
        return replace(fetched, document=owned.get(memory.id))

    async def list(self, principal: Principal, query: MemoryQuery) -> MemoryPage:
        """Return one page of memories, newest first.

        Raises:
            NotFoundError: it is to be of an episode that does not exist.
        """
        memories = (await self._open(principal, "read")).memories
        if query.filters.episode_id is not None:
            await memories.get_episode(query.filters.episode_id)
        return await memories.list(query, now=self._tools.clock.now())

    async def history(
        self, principal: Principal, memory_id: MemoryId, *, project: str | None = None
    ) -> MemoryHistory:
        """Return a memory with all of its former versions."""
        memories = (await self._open(principal, "read")).memories
        memory = await _find(memories, memory_id, project)
        return MemoryHistory(memory=memory, versions=await memories.history(memory_id))

    async def timeline(self, principal: Principal, query: TimelineQuery) -> tuple[Memory, ...]:
        """Return the memories that were stored and valid at a moment of the past, as they were then."""
        memories = (await self._open(principal, "read")).memories
        if query.as_of > self._tools.clock.now():
            raise errors.InvalidRequestError("must not be in the future", field="as_of")
        return await memories.timeline(
            query.as_of, projects=query.projects, limit=query.limit, offset=query.offset
        )

    async def connect(
        self, principal: Principal, draft: RelationDraft, *, project: str | None = None
    ) -> Relation:
        """Relate two memories; `project` is that of the first."""
        memories = (await self._open(principal, "write")).memories
        await _check_project(memories, [draft.source_id], project)
        return await memories.connect(draft, actor=principal.actor, quota=principal.quota)

    async def relations(
        self, principal: Principal, memory_id: MemoryId, *, hops: int = 1
    ) -> tuple[Relation, ...]:
        """Return the relations around a memory."""
        memories = (await self._open(principal, "read")).memories
        check_range("hops", hops, minimum=1, maximum=limits.RELATION_HOPS_MAX)
        await _find(memories, memory_id, None)
        return await memories.relations([memory_id], hops=hops)

    async def correct(
        self,
        principal: Principal,
        memory_id: MemoryId,
        change: MemoryChange,
        *,
        project: str | None = None,
    ) -> Memory:
        """Change a memory; the version before stays in its history.

        A change that ends it, or lets it begin later, hides it, so that needs `delete` too.
        """
        memories = (await self._open(principal, "write")).memories
        if change.ends(now=self._tools.clock.now()):
            principal.require("delete")
        _check_name(project)
        try:
            corrected = await memories.correct(
                memory_id,
                change,
                project=project,
                actor=principal.actor,
                quota=principal.quota,
                indexing=await self._index(principal, change.content),
            )
        except errors.NotFoundError as exc:
            raise _unknown(memory_id, project) from exc
        self._tools.background.announce_work(principal.organization_id)
        return corrected

    async def forget(
        self,
        principal: Principal,
        memory_id: MemoryId,
        *,
        reason: str | None = None,
        project: str | None = None,
    ) -> Memory:
        """End a memory's validity; it stays in its history and the timeline."""
        memories = (await self._open(principal, "delete")).memories
        if reason is not None:
            check_text("reason", reason, bytes_max=limits.REASON_BYTES_MAX)
        await _check_project(memories, [memory_id], project)
        return await memories.forget(
            memory_id,
            reason=reason,
            actor=principal.actor,
            quota=principal.quota,
            now=self._tools.clock.now(),
        )

    async def restore(
        self, principal: Principal, memory_id: MemoryId, *, project: str | None = None
    ) -> Memory:
        """Undo a `forget`: the memory is valid and searched again; one that is not forgotten stays as it is."""
        memories = (await self._open(principal, "write", "delete")).memories
        found = await _find(memories, memory_id, project)
        restored = await memories.restore(
            memory_id,
            actor=principal.actor,
            quota=principal.quota,
            indexing=await self._index(principal, None if found.is_searched else found.content),
        )
        self._tools.background.announce_work(principal.organization_id, "vectors", "documents")
        return restored

    async def purge(
        self, principal: Principal, memory_id: MemoryId, *, force: bool = False, undo: bool = False
    ) -> Tombstone:
        """Remove a memory with everything derived from it, or with `undo` move it to the trash.

        A tombstone stays of one that is removed, also from the trash. Idempotent.
        """
        store = await self._open(principal, "delete")
        keep = self._tools.trash_stay if undo else None
        return await purge_memory(store, memory_id, actor=principal.actor, force=force, keep=keep)

    async def feedback(
        self, principal: Principal, feedback: Feedback, *, project: str | None = None
    ) -> int:
        """Record which memories helped and which did not; return how many."""
        memories = (await self._open(principal, "write")).memories
        await _check_project(memories, feedback.memory_ids, project)
        return await memories.record_feedback(
            feedback, actor=principal.actor, quota=principal.quota
        )

    async def count_feedback(self, principal: Principal, memory_id: MemoryId) -> FeedbackCounts:
        """Return how often a memory helped, and how often it did not."""
        memories = (await self._open(principal, "read")).memories
        return await memories.count_feedback(memory_id)

    async def projects(
        self, principal: Principal, *, project: str | None = None
    ) -> tuple[ProjectSize, ...]:
        """Return the projects that have memories, by name, or only the given one."""
        memories = (await self._open(principal, "read")).memories
        _check_name(project)
        sizes = await memories.projects()
        return tuple(size for size in sizes if project in (None, size.project))

    async def status(self, principal: Principal, project: str | None = None) -> MemoryStatus:
        """Return the counts of memories and related rows of a project, or of all."""
        memories = (await self._open(principal, "read")).memories
        _check_name(project)
        return await memories.status(project)

    async def _index(self, principal: Principal, content: str | None) -> Indexing:
        """Return the instant vectors of a new text; an unchanged one keeps its vectors."""
        if content is None:
            return WORDS_ALONE
        return await self._tools.indexer.index_new(
            [MemoryDraft(content=content).as_message()],
            organization_id=principal.organization_id,
        )


async def purge_memory(
    store: OrganizationStore,
    memory_id: MemoryId,
    *,
    actor: str,
    force: bool,
    keep: timedelta | None,
) -> Tombstone:
    """Remove a memory for good, from the trash too, or move it to the trash and keep it there for a time."""
    if keep is not None:
        return await _trash(store, memory_id, actor=actor, force=force, keep=keep)
    try:
        return await store.memories.purge(memory_id, actor=actor, force=force)
    except errors.NotFoundError as unknown:
        try:
            return await store.trash.purge_memory(memory_id, actor=actor)
        except errors.NotFoundError:
            raise unknown from None


async def _trash(
    store: OrganizationStore, memory_id: MemoryId, *, actor: str, force: bool, keep: timedelta
) -> Tombstone:
    entry = await store.trash.trash_memory(memory_id, actor=actor, keep=keep, force=force)
    return Tombstone(
        id=memory_id,
        content_hash=entry.content_hash or "",
        removed_at=entry.deleted_at,
        restorable_until=entry.restorable_until,
    )


async def _find(memories: MemoryStore, memory_id: MemoryId, project: str | None) -> Memory:
    _check_name(project)
    found = (await memories.get([memory_id])).get(memory_id)
    if found is None or project not in (None, found.project):
        raise _unknown(memory_id, project)
    return found


async def _check_project(
    memories: MemoryStore, memory_ids: Sequence[MemoryId], project: str | None
) -> None:
    """Refuse memories of other projects than the given one."""
    _check_name(project)
    if project is None or not memory_ids:
        return
    found = await memories.get(memory_ids)
    for memory_id in memory_ids:
        if memory_id not in found or found[memory_id].project != project:
            raise _unknown(memory_id, project)


def _check_name(project: str | None) -> None:
    if project is not None:
        check_project(project)


def _unknown(memory_id: MemoryId, project: str | None) -> errors.NotFoundError:
    place = None if project is None else f"project {project!r}"
    return errors.NotFoundError("memory", memory_id, place=place)


def _check_batch(drafts: Sequence[MemoryDraft]) -> None:
    """Refuse a batch that is empty, or too large for one short transaction."""
    if not drafts:
        raise errors.InvalidRequestError("must hold at least one memory", field="memories")
    count, most = len(drafts), limits.MEMORIES_PER_CALL_MAX
    if count > most:
        raise errors.LimitExceededError("memories", limit=most, actual=count, unit="memories")
    size = sum(len(draft.content.encode()) for draft in drafts)
    if size > limits.CALL_BYTES_MAX:
        raise errors.RequestTooLargeError(
            "memories", limit=limits.CALL_BYTES_MAX, actual=size, unit="bytes"
        )


def _vector_gap(indexing: Indexing) -> VectorGap | None:
    if indexing.vectors is not None:
        return None
    return "embed_pending" if indexing.is_queued else "no_embedder"
