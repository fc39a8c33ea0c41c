"""Forget memories and restore them: out of the search, and in again as they were."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from engram.clock import to_microseconds
from engram.errors import StoreCorruptError
from engram.model.access import Quota
from engram.model.conversation import MessageDraft
from engram.model.ids import MemoryId
from engram.model.memory import Change, Memory
from engram.model.vectors import Indexing
from engram.storage.bodies.records import add_record, record_size, rest, wait_again
from engram.storage.bodies.rows import find_owned
from engram.storage.bodies.shrinking import shrink_document
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.numbering import take_numbers
from engram.storage.bookkeeping.state import State
from engram.storage.bookkeeping.stored_size import measure_memory
from engram.storage.content.dictionaries import learn_awaited
from engram.storage.content.preparation import PreparedMessage, prepare_messages
from engram.storage.conversations.records import NewRecord, add_records
from engram.storage.memories.changing import (
    Seen,
    change_memory,
    check_unmoved,
    keep_version,
    refuse_immutable,
    remove_searched,
)
from engram.storage.memories.rows import read_memories
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.words.rebuild import clear_state

_SQL = load_queries("memories/memories.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forgetting:
    tenant: Tenant
    reason: str | None
    change: Change
    actor: str
    quota: Quota
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restoring:
    tenant: Tenant
    actor: str
    quota: Quota
    indexing: Indexing


async def forget(
    tenant: Tenant,
    memory_id: MemoryId,
    *,
    reason: str | None,
    change: Change,
    actor: str,
    quota: Quota,
    now: datetime,
) -> Memory:
    """End a memory's validity and take it out of the search; its text stays in the history."""
    forgetting = _Forgetting(
        tenant=tenant,
        reason=reason,
        change=change,
        actor=actor,
        quota=quota,
        now=to_microseconds(now),
    )
    for document_id in await tenant.read(lambda tx: find_owned(tx, [memory_id], immutable=False)):
        await shrink_document(tenant, document_id)
    return await change_memory(
        tenant, memory_id, partial(_forget, forgetting=forgetting), with_words=True
    )


async def restore(
    tenant: Tenant, memory_id: MemoryId, *, actor: str, quota: Quota, indexing: Indexing
) -> Memory:
    """Bring a forgotten memory back as it was before."""
    await learn_awaited(tenant)
    restoring = _Restoring(tenant=tenant, actor=actor, quota=quota, indexing=indexing)
    return await change_memory(
        tenant, memory_id, partial(_restore, restoring=restoring), with_words=False
    )


async def _forget(seen: Seen, *, forgetting: _Forgetting) -> Memory:
    if not seen.memory.is_searched:
        return seen.memory
    refuse_immutable(seen.row)
    work = partial(_transact_forget, seen=seen, forgetting=forgetting)
    return await forgetting.tenant.write(work)


def _transact_forget(tx: Transaction, *, seen: Seen, forgetting: _Forgetting) -> Memory:
    row, now = seen.row, forgetting.now
    clear_state(tx, now=tx.tenant.now())
    check_unmoved(tx, seen)
    before = measure_memory(tx, row.number)
    keep_version(
        tx,
        row,
        change=forgetting.change,
        actor=forgetting.actor,
        now=now,
        with_text=row.document_id is None,
    )
    tx.execute(
        _SQL["forget_memory"],
        number=row.number,
        valid_to=now if row.valid_to is None else min(row.valid_to, now),
        reason=forgetting.reason,
        now=now,
    )
    if row.document_id is not None and row.record is not None:
        _, stored_bytes = record_size(tx, row.record)
        grow_counters(tx, content_bytes=-stored_bytes)
        rest(tx, row.document_id)
    # The version has the bytes of another memory now.
    remove_searched(tx, row, known=seen.known, skip_damaged=False)
    after = measure_memory(tx, row.number, since=row.version)
    grow_counters(tx, quota=forgetting.quota, stored_bytes=after - before)
    return _finish(tx, row.number, actor=forgetting.actor, action="memory_forget")


async def _restore(seen: Seen, *, restoring: _Restoring) -> Memory:
    if seen.memory.is_searched:
        return seen.memory
    message = None
    if seen.row.document_id is None:
        draft = MessageDraft(
            role="document", content=seen.memory.content, occurred_at=seen.memory.valid_from
        )
        (message,) = (await prepare_messages([draft], restoring.tenant.codec)).messages
    work = partial(_transact_restore, seen=seen, restoring=restoring, message=message)
    return await restoring.tenant.write(work)


def _transact_restore(
    tx: Transaction, *, seen: Seen, restoring: _Restoring, message: PreparedMessage | None
) -> Memory:
    """Store a memory's text as a new record, or let its document wait for its index."""
    row = seen.row
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    check_unmoved(tx, seen)
    # The version before may have the text, and gives it back.
    since = row.version - 1
    bytes_before = measure_memory(tx, row.number, since=since)
    before = _fields_before(tx, seen)
    keep_version(tx, row, change="update", actor=restoring.actor, now=now, with_text=False)
    if message is None:
        number = add_record(tx, row.id, project=row.project, tags=seen.memory.tags, now=now)
        wait_again(tx, row.document_id)
    else:
        number = _add_text(tx, seen, restoring, message, state=state, now=before["stored_at"])
    tx.execute(
        _SQL["restore_memory"],
        number=row.number,
        record=number,
        valid_to=before["valid_to"],
        reason=before["reason"],
        now=now,
    )
    added = measure_memory(tx, row.number, since=since) - bytes_before
    grow_counters(tx, quota=restoring.quota, stored_bytes=added)
    return _finish(tx, row.number, actor=restoring.actor, action="memory_restore")


def _add_text(
    tx: Transaction,
    seen: Seen,
    restoring: _Restoring,
    message: PreparedMessage,
    *,
    state: State,
    now: int,
) -> int:
    """Take the text from the version that has it, and search it again; return the record."""
    row = seen.row
    tx.execute(_SQL["release_text"], number=row.number, version=row.version - 1)
    number = take_numbers(tx, "memory", 1).start
    record = NewRecord(
        number=number, id=row.id, project=row.project, tags=seen.memory.tags, message=message
    )
    add_records(tx, [record], indexing=restoring.indexing, state=state, now=now)
    grow_counters(tx, messages=1, chunks=1, memories=1)
    return number


def _fields_before(tx: Transaction, seen: Seen) -> dict[str, Any]:
    """Return what the version before a memory was forgotten has kept."""
    row = tx.execute(
        _SQL["get_version_fields"], number=seen.row.number, version=seen.row.version - 1
    ).fetchone()
    if row is None:
        raise StoreCorruptError(f"memory {seen.row.id} has lost the version it would go back to")
    return json.loads(row[0])


def _finish(tx: Transaction, number: int, *, actor: str, action: str) -> Memory:
    memory = read_memories(tx, [number])[number]
    audit.record(
        tx,
        now=tx.tenant.now(),
        actor=actor,
        action=action,
        subject=memory.id,
        details={"version": memory.version},
    )
    return memory
