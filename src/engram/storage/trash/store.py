"""Move conversations and memories to the trash, restore them, or remove them for good.

To trash is to delete, with the rows kept in the trash: what reads, searches and counts cannot find them,
whatever statement it uses. To restore puts the same rows back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from engram.clock import from_microseconds
from engram.errors import ConflictError, NotFoundError, StoreCorruptError
from engram.model.conversation import DeletionReceipt
from engram.model.ids import ConversationId, DocumentId, MemoryId
from engram.model.memory import Tombstone
from engram.model.trash import (
    Restored,
    TrashEmptied,
    TrashEntry,
    TrashKind,
    TrashPage,
    TrashQuery,
)
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters, read_counters
from engram.storage.bookkeeping.holds import refuse_held
from engram.storage.bookkeeping.row_hashes import CONVERSATION, MEMORY, prove
from engram.storage.content.pieces import delete_pieces
from engram.storage.conversations.records import despite_damage, find_conversation, read_words
from engram.storage.conversations.writing import take_out as take_out_conversation
from engram.storage.document_rows import find_row
from engram.storage.memories.removal import (
    WordsByRecord,
    add_tombstone,
    begin_removal,
    read_words_of,
    shrink_owned,
)
from engram.storage.memories.removal import take_out as take_out_memory
from engram.storage.memories.rows import MemoryRow, memory_of, read_row
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction
from engram.storage.trash.entries import (
    Entry,
    add_entry,
    complete_entry,
    find_entry,
    get_entry,
    list_entries,
)
from engram.storage.trash.restoring import put_back, read_kept_words
from engram.storage.trash.rows import MEMORY_TABLES, RECORD_TABLES, VECTOR_TABLES, add_parts, gather
from engram.text.excerpts import brief

_SQL = load_queries("trash/trash.sql")
_MICROSECOND = timedelta(microseconds=1)
_END_OF_TIME = 2**62

PURGED_AT_ONCE = 20
"""Entries removed in one transaction: their rows are removed without being read."""


class _Trashing(NamedTuple):
    """How something goes to the trash."""

    actor: str
    keep: timedelta
    skip_damaged: bool

    def until(self, now: int) -> int:
        """Return when what goes now will expire."""
        return now + self.keep // _MICROSECOND


class TrashStore(TenantStore):
    """The trash of one organisation."""

    async def trash_conversation(
        self, conversation_id: ConversationId, *, actor: str, keep: timedelta
    ) -> DeletionReceipt:
        """Move a conversation to the trash for a while, and write its audit row.

        Raises:
            NotFoundError: there is no such conversation here, or it is in the trash.
            StoreCorruptError: its row is not as it was stored.
        """
        tenant = self._tenant

        async def trash(*, skip_damaged: bool) -> DeletionReceipt:
            def read(tx: Transaction) -> list[MessageWords]:
                stretch = find_conversation(tx, conversation_id).stretch
                return read_words(tx, stretch, skip_damaged=skip_damaged)

            known = await tenant.read(read)
            how = _Trashing(actor, keep, skip_damaged)
            return await tenant.write(
                lambda tx: _trash_conversation(tx, conversation_id, how, known)
            )

        return await despite_damage(tenant, trash)

    async def trash_memory(
        self, memory_id: MemoryId, *, actor: str, keep: timedelta, force: bool = False
    ) -> TrashEntry:
        """Move a memory with its document to the trash for a while; again, nothing changes.

        Raises:
            NotFoundError: there is no such memory here.
            ConflictError: it is immutable, and not `force`.
            StoreCorruptError: its row is not as it was stored.
        """
        tenant = self._tenant

        async def trash(*, skip_damaged: bool) -> TrashEntry:
            await shrink_owned(tenant, memory_id, immutable=force, skip_damaged=skip_damaged)

            def read(tx: Transaction) -> WordsByRecord:
                try:
                    row = read_row(tx, memory_id)
                except NotFoundError:
                    return {}  # It may be in the trash already.
                return read_words_of(tx, row, skip_damaged=skip_damaged)

            words = await tenant.read(read)
            how = _Trashing(actor, keep, skip_damaged)
            work = partial(_trash_memory, how=how, words=words, force=force)
            return await tenant.write(lambda tx: work(tx, memory_id))

        return await despite_damage(tenant, trash)

    async def list(self, query: TrashQuery) -> TrashPage:
        """Return a page of the trash, what was deleted last first."""
        return await self._tenant.read(lambda tx: list_entries(tx, query))

    async def get(self, entry_ids: Sequence[str]) -> dict[str, TrashEntry]:
        """Return those entries that the trash has, by their ids."""

        def read(tx: Transaction) -> dict[str, TrashEntry]:
            found = (get_entry(tx, each) for each in entry_ids)
            return {entry.id: entry.shown() for entry in found if entry is not None}

        return await self._tenant.read(read)

    async def restore(self, entry_id: str, *, actor: str) -> Restored:
        """Put a conversation or memory back as it was; one that is not in the trash stays as it is.

        It has the same ids, sequences, versions and relations, and is found by the same words and
        vectors; messages whose embedder was replaced meanwhile wait for new ones, and a document is
        indexed again.

        Raises:
            NotFoundError: the trash has no such entry, and there is nothing with that id.
            ConflictError: something else has its id by now.
            StoreCorruptError: what the trash has of it is damaged.
        """

        def read(tx: Transaction) -> list[MessageWords]:
            entry = get_entry(tx, entry_id)
            return [] if entry is None else read_kept_words(tx, entry)

        known = await self._tenant.read(read)
        return await self._tenant.write(lambda tx: _restore(tx, entry_id, known=known, actor=actor))

    async def purge(self, entry_id: str, *, actor: str) -> tuple[TrashEntry, str]:
        """Remove an entry for good; return it, and the id of the audit row.

        Raises:
            NotFoundError: the trash has no such entry.
        """

        def write(tx: Transaction) -> tuple[TrashEntry, str]:
            entry = find_entry(tx, entry_id)
            _purge(tx, entry, actor=actor)
            receipt = _audit_purge(tx, [entry], subject=entry_id, actor=actor)
            return entry.shown(), receipt

        return await self._tenant.write(write)

    async def purge_memory(self, memory_id: MemoryId, *, actor: str) -> Tombstone:
        """Remove a memory from the trash for good; return its tombstone.

        Raises:
            NotFoundError: the trash has no such memory.
        """

        def write(tx: Transaction) -> Tombstone:
            entry = find_entry(tx, memory_id)
            tombstone = _purge(tx, entry, actor=actor)
            if tombstone is None:
                raise NotFoundError("memory", memory_id)
            _audit_purge(tx, [entry], subject=memory_id, actor=actor)
            return tombstone

        return await self._tenant.write(write)

    async def empty(self, *, actor: str, limit: int = PURGED_AT_ONCE) -> TrashEmptied:
        """Remove some entries for good, those that would expire first; none if there are none."""
        return await self._empty(lambda _: _END_OF_TIME, actor=actor, limit=limit)

    async def purge_expired(self, *, actor: str, limit: int = PURGED_AT_ONCE) -> TrashEmptied:
        """Remove some entries for good that have expired; none if there are none."""
        return await self._empty(lambda tx: tx.tenant.now(), actor=actor, limit=limit)

    async def _empty(
        self, until: Callable[[Transaction], int], *, actor: str, limit: int
    ) -> TrashEmptied:
        """Remove some entries that expire up to a time, looking before the write lock is taken."""

        def find(tx: Transaction) -> list[str]:
            rows = tx.execute(_SQL["find_expired"], now=until(tx), limit=limit)
            return [entry_id for (entry_id,) in rows.fetchall()]

        def write(tx: Transaction) -> TrashEmptied:
            entries = [find_entry(tx, entry_id) for entry_id in find(tx)]
            for entry in entries:
                _purge(tx, entry, actor=actor)
            if entries:
                _audit_purge(tx, entries, subject=None, actor=actor)
            return _emptied(entries)

        return await self._tenant.write(write) if await self._tenant.read(find) else _emptied([])


def _trash_conversation(
    tx: Transaction,
    conversation_id: ConversationId,
    how: _Trashing,
    known: Sequence[MessageWords],
) -> DeletionReceipt:
    found = find_conversation(tx, conversation_id)
    number, messages = found.stretch.conversation, found.stretch.last_sequence
    prove(tx, CONVERSATION, number=number)
    now = tx.tenant.now()
    title, project, agent = tx.execute(_SQL["describe_conversation"], number=number).fetchone()
    entry = add_entry(
        tx,
        Entry(
            id=conversation_id,
            kind="conversation",
            number=number,
            record=number,
            document=None,
            project=project,
            source=agent,
            title=title or "",
            sha256=None,
            messages=messages,
            stored_bytes=0,
            trashed_at=now,
            expires_at=how.until(now),
            actor=how.actor,
        ),
    )
    tables = (*RECORD_TABLES, *VECTOR_TABLES)
    add_parts(tx, entry.id, gather(tx, tables, record=number, messages=messages))
    gone = take_out_conversation(
        tx, found, known=known, actor=how.actor, skip_damaged=how.skip_damaged
    )
    entry = complete_entry(tx, entry, stored_bytes=gone.stored_bytes)
    return DeletionReceipt(
        messages=messages,
        chunks=gone.chunks,
        vectors=gone.vectors,
        receipt=_audit(tx, entry, actor=how.actor, action="trash"),
        restorable_until=from_microseconds(entry.expires_at),
        conversation_id=conversation_id,
    )


def _trash_memory(
    tx: Transaction, memory_id: MemoryId, *, how: _Trashing, words: WordsByRecord, force: bool
) -> TrashEntry:
    if (trashed := get_entry(tx, memory_id)) is not None:
        return trashed.shown()
    row = read_row(tx, memory_id)
    if row.immutable and not force:
        message = f"memory {memory_id} is immutable: only a forced removal takes it away"
        raise ConflictError(message)
    prove(tx, MEMORY, number=row.number)
    entry = add_entry(tx, _entry_of_memory(tx, row, how))
    text = gather(tx, (*RECORD_TABLES, *VECTOR_TABLES), record=entry.record, messages=1)
    others = gather(tx, MEMORY_TABLES, memory=row.number, document=entry.document)
    add_parts(tx, entry.id, chain(text, others))
    removal = begin_removal(tx, how.actor, skip_damaged=how.skip_damaged)
    stored_bytes = take_out_memory(tx, row, removal, words, with_pieces=False)
    entry = complete_entry(tx, entry, stored_bytes=stored_bytes)
    _audit(tx, entry, actor=how.actor, action="trash")
    return entry.shown()


def _entry_of_memory(tx: Transaction, row: MemoryRow, how: _Trashing) -> Entry:
    document_id, now = row.document_id, tx.tenant.now()
    document = None if document_id is None else find_row(tx, DocumentId(document_id)).number
    return Entry(
        id=row.id,
        kind="memory",
        number=row.number,
        record=row.record if document is None else None,
        document=document,
        project=row.project,
        source=row.source,
        title=_title_of(tx, row),
        sha256=row.sha256,
        messages=0 if row.record is None else 1,
        stored_bytes=0,
        trashed_at=now,
        expires_at=how.until(now),
        actor=how.actor,
    )


def _title_of(tx: Transaction, row: MemoryRow) -> str:
    """Return how the text of a memory begins, without what PostgreSQL has no text for."""
    try:
        return brief(memory_of(tx, row).content).replace("\0", "\ufffd")
    except StoreCorruptError:
        return ""


def _restore(
    tx: Transaction, entry_id: str, *, known: Sequence[MessageWords], actor: str
) -> Restored:
    entry = get_entry(tx, entry_id)
    if entry is None:
        return _present(tx, entry_id)
    put_back(tx, entry, known=known)
    tx.execute(_SQL["delete_entry"], id=entry.id)
    _audit(tx, entry, actor=actor, action="trash_restore")
    return _restored(tx, entry.id, entry.kind, entry.messages)


def _present(tx: Transaction, entry_id: str) -> Restored:
    """Return what a restoration that was done before has left, or raise `NotFoundError`."""
    row = tx.execute(_SQL["find_present"], id=entry_id).fetchone()
    if row is None:
        raise NotFoundError("entry of the trash", entry_id)
    return _restored(tx, entry_id, *row)


def _restored(tx: Transaction, entry_id: str, kind: TrashKind, messages: int) -> Restored:
    pending = read_counters(tx).pending
    return Restored(id=entry_id, kind=kind, messages=messages, pending=pending)


def _purge(tx: Transaction, entry: Entry, *, actor: str) -> Tombstone | None:
    """Remove an entry and the pieces of its document; a tombstone stays of a memory."""
    refuse_held(tx, entry.held)
    tombstone = None
    if entry.sha256 is not None:
        now = max(tx.tenant.now(), entry.trashed_at)
        memory_id = MemoryId(entry.id)
        tombstone = add_tombstone(tx, memory_id, sha256=entry.sha256, actor=actor, now=now)
    if entry.document is not None:
        delete_pieces(tx, entry.document)
    tx.execute(_SQL["delete_entry"], id=entry.id)
    grow_counters(tx, stored_bytes=-entry.stored_bytes, trashed_messages=-entry.messages)
    return tombstone


def _audit(tx: Transaction, entry: Entry, *, actor: str, action: str) -> str:
    return audit.record(
        tx,
        now=tx.tenant.now(),
        actor=actor,
        action=action,
        subject=entry.id,
        details={"messages": entry.messages},
    )


def _audit_purge(
    tx: Transaction, entries: Sequence[Entry], *, subject: str | None, actor: str
) -> str:
    """Add the audit row of a purge: of one entry, or of several with their ids."""
    details: dict[str, Any] = {"messages": sum(entry.messages for entry in entries)}
    if subject is None:
        details["ids"] = [entry.id for entry in entries]
    now = tx.tenant.now()
    return audit.record(
        tx, now=now, actor=actor, action="trash_purge", subject=subject, details=details
    )


def _emptied(entries: Sequence[Entry]) -> TrashEmptied:
    stored_bytes = sum(entry.stored_bytes for entry in entries)
    return TrashEmptied(removed=len(entries), stored_bytes=stored_bytes)
