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
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
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
    upto = await tenant.read(partial(_find_last, project=project))
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
    known = await tenant.read(partial(_known_of, memory_id=memory_id, skip_damaged=skip_damaged))

    def transact(tx: Transaction) -> Tombstone:
        if (found := _find_tombstone(tx, memory_id)) is not None:
            return found
        row = read_row(tx, memory_id)
        if row.immutable and not force:
            message = f"memory {memory_id} is immutable: only a forced removal takes it away"
            raise ConflictError(message)
        now = tenant.now()
        clear_state(tx, now=now)
        tombstone = _remove(tx, row, known=known, actor=actor, now=now, skip_damaged=skip_damaged)
        audit.record(tx, now=now, actor=actor, action="memory_remove", subject=memory_id)
        return tombstone

    return await tenant.write(transact)


async def _shrink(tenant: Tenant, memory_id: MemoryId, *, force: bool, skip_damaged: bool) -> None:
    """Make a long document short enough to be removed at once, unless that will be refused."""
    owned = await tenant.read(lambda tx: find_owned(tx, [memory_id], immutable=force))
    for document_id in owned:
        await shrink_document(tenant, document_id, skip_damaged=skip_damaged)


def _known_of(tx: Transaction, *, memory_id: MemoryId, skip_damaged: bool) -> Known:
    try:
        row = read_row(tx, memory_id)
    except NotFoundError:
        return {}  # It may have been removed: the transaction looks for its tombstone.
    return _read_words(tx, row, skip_damaged=skip_damaged)


def _read_words(
    tx: Transaction, row: MemoryRow, *, skip_damaged: bool
) -> dict[int, list[MessageWords]]:
    stretch = stretch_of(tx, row)
    if stretch is None:
        return {}
    words = read_words(tx, stretch, skip_damaged=skip_damaged)
    return {stretch.conversation: words}


def _remove(
    tx: Transaction, row: MemoryRow, *, known: Known, actor: str, now: int, skip_damaged: bool
) -> Tombstone:
    """Put a tombstone in the place of a memory."""
    (content_bytes,) = tx.execute(
        _SQL["content_bytes_of"], number=row.number, record=row.record
    ).fetchone()
    stored_bytes = measure_removed(tx, row.number)
    tx.execute(_SQL["add_tombstone"], id=row.id, sha256=row.sha256, now=now, actor=actor)
    tx.execute(_SQL["delete_memory"], number=row.number)
    remove_searched(tx, row, known=known.get(row.record or 0, ()), skip_damaged=skip_damaged)
    grow_counters(tx, content_bytes=-content_bytes, stored_bytes=-stored_bytes)
    if row.document_id is not None:
        remove_document(tx, row.document_id)
    return Tombstone(
        id=row.id, content_hash=row.sha256.hex(), removed_at=from_microseconds(now), actor=actor
    )


def _find_tombstone(tx: Transaction, memory_id: MemoryId) -> Tombstone | None:
    row = tx.execute(_SQL["find_tombstone"], id=memory_id).fetchone()
    if row is None:
        return None
    _, sha256, removed_at, actor = row
    return Tombstone(
        id=memory_id,
        content_hash=sha256.hex(),
        removed_at=from_microseconds(removed_at),
        actor=actor,
    )


def _find_last(tx: Transaction, *, project: str) -> int:
    """Return the number of a project's last memory: those stored from now on stay."""
    row = tx.execute(_SQL["last_of_project"], project=project).fetchone()
    return row[0] or 0


async def _delete_batch(
    tenant: Tenant, project: str, *, upto: int, actor: str, skip_damaged: bool
) -> tuple[int, bool]:
    """Remove some memories; return how many, and whether these were the last."""
    documents = await tenant.read(lambda tx: _documents_of_batch(tx, project, upto=upto))
    for document_id in documents:
        await shrink_document(tenant, document_id, skip_damaged=skip_damaged)
    batch = await tenant.read(
        partial(_read_batch, project=project, upto=upto, skip_damaged=skip_damaged)
    )

    def transact(tx: Transaction) -> tuple[int, bool]:
        now = tenant.now()
        clear_state(tx, now=now)
        removed = 0
        for number in batch.numbers:
            # One at a time: their texts need not be in memory together.
            for row in read_rows(tx, [number]):
                _remove(tx, row, known=batch.known, actor=actor, now=now, skip_damaged=skip_damaged)
                removed += 1
        is_done = not _first_numbers(tx, project, upto=upto, limit=1)
        episodes = 0
        if is_done:
            episodes = _delete_episodes(tx, project)
        if removed or episodes:
            audit.record(
                tx,
                now=now,
                actor=actor,
                action="memory_delete_project",
                subject=project,
                details={"memories": removed, "episodes": episodes},
            )
        return removed, is_done

    return await tenant.write(transact)


def _delete_episodes(tx: Transaction, project: str) -> int:
    """Remove the episodes of a project; return how many."""
    stored_bytes = measure_episodes(tx, project)
    tx.execute(_SQL["leave_episodes"], project=project)
    removed = tx.execute(_SQL["delete_episodes"], project=project).rowcount
    grow_counters(tx, stored_bytes=-stored_bytes)
    return removed


def _documents_of_batch(tx: Transaction, project: str, *, upto: int) -> list[DocumentId]:
    numbers = _first_numbers(tx, project, upto=upto, limit=_BATCH_MEMORIES)
    rows = tx.execute(_SQL["documents_of"], numbers=json.dumps(numbers))
    return [document_id for (document_id,) in rows.fetchall()]


def _read_batch(tx: Transaction, *, project: str, upto: int, skip_damaged: bool) -> _Batch:
    """Analyse the next memories of a project, as many as one transaction should remove."""
    batch = _Batch([])
    characters_left = BATCH_CHARACTERS
    for number in _first_numbers(tx, project, upto=upto, limit=_BATCH_MEMORIES):
        if characters_left <= 0:
            break
        (row,) = read_rows(tx, [number])
        known = _read_words(tx, row, skip_damaged=skip_damaged)
        batch.numbers.append(number)
        batch.known |= known
        characters_left -= sum(item.characters for words in known.values() for item in words)
    return batch


def _first_numbers(tx: Transaction, project: str, *, upto: int, limit: int) -> list[int]:
    rows = tx.execute(_SQL["first_of_project"], project=project, upto=upto, limit=limit)
    return [number for (number,) in rows.fetchall()]
