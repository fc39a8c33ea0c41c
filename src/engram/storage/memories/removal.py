"""Remove memories for good: of each a tombstone stays, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from engram.clock import from_microseconds
from engram.errors import ConflictError, NotFoundError
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import Tombstone
from engram.storage.bodies.records import remove_document
from engram.storage.bodies.rows import find_owned
from engram.storage.bodies.shrinking import shrink_document
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.stored_size import measure_episodes, measure_removed
from engram.storage.conversations.records import despite_damage, read_words
from engram.storage.memories.changing import remove_searched, stretch_of
from engram.storage.memories.rows import MemoryRow, read_row, read_rows
from engram.storage.postings.index import MessageWords
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant
from engram.storage.words.rebuild import BATCH_CHARACTERS, clear_state

_SQL = load_queries("memories/memories.sql")
_BATCH_MEMORIES = 100
"""Removed in one transaction: a whole project may be too long to hold the write lock for."""

Known = Mapping[int, Sequence[MessageWords]]
"""Words by the records they are of; another record is analysed when it is removed."""


@dataclass(slots=True)
class _Batch:
    """Memories to remove next, with the words that were analysed ahead."""

    numbers: list[int]
    known: dict[int, list[MessageWords]] = field(default_factory=dict[int, list[MessageWords]])


async def purge(tenant: Tenant, memory_id: MemoryId, *, actor: str, force: bool) -> Tombstone:
    """Remove a memory; of one that was removed before, return the first tombstone."""
    return await despite_damage(
        tenant, partial(_purge, tenant, memory_id, actor=actor, force=force)
    )


async def delete_project(tenant: Tenant, project: str, *, actor: str) -> int:
    """Remove the memories a project has now, some to a transaction, and its episodes with the last."""
    upto = await tenant.database.read(partial(_find_last, tenant=tenant, project=project))
    total = 0
    while True:
        removed, is_done = await despite_damage(
            tenant, partial(_delete_batch, tenant, project, upto=upto, actor=actor)
        )
        total += removed
        if is_done:
            return total


async def _purge(
    tenant: Tenant, memory_id: MemoryId, *, actor: str, force: bool, skip_damaged: bool
) -> Tombstone:
    await _shrink(tenant, memory_id, force=force, skip_damaged=skip_damaged)
    known = await tenant.database.read(
        partial(_known_of, tenant=tenant, memory_id=memory_id, skip_damaged=skip_damaged)
    )

    def transact(connection: Connection) -> Tombstone:
        if (found := _find_tombstone(connection, tenant, memory_id)) is not None:
            return found
        row = read_row(connection, tenant, memory_id)
        if row.immutable and not force:
            message = f"memory {memory_id} is immutable: only a forced removal takes it away"
            raise ConflictError(message)
        now = tenant.now()
        clear_state(connection, tenant, now=now)
        tombstone = _remove(
            connection, tenant, row, known=known, actor=actor, now=now, skip_damaged=skip_damaged
        )
        audit.record(
            connection, tenant, now=now, actor=actor, action="memory_remove", subject=memory_id
        )
        return tombstone

    return await tenant.database.write(transact)


async def _shrink(tenant: Tenant, memory_id: MemoryId, *, force: bool, skip_damaged: bool) -> None:
    """Make a long document short enough to be removed at once, unless that will be refused."""
    owned = await tenant.database.read(
        lambda connection: find_owned(connection, tenant, [memory_id], immutable=force)
    )
    for document_id in owned:
        await shrink_document(tenant, document_id, skip_damaged=skip_damaged)


def _known_of(
    connection: Connection, *, tenant: Tenant, memory_id: MemoryId, skip_damaged: bool
) -> Known:
    try:
        row = read_row(connection, tenant, memory_id)
    except NotFoundError:
        return {}  # It may have been removed: the transaction looks for its tombstone.
    return _read_words(connection, tenant, row, skip_damaged=skip_damaged)


def _read_words(
    connection: Connection, tenant: Tenant, row: MemoryRow, *, skip_damaged: bool
) -> dict[int, list[MessageWords]]:
    stretch = stretch_of(connection, tenant, row)
    if stretch is None:
        return {}
    words = read_words(connection, tenant, stretch, skip_damaged=skip_damaged)
    return {stretch.conversation: words}


def _remove(
    connection: Connection,
    tenant: Tenant,
    row: MemoryRow,
    *,
    known: Known,
    actor: str,
    now: int,
    skip_damaged: bool,
) -> Tombstone:
    """Put a tombstone in the place of a memory."""
    (content_bytes,) = tenant.execute(
        connection, _SQL["content_bytes_of"], number=row.number, record=row.record
    ).fetchone()
    stored_bytes = measure_removed(connection, tenant, row.number)
    tenant.execute(
        connection, _SQL["add_tombstone"], id=row.id, sha256=row.sha256, now=now, actor=actor
    )
    tenant.execute(connection, _SQL["delete_memory"], number=row.number)
    remove_searched(
        connection,
        tenant,
        row,
        known=known.get(row.record or 0, ()),
        skip_damaged=skip_damaged,
    )
    grow_counters(connection, tenant, content_bytes=-content_bytes, stored_bytes=-stored_bytes)
    if row.document_id is not None:
        remove_document(connection, tenant, row.document_id)
    return Tombstone(
        id=row.id,
        content_hash=row.sha256.hex(),
        removed_at=from_microseconds(now),
        actor=actor,
    )


def _find_tombstone(
    connection: Connection, tenant: Tenant, memory_id: MemoryId
) -> Tombstone | None:
    row = tenant.execute(connection, _SQL["find_tombstone"], id=memory_id).fetchone()
    if row is None:
        return None
    _, sha256, removed_at, actor = row
    return Tombstone(
        id=memory_id,
        content_hash=sha256.hex(),
        removed_at=from_microseconds(removed_at),
        actor=actor,
    )


def _find_last(connection: Connection, *, tenant: Tenant, project: str) -> int:
    """Return the number of a project's last memory: those stored from now on stay."""
    row = tenant.execute(connection, _SQL["last_of_project"], project=project).fetchone()
    return row[0] or 0


