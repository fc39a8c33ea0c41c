"""Change memories: a correction keeps the version before it, and replaces the searched text.

A change reads the memory and does its expensive work before it takes the write lock. If the memory has
changed by then, it starts over.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from engram.clock import from_microseconds
from engram.errors import ConflictError, NotFoundError
from engram.model.access import UNBOUNDED, Quota
from engram.model.conversation import MessageDraft
from engram.model.ids import ConversationId, DocumentId, MemoryId
from engram.model.memory import Change, Memory, MemoryChange, check_validity
from engram.model.row_keys import message_key
from engram.model.value import Value, replace
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters, measure_memory
from engram.storage.bookkeeping.holds import refuse_held
from engram.storage.bookkeeping.row_hashes import MEMORY, MEMORY_VERSION, changing
from engram.storage.bookkeeping.state import State, read_state, take_numbers
from engram.storage.content import compression
from engram.storage.content.messages import PreparedMessage, prepare_messages
from engram.storage.conversations.records import (
    NewRecord,
    add_records,
    move_record,
    read_words,
    remove_record,
    replace_tags,
)
from engram.storage.document_rows import add_record, queue_document, record_size, shrink_document
from engram.storage.memories.rows import (
    MemoryRow,
    fields_of,
    find_memory,
    memory_of,
    option_values,
    parse_times,
    read_row,
    thing_of,
)
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, TenantStore, Transaction
from engram.storage.vectors.rows import copy_vectors
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch
from engram.text.windows import window_count

_SQL = load_queries("memories/memories.sql")

T = TypeVar("T")


class ChangedMeanwhileError(Exception):
    """The memory was changed after it was read: the change has to start over."""


class Snapshot(Value):
    """A memory as it was read before the write lock was taken."""

    row: MemoryRow
    memory: Memory
    words: Sequence[MessageWords]
    """The words its record is indexed by, if they were requested."""


class _Correction(Value):
    """One correction, ready for its transaction."""

    before: Snapshot
    after: Memory
    message: PreparedMessage | None
    """The text of a new record; None where the present one stays."""
    actor: str
    quota: Quota
    indexing: Indexing

    @property
    def has_new_text(self) -> bool:
        return self.after.content != self.before.memory.content

    @property
    def has_new_time(self) -> bool:
        return self.after.valid_from != self.before.memory.valid_from


class MemoryEditor(TenantStore):
    """Corrects memories."""

    async def correct(
        self,
        memory_id: MemoryId,
        change: MemoryChange,
        *,
        project: str | None = None,
        actor: str,
        quota: Quota,
        indexing: Indexing = WORDS_ALONE,
    ) -> Memory:
        """Store the present version in the history and change the memory; return it.

        A change to what it already is makes no new version. A summary is dropped with the text it
        summarises. `indexing` covers the new content, if there is one.

        Raises:
            NotFoundError: there is no such memory, or it is not of `project`.
            ConflictError: it is immutable, or was forgotten.
            HeldError: it would leave its project while it is under a legal hold.
            InvalidRequestError: its validity would end before it begins.
            QuotaExceededError: the new content exceeds the quota.
        """
        tenant = self._tenant
        await compression.learn_awaited(tenant)

        async def attempt(before: Snapshot) -> Memory:
            if project not in (None, before.memory.project):
                raise NotFoundError("memory", memory_id)
            after = _corrected(before, change)
            if after == before.memory:
                return after
            correction = _Correction(
                before=before,
                after=after,
                message=await _prepare(tenant, before, after),
                actor=actor,
                quota=quota,
                indexing=indexing,
            )
            document_id = before.row.document_id
            if correction.has_new_time and document_id is not None:
                await _shrink(tenant, DocumentId(document_id))
            return await tenant.write(lambda tx: _correct(tx, correction))

        with_words = change.content is not None or change.valid_from is not None
        return await change_memory(tenant, memory_id, attempt, with_words=with_words)

    async def set_summary(
        self, memory_id: MemoryId, summary: str, *, actor: str, quota: Quota = UNBOUNDED
    ) -> None:
        """Store a summary with a memory; this makes no new version.

        Raises:
            NotFoundError: there is no such memory.
            QuotaExceededError: it exceeds the quota.
        """

        def write(tx: Transaction) -> None:
            number = find_memory(tx, memory_id)
            before = measure_memory(tx, number)
            with changing(tx, MEMORY, number=number):
                tx.execute(_SQL["put_summary"], number=number, summary=summary)
            grow_counters(tx, quota=quota, stored_bytes=measure_memory(tx, number) - before)
            now = tx.tenant.now()
            audit.record(tx, now=now, actor=actor, action="memory_summarize", subject=memory_id)

        await self._tenant.write(write)


async def change_memory(
    tenant: Tenant,
    memory_id: MemoryId,
    attempt: Callable[[Snapshot], Awaitable[T]],
    *,
    with_words: bool,
) -> T:
    """Return what `attempt` returns, tried again whenever the memory was changed meanwhile.

    Raises:
        NotFoundError: there is no such memory.
        StoreCorruptError: its text cannot be read.
    """
    read = partial(_read_snapshot, memory_id=memory_id, with_words=with_words)
    while True:
        try:
            return await attempt(await tenant.read(read))
        except ChangedMeanwhileError:
            continue


def _read_snapshot(tx: Transaction, *, memory_id: MemoryId, with_words: bool) -> Snapshot:
    row = read_row(tx, memory_id)
    stretch = stretch_of(tx, row) if with_words else None
    words = () if stretch is None else read_words(tx, stretch, skip_damaged=False)
    return Snapshot(row=row, memory=memory_of(tx, row), words=words)


def check_unchanged(tx: Transaction, before: Snapshot) -> None:
    """Return if a memory is still as it was read.

    Raises:
        ChangedMeanwhileError: it has changed.
        NotFoundError: it is gone.
    """
    row = tx.execute(_SQL["get_version"], number=before.row.number).fetchone()
    if row is None:
        raise NotFoundError("memory", before.row.id)
    if tuple(row) != (before.row.version, before.row.project):
        raise ChangedMeanwhileError


def change_time(tx: Transaction, row: MemoryRow) -> int:
    """Return the time of a change: now, or that of the change before where the clock was set back."""
    return max(tx.tenant.now(), row.updated_at)


def refuse_immutable(row: MemoryRow) -> None:
    """Raise `ConflictError` if a memory is immutable."""
    if row.immutable:
        message = f"memory {row.id} is immutable: it can be neither corrected nor forgotten"
        raise ConflictError(message)


def stretch_of(tx: Transaction, row: MemoryRow) -> Stretch | None:
    """Return the extent of a memory's record, if it has one."""
    if row.record is None:
        return None
    messages = 1 if row.document_id is None else record_size(tx, row.record)[0]
    return Stretch(row.record, ConversationId(row.id), messages)


