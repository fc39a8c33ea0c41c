"""What every change of a memory does: look before it locks, keep what was, and say so."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from engram.errors import ConflictError, NotFoundError
from engram.model.ids import ConversationId, MemoryId
from engram.model.memory import Change, Memory
from engram.storage.sqlite import audit
from engram.storage.sqlite.memory_rows import (
    MemoryRow,
    fields_of,
    find_memory,
    memory_of,
    read_row,
)
from engram.storage.sqlite.queries import load_queries
from engram.storage.sqlite.record_rows import read_words
from engram.storage.sqlite.tenant import Tenant
from engram.storage.sqlite.word_rows import MessageWords, Stretch

_SQL = load_queries("memories.sql")

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
    see = partial(_see, tenant=tenant, memory_id=memory_id, with_words=with_words)
    while True:
        try:
            return await attempt(await tenant.file.read(see))
        except MovedOnError:
            continue


def check_unmoved(connection: sqlite3.Connection, tenant: Tenant, seen: Seen) -> None:
    """Return if a memory is still as it was read.

    Raises:
        MovedOnError: it has changed.
        NotFoundError: it is gone.
    """
    row = tenant.execute(connection, _SQL["get_version"], number=seen.row.number).fetchone()
    if row is None:
        raise NotFoundError("memory", seen.row.id)
    if row[0] != seen.row.version:
        raise MovedOnError


def refuse_immutable(row: MemoryRow) -> None:
    """Refuse to change a memory that must stay as it is."""
    if row.immutable:
        message = f"memory {row.id} is immutable: it can be neither corrected nor forgotten"
        raise ConflictError(message)


def stretch_of(row: MemoryRow) -> Stretch | None:
    """Return the record of a memory, if it has one."""
    return None if row.record is None else Stretch(row.record, ConversationId(row.id), 1)


def keep_version(
    connection: sqlite3.Connection,
    tenant: Tenant,
    row: MemoryRow,
    *,
    change: Change,
    actor: str,
    now: int,
    with_text: bool,
) -> None:
    """Write down what a memory is before it changes; `with_text` if its record will not have it."""
    tenant.execute(
        connection,
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
        tenant.execute(
            connection,
            _SQL["keep_text"],
            number=row.number,
            version=row.version,
            record=row.record,
        )


async def set_summary(tenant: Tenant, memory_id: MemoryId, summary: str, *, actor: str) -> None:
    """Keep a summary beside a memory; it is no new version."""

    def transact(connection: sqlite3.Connection) -> None:
        number = find_memory(connection, tenant, memory_id)
        tenant.execute(connection, _SQL["put_summary"], number=number, summary=summary)
        audit.record(
            connection,
            tenant,
            now=tenant.now(),
            actor=actor,
            action="memory_summarize",
            subject=memory_id,
        )

    await tenant.file.write(transact)


def _see(
    connection: sqlite3.Connection, *, tenant: Tenant, memory_id: MemoryId, with_words: bool
) -> Seen:
    row = read_row(connection, tenant, memory_id)
    memory = memory_of(connection, tenant, row)
    stretch = stretch_of(row) if with_words else None
    known = () if stretch is None else read_words(connection, tenant, stretch, skip_damaged=False)
    return Seen(row=row, memory=memory, known=known)