async def _delete_batch(
    tenant: Tenant, project: str, *, upto: int, actor: str, skip_damaged: bool
) -> tuple[int, bool]:
    """Remove some memories; return how many, and whether these were the last."""
    documents = await tenant.database.read(
        lambda connection: _documents_of_batch(connection, tenant, project, upto=upto)
    )
    for document_id in documents:
        await shrink_document(tenant, document_id, skip_damaged=skip_damaged)
    batch = await tenant.database.read(
        partial(_read_batch, tenant=tenant, project=project, upto=upto, skip_damaged=skip_damaged)
    )

    def transact(connection: Connection) -> tuple[int, bool]:
        now = tenant.now()
        clear_state(connection, tenant, now=now)
        removed = 0
        for number in batch.numbers:
            # One at a time: their texts need not be in memory together.
            for row in read_rows(connection, tenant, [number]):
                _remove(
                    connection,
                    tenant,
                    row,
                    known=batch.known,
                    actor=actor,
                    now=now,
                    skip_damaged=skip_damaged,
                )
                removed += 1
        is_done = not _first_numbers(connection, tenant, project, upto=upto, limit=1)
        episodes = 0
        if is_done:
            episodes = _delete_episodes(connection, tenant, project)
        if removed or episodes:
            audit.record(
                connection,
                tenant,
                now=now,
                actor=actor,
                action="memory_delete_project",
                subject=project,
                details={"memories": removed, "episodes": episodes},
            )
        return removed, is_done

    return await tenant.database.write(transact)


def _delete_episodes(connection: Connection, tenant: Tenant, project: str) -> int:
    """Remove the episodes of a project; return how many."""
    stored_bytes = measure_episodes(connection, tenant, project)
    tenant.execute(connection, _SQL["leave_episodes"], project=project)
    removed = tenant.execute(connection, _SQL["delete_episodes"], project=project).rowcount
    grow_counters(connection, tenant, stored_bytes=-stored_bytes)
    return removed


def _documents_of_batch(
    connection: Connection, tenant: Tenant, project: str, *, upto: int
) -> list[DocumentId]:
    numbers = _first_numbers(connection, tenant, project, upto=upto, limit=_BATCH_MEMORIES)
    rows = tenant.execute(connection, _SQL["documents_of"], numbers=json.dumps(numbers))
    return [document_id for (document_id,) in rows.fetchall()]


def _read_batch(
    connection: Connection,
    *,
    tenant: Tenant,
    project: str,
    upto: int,
    skip_damaged: bool,
) -> _Batch:
    """Analyse the next memories of a project, as many as one transaction should remove."""
    batch = _Batch([])
    characters_left = BATCH_CHARACTERS
    for number in _first_numbers(connection, tenant, project, upto=upto, limit=_BATCH_MEMORIES):
        if characters_left <= 0:
            break
        (row,) = read_rows(connection, tenant, [number])
        known = _read_words(connection, tenant, row, skip_damaged=skip_damaged)
        batch.numbers.append(number)
        batch.known |= known
        characters_left -= sum(item.characters for words in known.values() for item in words)
    return batch


def _first_numbers(
    connection: Connection, tenant: Tenant, project: str, *, upto: int, limit: int
) -> list[int]:
    rows = tenant.execute(
        connection, _SQL["first_of_project"], project=project, upto=upto, limit=limit
    )
    return [number for (number,) in rows.fetchall()]
