"""Take memories out of the search and bring them back, or remove them for good.

A forgotten memory keeps its versions and can be restored. Of a purged one only a tombstone stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from engram.clock import from_microseconds, to_microseconds
from engram.errors import ConflictError, NotFoundError, StoreCorruptError
from engram.model.access import UNBOUNDED, Quota
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import Change, Memory, Tombstone
from engram.model.value import Value, replace
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import (
    grow_counters,
    measure,
    measure_memory,
)
from engram.storage.bookkeeping.holds import Thing, has_holds, refuse_held
from engram.storage.bookkeeping.row_hashes import MEMORY, TOMBSTONE, changing
from engram.storage.bookkeeping.state import State, take_numbers
from engram.storage.content import compression
from engram.storage.content.messages import PreparedMessage
from engram.storage.conversations.records import NewRecord, add_records, despite_damage, read_words
from engram.storage.document_rows import (
    add_record,
    find_owned,
    queue_document,
    record_size,
    remove_document,
    rest_document,
    shrink_document,
)
from engram.storage.memories.changing import (
    Snapshot,
    change_memory,
    change_time,
    check_unchanged,
    prepare_text,
    refuse_immutable,
    remove_searched,
    save_version,
    stretch_of,
)
from engram.storage.memories.rows import MemoryRow, read_row, read_rows, thing_of
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, TenantStore, Transaction
from engram.storage.words.rebuild import BATCH_CHARACTERS, clear_state

_SQL = load_queries("memories/memories.sql")
_BATCH_MEMORIES = 100
"""Removed in one transaction: a whole project may be too long to hold the write lock for."""

WordsByRecord = Mapping[int, Sequence[MessageWords]]
"""Words analysed before the transaction; another record is analysed when it is removed."""


@dataclass(slots=True)
class _Batch:
    """Memories to remove next, with the words analysed before the transaction."""

    numbers: list[int] = field(default_factory=list[int])
    words: dict[int, list[MessageWords]] = field(default_factory=dict[int, list[MessageWords]])


class Removal(Value):
    """How memories are removed."""

    actor: str
    skip_damaged: bool
    now: int
    state: State


class MemoryRemover(TenantStore):
    """Forgets, restores and purges memories."""

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
        """End a memory's validity and take it out of the search; its text stays in the history.

        Forgotten again, nothing changes.

        Raises:
            NotFoundError: there is no such memory.
            ConflictError: it is immutable.
            QuotaExceededError: the version that is kept exceeds the quota.
        """
        tenant = self._tenant
        await shrink_owned(tenant, memory_id)

        async def attempt(before: Snapshot) -> Memory:
            if not before.memory.is_searched:
                return before.memory
            refuse_immutable(before.row)
            work = partial(_forget, before=before, reason=reason, change=change, now=now)
            return await tenant.write(
                lambda tx: _sealed(tx, before, partial(work, actor=actor, quota=quota))
            )

        return await change_memory(tenant, memory_id, attempt, with_words=True)

    async def restore(
        self,
        memory_id: MemoryId,
        *,
        actor: str,
        quota: Quota = UNBOUNDED,
        indexing: Indexing = WORDS_ALONE,
    ) -> Memory:
        """Undo a `forget`: the memory is valid and searched again as it was before.

        `indexing` covers its content. A memory that is not forgotten stays as it is. That it
        was forgotten stays in the history, as a version that an `update` ended.

        Raises:
            NotFoundError: there is no such memory.
            QuotaExceededError: the version that is kept exceeds the quota.
        """
        tenant = self._tenant
        await compression.learn_awaited(tenant)

        async def attempt(before: Snapshot) -> Memory:
            if before.memory.is_searched:
                return before.memory
            is_document = before.row.document_id is not None
            message = None if is_document else await prepare_text(tenant, before.memory)
            work = partial(_restore, before=before, message=message, indexing=indexing)
            return await tenant.write(
                lambda tx: _sealed(tx, before, partial(work, actor=actor, quota=quota))
            )

        return await change_memory(tenant, memory_id, attempt, with_words=False)

    async def purge(self, memory_id: MemoryId, *, actor: str, force: bool = False) -> Tombstone:
        """Remove a memory with its versions, relations, feedback, words and vectors.

        A tombstone stays. Purged again, the first tombstone is the answer.

        Raises:
            NotFoundError: there never was such a memory here.
            ConflictError: it is immutable, and not `force`.
        """
        work = partial(self._purge, memory_id, actor=actor, force=force)
        return await despite_damage(self._tenant, work)

    async def delete_project(self, project: str, *, actor: str) -> int:
        """Remove every memory and episode of a project, immutable ones too; return how many memories.

        A tombstone stays of each memory. Conversations of the project stay, and so does what is
        stored in it meanwhile. Large projects take several transactions.

        Raises:
            HeldError: one of them is under a legal hold; then all stay.
        """

        def find_last(tx: Transaction) -> int:
            _refuse_held_in(tx, project)
            return tx.execute(_SQL["last_of_project"], project=project).fetchone()[0] or 0

        upto = await self._tenant.read(find_last)
        work = partial(self._delete_batch, project, upto=upto, actor=actor)
        total, is_done = 0, False
        while not is_done:
            removed, is_done = await despite_damage(self._tenant, work)
            total += removed
        return total

    async def _purge(
        self, memory_id: MemoryId, *, actor: str, force: bool, skip_damaged: bool
    ) -> Tombstone:
        tenant = self._tenant
        await shrink_owned(tenant, memory_id, immutable=force, skip_damaged=skip_damaged)

        def read(tx: Transaction) -> WordsByRecord:
            try:
                row = read_row(tx, memory_id)
            except NotFoundError:
                return {}  # It may have been removed: the transaction looks for its tombstone.
            return read_words_of(tx, row, skip_damaged=skip_damaged)

        words = await tenant.read(read)

        def write(tx: Transaction) -> Tombstone:
            if (found := find_tombstone(tx, memory_id)) is not None:
                return found
            row = read_row(tx, memory_id)
            if row.immutable and not force:
                message = f"memory {memory_id} is immutable: only a forced removal takes it away"
                raise ConflictError(message)
            removal = begin_removal(tx, actor, skip_damaged=skip_damaged)
            tombstone = _remove(tx, row, removal, words)
            now = removal.now
            audit.record(tx, now=now, actor=actor, action="memory_remove", subject=memory_id)
            return tombstone

        return await tenant.write(write)

    async def _delete_batch(
        self, project: str, *, upto: int, actor: str, skip_damaged: bool
    ) -> tuple[int, bool]:
        """Remove some memories; return how many, and whether these were the last."""
        tenant = self._tenant
        for document_id in await tenant.read(lambda tx: _batch_documents(tx, project, upto)):
            await shrink_document(tenant, document_id, skip_damaged=skip_damaged)
        batch = await tenant.read(
            lambda tx: _read_batch(tx, project, upto, skip_damaged=skip_damaged)
        )

        def write(tx: Transaction) -> tuple[int, bool]:
            removal = begin_removal(tx, actor, skip_damaged=skip_damaged)
            removed = 0
            for number in batch.numbers:
                # One at a time: their texts need not be in memory together.
                for row in read_rows(tx, [number]):
                    _remove(tx, row, removal, batch.words)
                    removed += 1
            is_done = not _first_numbers(tx, project, upto, limit=1)
            episodes = delete_episodes(tx, project) if is_done else 0
            if removed or episodes:
                audit.record(
                    tx,
                    now=removal.now,
                    actor=actor,
                    action="memory_delete_project",
                    subject=project,
                    details={"memories": removed, "episodes": episodes},
                )
            return removed, is_done

        return await tenant.write(write)


async def shrink_owned(
    tenant: Tenant, memory_id: MemoryId, *, immutable: bool = False, skip_damaged: bool = False
) -> None:
    """Make a long document short before its removal, unless that will be refused.

    Raises:
        HeldError: it is under a legal hold.
    """

    def find(tx: Transaction) -> list[DocumentId]:
        owned = find_owned(tx, [memory_id], immutable=immutable)
        if owned:
            refuse_held(tx, thing_of(read_row(tx, memory_id)))
        return owned

    owned = await tenant.read(find)
    for document_id in owned:
        await shrink_document(tenant, document_id, skip_damaged=skip_damaged)


def _sealed(tx: Transaction, before: Snapshot, change: Callable[[Transaction], Memory]) -> Memory:
    with changing(tx, MEMORY, number=before.row.number):
        return change(tx)


def _forget(
    tx: Transaction,
    *,
    before: Snapshot,
    reason: str | None,
    change: Change,
    now: datetime,
    actor: str,
    quota: Quota,
) -> Memory:
    row = before.row
    at = max(to_microseconds(now), row.updated_at)  # a clock that was set back
    state = clear_state(tx, now=tx.tenant.now())
    check_unchanged(tx, before)
    bytes_before = measure_memory(tx, row.number)
    is_document = row.document_id is not None
    save_version(tx, row, change=change, actor=actor, now=at, with_text=not is_document)
    valid_to = at if row.valid_to is None else min(row.valid_to, at)
    values = {"record": None, "valid_to": valid_to, "reason": reason}
    tx.execute(_SQL["set_searched"], number=row.number, now=at, **values)
    if is_document and row.record is not None:
        _, stored_bytes = record_size(tx, row.record)
        grow_counters(tx, content_bytes=-stored_bytes)
        rest_document(tx, row.document_id)
    # The bytes of the text stay on the counters: the version has it now.
    remove_searched(tx, row, known=before.words, state=state, skip_damaged=False)
    added = measure_memory(tx, row.number, since=row.version) - bytes_before
    grow_counters(tx, quota=quota, stored_bytes=added)
    _audit_change(tx, row, actor=actor, action="memory_forget")
    return replace(
        before.memory,
        is_searched=False,
        valid_to=from_microseconds(valid_to),
        reason=reason,
        version=row.version + 1,
        updated_at=from_microseconds(at),
    )


def _restore(
    tx: Transaction,
    *,
    before: Snapshot,
    message: PreparedMessage | None,
    indexing: Indexing,
    actor: str,
    quota: Quota,
) -> Memory:
    """Store a memory's text as a new record, or queue its document for indexing."""
    row, tags = before.row, before.memory.tags
    now = change_time(tx, row)
    state = clear_state(tx, now=now)
    check_unchanged(tx, before)
    # The version before may have the text, and gives it back.
    since = row.version - 1
    bytes_before = measure_memory(tx, row.number, since=since)
    version = tx.execute(_SQL["get_version_fields"], number=row.number, version=since).fetchone()
    if version is None:
        raise StoreCorruptError(f"memory {row.id} has lost the version it would go back to")
    fields = json.loads(version[0])
    save_version(tx, row, change="update", actor=actor, now=now, with_text=False)
    if message is None:
        number = add_record(tx, row.id, project=row.project, tags=tags, now=now)
        queue_document(tx, row.document_id)
    else:
        tx.execute(_SQL["release_text"], number=row.number, version=since)
        number = take_numbers(tx, "memory", 1).start
        record = NewRecord(number, row.id, row.project, tags, message)
        add_records(tx, [record], indexing=indexing, state=state, now=fields["stored_at"])
        grow_counters(tx, messages=1, chunks=1, memories=1)
    valid_to, reason = fields["valid_to"], fields["reason"]
    values = {"record": number, "valid_to": valid_to, "reason": reason}
    tx.execute(_SQL["set_searched"], number=row.number, now=now, **values)
    added = measure_memory(tx, row.number, since=since) - bytes_before
    grow_counters(tx, quota=quota, stored_bytes=added)
    _audit_change(tx, row, actor=actor, action="memory_restore")
    return replace(
        before.memory,
        is_searched=True,
        valid_to=None if valid_to is None else from_microseconds(valid_to),
        reason=reason,
        version=row.version + 1,
        updated_at=from_microseconds(now),
    )


