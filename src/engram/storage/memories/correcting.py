"""Correct memories: the version before is kept, and a new text is searched in the place of the old."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial

from engram.errors import ConflictError
from engram.model.access import Quota
from engram.model.conversation import MessageDraft
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import Memory, MemoryChange, check_validity
from engram.model.row_keys import message_key
from engram.model.vectors import Indexing
from engram.storage.bodies.shrinking import shrink_document
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.numbering import take_numbers
from engram.storage.bookkeeping.state import State
from engram.storage.bookkeeping.stored_size import measure_memory
from engram.storage.content import training
from engram.storage.content.dictionaries import learn_awaited
from engram.storage.content.preparation import PreparedMessage, prepare_messages
from engram.storage.conversations.records import NewRecord, add_records, remove_record, replace_tags
from engram.storage.memories.changing import (
    MovedOnError,
    Seen,
    change_memory,
    check_unmoved,
    index_again,
    keep_version,
    refuse_immutable,
    stretch_of,
)
from engram.storage.memories.rows import microseconds, read_memories
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.rows import copy_vectors
from engram.storage.words.rebuild import clear_state

_SQL = load_queries("memories/memories.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Correction:
    """One correction, ready for its transaction."""

    seen: Seen
    after: Memory
    message: PreparedMessage | None
    """The record to come; None where the present one stays."""
    actor: str
    quota: Quota
    indexing: Indexing

    @property
    def has_new_text(self) -> bool:
        return self.after.content != self.seen.memory.content


async def correct(
    tenant: Tenant,
    memory_id: MemoryId,
    change: MemoryChange,
    *,
    actor: str,
    quota: Quota,
    indexing: Indexing,
) -> Memory:
    """Keep the present version and change the memory; what is as asked already stays."""
    await learn_awaited(tenant)
    attempt = partial(
        _attempt, tenant=tenant, change=change, actor=actor, quota=quota, indexing=indexing
    )
    may_replace = change.content is not None or change.valid_from is not None
    return await change_memory(tenant, memory_id, attempt, with_words=may_replace)


async def _attempt(
    seen: Seen,
    *,
    tenant: Tenant,
    change: MemoryChange,
    actor: str,
    quota: Quota,
    indexing: Indexing,
) -> Memory:
    after = _corrected(seen, change)
    if after == seen.memory:
        return after
    if seen.row.document_id is not None and after.valid_from != seen.memory.valid_from:
        document_id = DocumentId(seen.row.document_id)
        if await shrink_document(tenant, document_id):
            raise MovedOnError
    correction = _Correction(
        seen=seen,
        after=after,
        message=await _prepare(tenant, seen, after),
        actor=actor,
        quota=quota,
        indexing=indexing,
    )
    return await tenant.write(partial(_transact, correction=correction))


def _corrected(seen: Seen, change: MemoryChange) -> Memory:
    """Return what the memory shall be, unless it must stay as it is."""
    refuse_immutable(seen.row)
    if not seen.memory.is_searched:
        raise ConflictError(f"memory {seen.memory.id} was forgotten: restore it to correct it")
    after = replace(seen.memory, **change.given)
    if seen.row.document_id is not None and after.content != seen.memory.content:
        message = (
            f"memory {seen.memory.id} is a document, whose content stays: store the new text as"
            " another document, connect it as one that supersedes this, and forget this one"
        )
        raise ConflictError(message)
    check_validity(after.valid_from, after.valid_to)
    return after


async def _prepare(tenant: Tenant, seen: Seen, after: Memory) -> PreparedMessage | None:
    """Return the message of a new record; None where the present one says the same."""
    before = seen.memory
    is_same = (before.content, before.valid_from) == (after.content, after.valid_from)
    if is_same or seen.row.document_id is not None:
        return None
    draft = MessageDraft(role="document", content=after.content, occurred_at=after.valid_from)
    (message,) = (await prepare_messages([draft], tenant.codec)).messages
    return message


def _transact(tx: Transaction, *, correction: _Correction) -> Memory:
    seen, after = correction.seen, correction.after
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    check_unmoved(tx, seen)
    before = measure_memory(tx, seen.row.number)
    keep_version(
        tx,
        seen.row,
        change="update",
        actor=correction.actor,
        now=now,
        with_text=correction.has_new_text,
    )
    if correction.message is not None:
        _replace_record(tx, correction, correction.message, state=state, now=now)
    elif seen.row.document_id is not None and after.valid_from != seen.memory.valid_from:
        _index_again(tx, correction, now)
    elif after.tags != seen.memory.tags and seen.row.record is not None:
        replace_tags(tx, seen.row.record, after.tags)
    _put_fields(tx, correction, now)
    after_bytes = measure_memory(tx, seen.row.number, since=seen.row.version)
    grow_counters(tx, quota=correction.quota, stored_bytes=after_bytes - before)
    _record(tx, correction, now)
    return read_memories(tx, [seen.row.number])[seen.row.number]


def _replace_record(
    tx: Transaction, correction: _Correction, message: PreparedMessage, *, state: State, now: int
) -> None:
    """Remove the record and store one of the new text, or of the same at another moment."""
    row, after = correction.seen.row, correction.after
    if correction.has_new_text:
        _count_text(tx, correction, message, state=state, now=now)
    stretch = stretch_of(tx, row)
    if stretch is None:
        raise ConflictError(f"memory {row.id} has no text that is searched")
    number = take_numbers(tx, "memory", 1).start
    if not correction.has_new_text:
        copy_vectors(tx, message_key(stretch.conversation, 1), message_key(number, 1))
    tx.execute(_SQL["put_record"], number=row.number, record=None)
    remove_record(tx, stretch, known=correction.seen.known, skip_damaged=False)
    record = NewRecord(
        number=number, id=row.id, project=row.project, tags=after.tags, message=message
    )
    add_records(
        tx,
        [record],
        indexing=correction.indexing if correction.has_new_text else None,
        state=state,
        now=now if correction.has_new_text else row.stored_at or now,
    )
    tx.execute(_SQL["put_record"], number=row.number, record=number)


def _index_again(tx: Transaction, correction: _Correction, now: int) -> None:
    """Let a document wait for its index: each of its chunks is found by the day it is of."""
    index_again(
        tx,
        correction.seen.row,
        tags=correction.after.tags,
        known=correction.seen.known,
        skip_damaged=False,
        now=now,
    )


def _count_text(
    tx: Transaction, correction: _Correction, message: PreparedMessage, *, state: State, now: int
) -> None:
    """Count the new text beside the old one, which is kept."""
    added = message.content_bytes
    state.check_quota(correction.quota, messages=0, stored_bytes=added)
    grow_counters(tx, content_bytes=added)
    training.enqueue_when_due(tx, state, messages=0, content_bytes=added, now=now)


def _put_fields(tx: Transaction, correction: _Correction, now: int) -> None:
    after, message = correction.after, correction.message
    row = correction.seen.row
    tx.execute(
        _SQL["change_memory"],
        number=row.number,
        memory_type=after.memory_type,
        category=after.category,
        importance=after.importance,
        tags=json.dumps(after.tags, ensure_ascii=False),
        pattern_confidence=after.pattern_confidence,
        valid_from=microseconds(after.valid_from),
        valid_to=microseconds(after.valid_to),
        expires_at=microseconds(after.expires_at),
        sha256=row.sha256 if message is None else message.values["sha256"],
        now=now,
    )


def _record(tx: Transaction, correction: _Correction, now: int) -> None:
    before, after = correction.seen.memory, correction.after
    changed = [name for name in Memory.__slots__ if getattr(before, name) != getattr(after, name)]
    audit.record(
        tx,
        now=now,
        actor=correction.actor,
        action="memory_correct",
        subject=after.id,
        details={"version": before.version + 1, "fields": changed},
    )
