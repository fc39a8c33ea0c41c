"""Keeping, reading and tending typed memories; recall is a use case of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from engram import limits
from engram.clock import Clock
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.access import Principal
from engram.model.checks import check_range, check_text
from engram.model.ids import ChunkId, MemoryId
from engram.model.memory import (
    Feedback,
    Memory,
    MemoryChange,
    MemoryDraft,
    MemoryPage,
    MemoryQuery,
    MemoryStatus,
    ProjectSize,
    Relation,
    RelationDraft,
    Tombstone,
    check_project,
)
from engram.model.memory_reading import (
    FetchedMemory,
    MemoryChunk,
    MemoryFetch,
    MemoryHistory,
    TimelineQuery,
)
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.offload import offload
from engram.service.background import Background
from engram.service.indexing import Indexer
from engram.service.keeping import Keeping, Kept
from engram.storage.memories.store import MemoryStore
from engram.storage.store import Store
from engram.text.chunks import chunks_of
from engram.text.excerpts import CHARACTERS_PER_TOKEN, brief, cut, tokens_of


class Memories:
    """The use cases of the `memories` toolset.

    A memory is known by its id within the organisation. Where a project is given too, a memory of
    another project is as unknown as one that does not exist.
    """

    def __init__(
        self,
        store: Store,
        *,
        keeping: Keeping,
        indexer: Indexer,
        background: Background,
        clock: Clock,
    ) -> None:
        self._store = store
        self._keeping = keeping
        self._indexer = indexer
        self._background = background
        self._clock = clock

    async def store(self, principal: Principal, draft: MemoryDraft) -> Kept:
        """Keep one memory."""
        return await self._keeping.keep(principal, [draft])

    async def store_batch(self, principal: Principal, drafts: Sequence[MemoryDraft]) -> Kept:
        """Keep several memories, all or none."""
        return await self._keeping.keep(principal, drafts)

    async def fetch(self, principal: Principal, request: MemoryFetch) -> FetchedMemory:
        """Return a memory, as much of it as is asked for and fits the budget."""
        principal.require("read")
        store = await self._store.organization(principal.organization_id)
        memory = await _find(store.memories, request.memory_id, request.project)
        work = partial(read_memory, memory, request)
        fetched = await offload(work, characters=len(memory.content))
        if memory.storage_mode != "document":
            return fetched
        owned = await store.documents.of_memories([memory.id])
        return replace(fetched, document=owned.get(memory.id))

    async def list(self, principal: Principal, query: MemoryQuery) -> MemoryPage:
        """Return one page of memories, newest first."""
        principal.require("read")
        memories = await self._memories(principal)
        return await memories.list(query, now=self._clock.now())

    async def history(
        self, principal: Principal, memory_id: MemoryId, *, project: str | None = None
    ) -> MemoryHistory:
        """Return what a memory said before each of its changes."""
        principal.require("read")
        memories = await self._memories(principal)
        memory = await _find(memories, memory_id, project)
        return MemoryHistory(memory=memory, versions=await memories.history(memory_id))

    async def timeline(self, principal: Principal, query: TimelineQuery) -> tuple[Memory, ...]:
        """Return what was known and held at a moment of the past, as it was then."""
        principal.require("read")
        if query.as_of > self._clock.now():
            raise InvalidRequestError("must not be in the future", field="as_of")
        memories = await self._memories(principal)
        return await memories.timeline(query.as_of, projects=query.projects, limit=query.limit)

    async def connect(
        self, principal: Principal, draft: RelationDraft, *, project: str | None = None
    ) -> Relation:
        """Relate two memories; `project` is that of the first."""
        principal.require("write")
        memories = await self._memories(principal)
        await _check_project(memories, [draft.source_id], project)
        return await memories.connect(draft, actor=principal.actor, quota=principal.quota)

    async def relations(
        self, principal: Principal, memory_id: MemoryId, *, hops: int = 1
    ) -> tuple[Relation, ...]:
        """Return the relations around a memory."""
        principal.require("read")
        check_range("hops", hops, minimum=1, maximum=limits.RELATION_HOPS_MAX)
        memories = await self._memories(principal)
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
        """Change a memory; what it said before stays in its history.

        To end it, or to have it begin later, needs `delete` beside `write`: it is found no more.
        """
        principal.require("write")
        if change.ends(now=self._clock.now()):
            principal.require("delete")
        memories = await self._memories(principal)
        await _check_project(memories, [memory_id], project)
        corrected = await memories.correct(
            memory_id,
            change,
            actor=principal.actor,
            quota=principal.quota,
            indexing=await self._index(principal, change.content),
        )
        self._background.notice(principal.organization_id)
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
        principal.require("delete")
        if reason is not None:
            check_text("reason", reason, bytes_max=limits.REASON_BYTES_MAX)
        memories = await self._memories(principal)
        await _check_project(memories, [memory_id], project)
        return await memories.forget(
            memory_id,
            reason=reason,
            actor=principal.actor,
            quota=principal.quota,
            now=self._clock.now(),
        )

    async def purge(
        self, principal: Principal, memory_id: MemoryId, *, force: bool = False
    ) -> Tombstone:
        """Remove a memory with all that was derived from it; a tombstone stays."""
        principal.require("delete")
        memories = await self._memories(principal)
        return await memories.purge(memory_id, actor=principal.actor, force=force)

    async def feedback(
        self, principal: Principal, feedback: Feedback, *, project: str | None = None
    ) -> int:
        """Keep which memories helped and which did not; return how many are spoken of."""
        principal.require("write")
        memories = await self._memories(principal)
        await _check_project(memories, feedback.memory_ids, project)
        return await memories.record_feedback(
            feedback, actor=principal.actor, quota=principal.quota
        )

    async def projects(
        self, principal: Principal, *, project: str | None = None
    ) -> tuple[ProjectSize, ...]:
        """Return the projects that have memories, by name; if one is given, it alone."""
        principal.require("read")
        _check_name(project)
        sizes = await (await self._memories(principal)).projects()
        return tuple(size for size in sizes if project in (None, size.project))

    async def status(self, principal: Principal, project: str | None = None) -> MemoryStatus:
        """Return what the memories of a project, or of all, amount to."""
        principal.require("read")
        _check_name(project)
        return await (await self._memories(principal)).status(project)

    async def _index(self, principal: Principal, content: str | None) -> Indexing:
        """Return the meaning of a new text; one that stays keeps the vectors it has."""
        if content is None:
            return WORDS_ALONE
        return await self._indexer.index_new(
            [MemoryDraft(content=content).as_message()],
            organization_id=principal.organization_id,
        )

    async def _memories(self, principal: Principal) -> MemoryStore:
        return (await self._store.organization(principal.organization_id)).memories


async def _find(memories: MemoryStore, memory_id: MemoryId, project: str | None) -> Memory:
    _check_name(project)
    found = (await memories.get([memory_id])).get(memory_id)
    if found is None or project not in (None, found.project):
        raise _unknown(memory_id, project)
    return found


async def _check_project(
    memories: MemoryStore, memory_ids: Sequence[MemoryId], project: str | None
) -> None:
    """Refuse memories that are not of the project, if one is asked for."""
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


def _unknown(memory_id: MemoryId, project: str | None) -> NotFoundError:
    place = None if project is None else f"project {project!r}"
    return NotFoundError("memory", memory_id, place=place)


def read_memory(memory: Memory, request: MemoryFetch) -> FetchedMemory:
    """Return a memory in the detail asked for.

    Raises:
        NotFoundError: it has no such chunk.
    """
    chunks = chunks_of(memory)
    summary = memory.summary or brief(memory.content)
    match request.detail:
        case "summary":
            return FetchedMemory(memory=memory, summary=summary, chunk_count=len(chunks))
        case "full":
            shown = cut(memory.content, request.token_budget * CHARACTERS_PER_TOKEN)
            return FetchedMemory(
                memory=memory,
                summary=summary,
                chunk_count=len(chunks),
                content=shown.text,
                is_truncated=shown.is_cut,
            )
        case "chunk":
            asked = _asked(chunks, request.chunk_ids) if request.chunk_ids else chunks
            fitting = _within(asked, request.token_budget)
            return FetchedMemory(
                memory=memory,
                summary=summary,
                chunk_count=len(chunks),
                chunks=tuple(fitting),
                is_truncated=any(chunk.text is None for chunk in fitting),
            )


def _asked(chunks: Sequence[MemoryChunk], chunk_ids: Sequence[ChunkId]) -> list[MemoryChunk]:
    by_id = {chunk.id: chunk for chunk in chunks}
    for unknown in (each for each in chunk_ids if each not in by_id):
        raise NotFoundError("chunk", unknown)
    return [by_id[each] for each in dict.fromkeys(chunk_ids)]


def _within(chunks: Sequence[MemoryChunk], token_budget: int) -> list[MemoryChunk]:
    """Return the chunks with the texts of those that fit; the others are handles."""
    shown: list[MemoryChunk] = []
    left = token_budget
    for chunk in chunks:
        left -= tokens_of(len(chunk.text or ""))
        shown.append(chunk if left >= 0 else _handle(chunk))
    return shown


def _handle(chunk: MemoryChunk) -> MemoryChunk:
    return MemoryChunk(id=chunk.id, index=chunk.index, start=chunk.start, end=chunk.end, text=None)