def remove_searched(
    tx: Transaction,
    row: MemoryRow,
    *,
    known: Sequence[MessageWords],
    state: State,
    skip_damaged: bool,
) -> None:
    """Remove the record of a memory, and subtract it from the counters except those of bytes."""
    stretch = stretch_of(tx, row)
    if stretch is None:
        return
    remove_record(tx, stretch, known=known, state=state, skip_damaged=skip_damaged)
    grow_counters(
        tx,
        messages=-1,
        chunks=-window_count(stretch.last_sequence),
        memories=-1,
        documents=0 if row.document_id is None else -1,
    )


def index_again(
    tx: Transaction,
    row: MemoryRow,
    *,
    tags: Sequence[str],
    known: Sequence[MessageWords],
    skip_damaged: bool,
    now: int,
) -> int | None:
    """Remove the chunks of a document and queue it for indexing; return its new record."""
    if row.record is None:
        return None
    _, stored_bytes = record_size(tx, row.record)
    grow_counters(tx, content_bytes=-stored_bytes)
    with changing(tx, MEMORY, number=row.number):
        tx.execute(_SQL["put_record"], number=row.number, record=None)
        remove_searched(tx, row, known=known, state=read_state(tx), skip_damaged=skip_damaged)
        record = add_record(tx, row.id, project=row.project, tags=tags, now=now)
        queue_document(tx, row.document_id)
        tx.execute(_SQL["put_record"], number=row.number, record=record)
    return record


def save_version(
    tx: Transaction, row: MemoryRow, *, change: Change, actor: str, now: int, with_text: bool
) -> None:
    """Store the present version of a memory; `with_text` if its record is about to lose the text."""
    values = {
        "memory": row.number,
        "version": row.version,
        "change": change,
        "actor": actor,
        "recorded_at": row.updated_at,
        "ended_at": now,
        "fields": json.dumps(fields_of(row), ensure_ascii=False, separators=(",", ":")),
        "sha256": row.sha256,
    }
    row_hash = MEMORY_VERSION.hash(tx.tenant.id, values)
    tx.execute(_SQL["add_version"], **values, row_hash=row_hash)
    if with_text:
        tx.execute(_SQL["keep_text"], number=row.number, version=row.version, record=row.record)


async def prepare_text(tenant: Tenant, memory: Memory) -> PreparedMessage:
    """Return the text of a memory as the message of a record."""
    draft = MessageDraft(role="document", content=memory.content, occurred_at=memory.valid_from)
    return (await prepare_messages([draft], tenant.codec)).messages[0]


