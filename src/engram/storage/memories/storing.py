"""Store new memories, with all that is derived from them, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from engram.errors import NotFoundError
from engram.model.access import Quota
from engram.model.ids import EpisodeId, MemoryId
from engram.model.memory import MemoryDraft, StoredMemory
from engram.model.value import Value, replace
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters, memory_bytes
from engram.storage.bookkeeping.state import State, take_numbers
from engram.storage.content import compression
from engram.storage.content.messages import PreparedMessage, prepare_messages
from engram.storage.conversations.records import NewRecord, add_records
from engram.storage.memories.rows import add_memory, option_values
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction
from engram.storage.words.rebuild import clear_state

_SQL = load_queries("memories/memories.sql")


class _Batch(Value):
    """The drafts of one call, with their prepared texts."""

    drafts: Sequence[MemoryDraft]
    messages: Sequence[PreparedMessage]
    actor: str
    quota: Quota
    indexing: Indexing
    once: bool


class _New(NamedTuple):
    """A draft to store, and its position in the call."""

    position: int
    message: PreparedMessage
    id: MemoryId
    values: dict[str, Any]
    tags: tuple[str, ...]

    @property
    def stored_bytes(self) -> int:
        return self.message.content_bytes + memory_bytes(self.values, tags=self.tags)


class MemoryWriter(TenantStore):
    """Stores memories."""

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

        `indexing` covers the drafts in their order, as for messages. With `once`, a draft that has
        the content and project of a searched memory, or of an earlier draft, is not stored again:
        its place in the answer names that memory.

        Raises:
            NotFoundError: a draft names an episode that does not exist here.
            QuotaExceededError: they exceed the quota.
        """
        if not drafts:
            return ()
        tenant = self._tenant
        await compression.learn_awaited(tenant)
        prepared = await prepare_messages([draft.as_message() for draft in drafts], tenant.codec)
        batch = _Batch(
            drafts=drafts,
            messages=prepared.messages,
            actor=actor,
            quota=quota,
            indexing=indexing,
            once=once,
        )
        return await tenant.write(lambda tx: _store(tx, batch))


def _store(tx: Transaction, batch: _Batch) -> tuple[StoredMemory, ...]:
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    check_episodes(tx, [draft.episode_id for draft in batch.drafts])
    new, stored = _find_new(tx, batch, now)
    if new:
        _add(tx, batch, new, state=state, now=now)
    return stored


def check_episodes(tx: Transaction, episode_ids: Iterable[EpisodeId | None]) -> None:
    """Raise `NotFoundError` if one of the episodes does not exist here."""
    named = [episode_id for episode_id in episode_ids if episode_id is not None]
    missing = tx.execute(_SQL["missing_episodes"], ids=json.dumps(named)).fetchone()
    if missing is not None:
        raise NotFoundError("episode", missing[0])


def _find_new(
    tx: Transaction, batch: _Batch, now: int
) -> tuple[list[_New], tuple[StoredMemory, ...]]:
    """Return the drafts to store, and the memory that each draft of the call becomes."""
    ids: dict[tuple[bytes, str], MemoryId] = {}
    new: list[_New] = []
    stored: list[StoredMemory] = []
    for position, (draft, message) in enumerate(zip(batch.drafts, batch.messages, strict=True)):
        sha256 = message.values["sha256"]
        same = (sha256, draft.project)
        found = None
        if batch.once:
            found = ids.get(same) or _find_duplicate(tx, *same, now=now)
        memory_id = ids[same] = found or MemoryId(tx.tenant.ids.new("mem_"))
        stored.append(StoredMemory(id=memory_id, is_duplicate=found is not None))
        if found is None:
            values = {**option_values(draft), "sha256": sha256}
            new.append(_New(position, message, memory_id, values, draft.tags))
    return new, tuple(stored)


def _find_duplicate(tx: Transaction, sha256: bytes, project: str, *, now: int) -> MemoryId | None:
    row = tx.execute(_SQL["find_duplicate"], sha256=sha256, project=project, now=now).fetchone()
    return None if row is None else row[0]


def _add(tx: Transaction, batch: _Batch, new: Sequence[_New], *, state: State, now: int) -> None:
    size = {"messages": len(new), "content_bytes": sum(each.message.content_bytes for each in new)}
    stored_bytes = sum(each.stored_bytes for each in new)
    state.check_quota(batch.quota, messages=len(new), stored_bytes=stored_bytes)
    numbers = take_numbers(tx, "memory", len(new))
    records = [
        NewRecord(number, each.id, each.values["project"], each.tags, each.message)
        for number, each in zip(numbers, new, strict=True)
    ]
    indexing = indexing_of(batch.indexing, [each.position for each in new])
    add_records(tx, records, indexing=indexing, state=state, now=now)
    for each, record in zip(new, numbers, strict=True):
        add_memory(tx, **each.values, id=each.id, record=record, created_at=now, updated_at=now)
    grow_counters(
        tx,
        quota=batch.quota,
        chunks=len(new),
        memories=len(new),
        stored_bytes=stored_bytes,
        **size,
    )
    compression.enqueue_when_due(tx, state, **size, now=now)
    ids = [each.id for each in new]
    subject, details = (ids[0], None) if len(ids) == 1 else (None, {"memories": ids})
    audit.record(
        tx, now=now, actor=batch.actor, action="memory_store", subject=subject, details=details
    )


def indexing_of(indexing: Indexing, positions: Sequence[int]) -> Indexing:
    """Return the part of `indexing` that covers the drafts at `positions`."""
    vectors = indexing.vectors
    if vectors is None or len(positions) == len(vectors.messages):
        return indexing
    kept = tuple(vectors.messages[position] for position in positions)
    return replace(indexing, vectors=replace(vectors, messages=kept))