def _audit_change(tx: Transaction, row: MemoryRow, *, actor: str, action: str) -> None:
    audit.record(
        tx,
        now=tx.tenant.now(),
        actor=actor,
        action=action,
        subject=row.id,
        details={"version": row.version + 1},
    )


def begin_removal(tx: Transaction, actor: str, *, skip_damaged: bool) -> Removal:
    """Return how memories are removed in a transaction."""
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    return Removal(actor=actor, skip_damaged=skip_damaged, now=now, state=state)


def _remove(tx: Transaction, row: MemoryRow, removal: Removal, words: WordsByRecord) -> Tombstone:
    """Replace a memory by a tombstone."""
    now = max(removal.now, row.updated_at)
    tombstone = add_tombstone(tx, row.id, sha256=row.sha256, actor=removal.actor, now=now)
    take_out(tx, row, removal, words)
    return tombstone


def add_tombstone(
    tx: Transaction, memory_id: MemoryId, *, sha256: bytes, actor: str, now: int
) -> Tombstone:
    """Record that a memory is gone for good."""
    values = {"id": memory_id, "sha256": sha256, "removed_at": now, "actor": actor}
    row_hash = TOMBSTONE.hash(tx.tenant.id, values)
    tx.execute(_SQL["add_tombstone"], **values, row_hash=row_hash)
    return _tombstone(memory_id, sha256, now, actor)


