"""What every change of a memory does: look before it locks, keep what was, and say so."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from engram.errors import ConflictError, NotFoundError
from engram.model.access import Quota
from engram.model.ids import ConversationId, MemoryId
from engram.model.memory import Change, Memory
from engram.storage.bodies.records import add_record, record_size, wait_again
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.stored_size import measure_memory
from engram.storage.conversations.records import read_words, remove_record
from engram.storage.memories.rows import MemoryRow, fields_of, find_memory, memory_of, read_row
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.words.rows import Stretch
from engram.text.windows import window_count

_SQL = load_queries("memories/memories.sql")

T = TypeVar("T")


class MovedOnError(Exception):
    """The memory was changed since it was read: what was made of it is no longer of use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A memory as it was read, and what was made of it, before the write lock is held."""

    row: MemoryRow
    memory: Memory
    known: Sequence[MessageWords]
    """The words its record is found by, if they were asked for."""


async def change_memory(
    tenant: Tenant,
    memory_id: MemoryId,
    attempt: Callable[[Seen], Awaitable[T]],
    *,
    with_words: bool,
) -> T:
    """Return what `attempt` makes of a memory, tried again whenever another was faster.

    Raises:
        NotFoundError: there is no such memory.
        StoreCorruptError: its text cannot be read.
    """
    see = partial(_see, memory_id=memory_id, with_words=with_words)
    while True:
        try:
            return await attempt(await tenant.read(see))
        except MovedOnError:
            continue


def check_unmoved(tx: Transaction, seen: Seen) -> None:
    """Return if a memory is still as it was read.

    Raises:
        MovedOnError: it has changed.
        NotFoundError: it is gone.
    """
    row = tx.execute(_SQL["get_version"], number=seen.row.number).fetchone()
    if row is None:
        raise NotFoundError("memory", seen.row.id)
    if row[0] != seen.row.version:
        raise MovedOnError


def refuse_immutable(row: MemoryRow) -> None:
    """Refuse to change a memory that must stay as it is."""
    if row.immutable:
        message = f"memory {row.id} is immutable: it can be neither corrected nor forgotten"
        raise ConflictError(message)


def stretch_of(tx: Transaction, row: MemoryRow) -> Stretch | None:
    """Return the record of a memory, if it has one."""
    if row.record is None:
        return None
    messages = 1
    if row.document_id is not None:
        messages, _ = record_size(tx, row.record)
    return Stretch(row.record, ConversationId(row.id), messages)


def remove_searched(
    tx: Transaction, row: MemoryRow, *, known: Sequence[MessageWords], skip_damaged: bool
) -> None:
    """Remove the record that a memory had, and take it off the counters, but for its bytes."""
    stretch = stretch_of(tx, row)
    if stretch is None:
        return
    remove_record(tx, stretch, known=known, skip_damaged=skip_damaged)
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
) -> None:
    """Take the chunks of a document out of the search, and let it wait for its index."""
    if row.record is None:
        return
    _, stored_bytes = record_size(tx, row.record)
    grow_counters(tx, content_bytes=-stored_bytes)
    tx.execute(_SQL["put_record"], number=row.number, record=None)
    remove_searched(tx, row, known=known, skip_damaged=skip_damaged)
    record = add_record(tx, row.id, project=row.project, tags=tags, now=now)
    wait_again(tx, row.document_id)
    tx.execute(_SQL["put_record"], number=row.number, record=record)


def keep_version(
    tx: Transaction, row: MemoryRow, *, change: Change, actor: str, now: int, with_text: bool
) -> None:
    """Write down what a memory is before it changes; `with_text` if its record will not have it."""
    tx.execute(
        _SQL["add_version"],
        number=row.number,
        version=row.version,
        change=change,
        actor=actor,
        recorded_at=row.updated_at,
        now=now,
        fields=json.dumps(fields_of(row), ensure_ascii=False, separators=(",", ":")),
        sha256=row.sha256,
    )
    if with_text:
        tx.execute(_SQL["keep_text"], number=row.number, version=row.version, record=row.record)


async def set_summary(
    tenant: Tenant, memory_id: MemoryId, summary: str, *, actor: str, quota: Quota
) -> None:
    """Keep a summary beside a memory; it is no new version."""

    def transact(tx: Transaction) -> None:
        number = find_memory(tx, memory_id)
        before = measure_memory(tx, number)
        tx.execute(_SQL["put_summary"], number=number, summary=summary)
        added = measure_memory(tx, number) - before
        grow_counters(tx, quota=quota, stored_bytes=added)
        audit.record(
            tx, now=tenant.now(), actor=actor, action="memory_summarize", subject=memory_id
        )

    await tenant.write(transact)


def _see(tx: Transaction, *, memory_id: MemoryId, with_words: bool) -> Seen:
    row = read_row(tx, memory_id)
    memory = memory_of(tx, row)
    stretch = stretch_of(tx, row) if with_words else None
    known = () if stretch is None else read_words(tx, stretch, skip_damaged=False)
    return Seen(row=row, memory=memory, known=known)