def _corrected(before: Snapshot, change: MemoryChange) -> Memory:
    """Return the memory with the change, or refuse it."""
    refuse_immutable(before.row)
    if not before.memory.is_searched:
        raise ConflictError(f"memory {before.memory.id} was forgotten: restore it to correct it")
    after = replace(before.memory, **change.given)
    if before.row.document_id is not None and after.content != before.memory.content:
        message = (
            f"memory {before.memory.id} is a document, whose content stays: store the new text as"
            " another document, connect it as one that supersedes this, and forget this one"
        )
        raise ConflictError(message)
    check_validity(after.valid_from, after.valid_to)
    return after


async def _prepare(tenant: Tenant, before: Snapshot, after: Memory) -> PreparedMessage | None:
    """Return the text of a new record; None where the present record stays."""
    was = before.memory
    is_same = (was.content, was.valid_from) == (after.content, after.valid_from)
    if is_same or before.row.document_id is not None:
        return None
    return await prepare_text(tenant, after)


async def _shrink(tenant: Tenant, document_id: DocumentId) -> None:
    """Make a long document short before its chunks are replaced."""
    if await shrink_document(tenant, document_id):
        raise ChangedMeanwhileError


def _correct(tx: Transaction, correction: _Correction) -> Memory:
    with changing(tx, MEMORY, number=correction.before.row.number):
        return _change(tx, correction)


def _change(tx: Transaction, correction: _Correction) -> Memory:
    row, after = correction.before.row, correction.after
    now = change_time(tx, row)
    state = clear_state(tx, now=now)
    check_unchanged(tx, correction.before)
    if after.project != row.project:
        refuse_held(tx, thing_of(row))
    bytes_before = measure_memory(tx, row.number)
    save_version(
        tx,
        row,
        change="update",
        actor=correction.actor,
        now=now,
        with_text=correction.has_new_text,
    )
    record, sha256, content_bytes = row.record, row.sha256, 0
    if correction.message is not None:
        record = _replace_record(tx, correction, correction.message, state=state, now=now)
        sha256 = correction.message.values["sha256"]
        if correction.has_new_text:
            content_bytes = correction.message.content_bytes
    elif correction.has_new_time and row.document_id is not None:
        # Each chunk of a document has the time it is valid from.
        words = correction.before.words
        moved = row._replace(project=after.project)
        record = index_again(tx, moved, tags=after.tags, known=words, skip_damaged=False, now=now)
    elif row.record is not None:
        _relabel(tx, row.record, correction)
    values = {**option_values(after), "sha256": sha256}
    tx.execute(_SQL["change_memory"], number=row.number, record=record, now=now, **values)
    grow_counters(
        tx,
        quota=correction.quota,
        content_bytes=content_bytes,
        stored_bytes=measure_memory(tx, row.number, since=row.version) - bytes_before,
    )
    _audit(tx, correction, now)
    return replace(
        after,
        **parse_times(values),
        content_hash=sha256.hex(),
        summary=None if correction.has_new_text else after.summary,
        version=row.version + 1,
        updated_at=from_microseconds(now),
    )


def _relabel(tx: Transaction, record: int, correction: _Correction) -> None:
    """Give a record that stays the tags and the project that the memory has now."""
    before, after = correction.before.memory, correction.after
    if after.tags != before.tags:
        replace_tags(tx, record, after.tags)
    if after.project != before.project:
        move_record(tx, record, after.project)


def _replace_record(
    tx: Transaction, correction: _Correction, message: PreparedMessage, *, state: State, now: int
) -> int:
    """Replace the record by one of the new text, or of the same text at another time.

    Returns the number of the new record.
    """
    row, has_new_text = correction.before.row, correction.has_new_text
    if has_new_text:
        size = {"messages": 0, "content_bytes": message.content_bytes}
        state.check_quota(correction.quota, messages=0, stored_bytes=message.content_bytes)
        compression.enqueue_when_due(tx, state, **size, now=now)
    stretch = stretch_of(tx, row)
    if stretch is None:
        raise ConflictError(f"memory {row.id} has no text that is searched")
    number = take_numbers(tx, "memory", 1).start
    if not has_new_text:
        copy_vectors(tx, message_key(stretch.conversation, 1), message_key(number, 1))
    tx.execute(_SQL["put_record"], number=row.number, record=None)
    remove_record(tx, stretch, known=correction.before.words, state=state, skip_damaged=False)
    add_records(
        tx,
        [NewRecord(number, row.id, correction.after.project, correction.after.tags, message)],
        indexing=correction.indexing if has_new_text else None,
        state=state,
        now=now if has_new_text else row.stored_at or now,
    )
    return number


def _audit(tx: Transaction, correction: _Correction, now: int) -> None:
    before, after = correction.before.memory, correction.after
    changed = [
        name for name in Memory.__struct_fields__ if getattr(before, name) != getattr(after, name)
    ]
    audit.record(
        tx,
        now=now,
        actor=correction.actor,
        action="memory_correct",
        subject=after.id,
        details={"version": before.version + 1, "fields": changed},
    )