def take_out(
    tx: Transaction,
    row: MemoryRow,
    removal: Removal,
    words: WordsByRecord,
    *,
    with_pieces: bool = True,
) -> int:
    """Remove a memory from every table, index and counter; return its stored size.

    Without `with_pieces` those of its document stay.

    Raises:
        HeldError: it is under a legal hold.
    """
    refuse_held(tx, thing_of(row))
    (content_bytes,) = tx.execute(
        _SQL["content_bytes_of"], number=row.number, record=row.record
    ).fetchone()
    stored_bytes = measure_memory(tx, row.number, since=0)
    stored_bytes += measure(tx, "ties", number=row.number)
    tx.execute(_SQL["delete_memory"], number=row.number)
    remove_searched(
        tx,
        row,
        known=words.get(row.record or 0, ()),
        state=removal.state,
        skip_damaged=removal.skip_damaged,
    )
    grow_counters(tx, content_bytes=-content_bytes, stored_bytes=-stored_bytes)
    if row.document_id is not None:
        stored_bytes += remove_document(tx, row.document_id, with_pieces=with_pieces)
    return stored_bytes


def find_tombstone(tx: Transaction, memory_id: MemoryId) -> Tombstone | None:
    """Return what is left of a memory that was removed for good; None if it never was."""
    row = tx.execute(_SQL["find_tombstone"], id=memory_id).fetchone()
    return None if row is None else _tombstone(*row)


def _tombstone(memory_id: MemoryId, sha256: bytes, removed_at: int, actor: str) -> Tombstone:
    return Tombstone(
        id=memory_id,
        content_hash=sha256.hex(),
        removed_at=from_microseconds(removed_at),
        actor=actor,
    )


def _refuse_held_in(tx: Transaction, project: str) -> None:
    if not has_holds(tx):
        return
    rows = tx.execute(_SQL["things_of_project"], project=project).fetchall()
    for memory_id, source, is_document in rows:
        refuse_held(tx, Thing(memory_id, "document" if is_document else "note", project, source))


def delete_episodes(tx: Transaction, project: str) -> int:
    """Remove the episodes of a project; return how many."""
    stored_bytes = measure(tx, "episodes", project=project)
    for (number,) in tx.execute(_SQL["in_episodes"], project=project).fetchall():
        with changing(tx, MEMORY, number=number):
            tx.execute(_SQL["leave_episode"], number=number)
    removed = tx.execute(_SQL["delete_episodes"], project=project).rowcount
    grow_counters(tx, stored_bytes=-stored_bytes)
    return removed


def read_words_of(
    tx: Transaction, row: MemoryRow, *, skip_damaged: bool
) -> dict[int, list[MessageWords]]:
    """Return the words to remove the record of a memory by; empty if it has none."""
    stretch = stretch_of(tx, row)
    if stretch is None:
        return {}
    return {stretch.conversation: read_words(tx, stretch, skip_damaged=skip_damaged)}


def _batch_documents(tx: Transaction, project: str, upto: int) -> list[DocumentId]:
    numbers = _first_numbers(tx, project, upto, limit=_BATCH_MEMORIES)
    rows = tx.execute(_SQL["documents_of"], numbers=json.dumps(numbers))
    return [document_id for (document_id,) in rows.fetchall()]


def _read_batch(tx: Transaction, project: str, upto: int, *, skip_damaged: bool) -> _Batch:
    """Analyse the next memories of a project, as many as one transaction should remove."""
    batch = _Batch()
    characters_left = BATCH_CHARACTERS
    for number in _first_numbers(tx, project, upto, limit=_BATCH_MEMORIES):
        if characters_left <= 0:
            break
        (row,) = read_rows(tx, [number])
        found = read_words_of(tx, row, skip_damaged=skip_damaged)
        batch.numbers.append(number)
        batch.words |= found
        characters_left -= sum(item.characters for words in found.values() for item in words)
    return batch


def _first_numbers(tx: Transaction, project: str, upto: int, *, limit: int) -> list[int]:
    rows = tx.execute(_SQL["first_of_project"], project=project, upto=upto, limit=limit)
    return [number for (number,) in rows.fetchall()]
