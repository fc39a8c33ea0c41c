"""Index documents step by step, each one transaction, so that any process goes on where one ended."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from engram.clock import to_microseconds
from engram.errors import NotFoundError, StoreCorruptError
from engram.model.document import Document
from engram.model.ids import DocumentId, MemoryId
from engram.model.vectors import Indexing
from engram.storage.bodies.rows import DocumentRow, document_of, find_finished, find_row, find_rows
from engram.storage.bodies.shrinking import shrink_document
from engram.storage.codec import ContentError
from engram.storage.content.pieces import read_bytes
from engram.storage.content.preparation import PreparedMessage
from engram.storage.documents.chunks import NewChunks, add_chunks, prepare_chunk
from engram.storage.documents.reading import unreadable
from engram.storage.memories.changing import index_again
from engram.storage.memories.rows import read_row
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.unembedded import DAMAGED_DELAY
from engram.storage.words.rebuild import clear_state
from engram.text.documents import BEGINNING, ChunkerState, DocumentChunk

logger = logging.getLogger(__name__)

NOBODY = ""
"""Who holds a document that rests."""

_SQL = load_queries("documents/documents.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnindexedText:
    """The next text of a document to be cut into chunks."""

    data: bytes
    """UTF-8 from `state.read_from_bytes` on; unless it is the last, it may end inside a character."""
    state: ChunkerState
    """Where the last chunk ended."""
    is_last: bool
    """The text ends with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The next chunks of a document, ready for their transaction."""

    row: DocumentRow
    chunks: Sequence[DocumentChunk]
    messages: Sequence[PreparedMessage]
    owner: str
    is_last: bool
    indexing: Indexing


async def claim_unindexed(
    tenant: Tenant, *, owner: str, lease: timedelta, document_id: DocumentId | None
) -> Document | None:
    """Hold a document that waits; look before writing."""
    find = partial(_claimable, owner=owner, document_id=document_id)
    until = to_microseconds(tenant.clock.now() + lease)

    def transact(tx: Transaction) -> Document | None:
        found = find(tx)
        if found is None:
            return None
        tx.execute(_SQL["lease_document"], id=found, owner=owner, until=until, now=tenant.now())
        return document_of(find_row(tx, found))

    while (waiting := await tenant.read(find)) is not None:
        if not await _begin_anew(tenant, waiting):
            return await tenant.write(transact)
    return None


async def has_unindexed(tenant: Tenant) -> bool:
    """Return True if a document waits, whoever holds it."""
    return await tenant.read(lambda tx: tx.execute(_SQL["has_unindexed"]).fetchone() is not None)


async def postpone_unindexed(
    tenant: Tenant, document_id: DocumentId, *, owner: str, delay: timedelta, problem: str
) -> None:
    """Give a document back that `owner` holds, to be claimed after `delay`, and keep why."""
    until = to_microseconds(tenant.clock.now() + delay)
    await tenant.write(
        lambda tx: (
            tx.execute(
                _SQL["postpone_document"],
                id=document_id,
                owner=owner,
                nobody=NOBODY,
                until=until,
                problem=problem,
            ).rowcount
        )
    )


def read_unindexed(tx: Transaction, document_id: DocumentId, *, bytes_max: int) -> UnindexedText:
    """Return the next text of a document that waits."""
    row = find_finished(tx, document_id)
    if row.state != "indexing" or row.text_bytes is None:
        raise NotFoundError("unindexed text of document", document_id)
    state = BEGINNING if row.chunker is None else ChunkerState.from_json(row.chunker)
    end = min(state.read_from_bytes + bytes_max, row.text_bytes)
    try:
        data = read_bytes(tx, row.text_pieces, state.read_from_bytes, end)
    except ContentError as exc:
        raise unreadable(tx, row, exc) from exc
    return UnindexedText(data=data, state=state, is_last=end == row.text_bytes)


async def index_chunks(
    tenant: Tenant,
    document_id: DocumentId,
    chunks: Sequence[DocumentChunk],
    *,
    owner: str,
    is_last: bool,
    indexing: Indexing,
) -> bool:
    """Store the next chunks of a document, if `owner` still holds it."""
    row = await tenant.read(lambda tx: find_rows(tx, [document_id]).get(document_id))
    if row is None:
        return False
    messages = await asyncio.to_thread(lambda: [prepare_chunk(row, chunk) for chunk in chunks])
    step = _Step(
        row=row,
        chunks=chunks,
        messages=messages,
        owner=owner,
        is_last=is_last,
        indexing=indexing,
    )
    return await tenant.write(partial(_transact, step=step))


async def _begin_anew(tenant: Tenant, document_id: DocumentId) -> bool:
    """Let a document wait from its beginning if its removal was begun and not finished."""

    def find_torso(tx: Transaction) -> MemoryId | None:
        row = find_rows(tx, [document_id]).get(document_id)
        is_torso = row is not None and row.text_bytes_indexed > 0 and row.chunker is None
        return row.memory_id if row is not None and is_torso else None

    def transact(tx: Transaction) -> None:
        memory_id = find_torso(tx)
        if memory_id is not None:
            row = read_row(tx, memory_id)
            tags = json.loads(row.tags)
            clear_state(tx, now=tenant.now())
            index_again(tx, row, tags=tags, known=(), skip_damaged=False, now=tenant.now())

    if await tenant.read(find_torso) is None:
        return False
    try:
        await shrink_document(tenant, document_id)
        await tenant.write(transact)
    except StoreCorruptError as exc:
        logger.warning("document %s is not indexed: %s", document_id, exc.message)
        await _lay_aside(tenant, document_id)
    return True


async def _lay_aside(tenant: Tenant, document_id: DocumentId) -> None:
    """Let nobody claim a document before somebody may have restored it."""
    until = to_microseconds(tenant.clock.now() + DAMAGED_DELAY)
    await tenant.write(
        lambda tx: (
            tx.execute(
                _SQL["lease_document"], id=document_id, owner=NOBODY, until=until, now=tenant.now()
            ).rowcount
        )
    )


def _claimable(tx: Transaction, *, owner: str, document_id: DocumentId | None) -> DocumentId | None:
    row = tx.execute(
        _SQL["find_unindexed"], owner=owner, id=document_id, now=tx.tenant.now()
    ).fetchone()
    return None if row is None else row[0]


def _transact(tx: Transaction, *, step: _Step) -> bool:
    """Return whether the chunks were taken."""
    chunks = step.chunks
    row = find_rows(tx, [step.row.id]).get(step.row.id)
    if row is None or row.record is None or not _is_held(row, step):
        return False
    if chunks:
        new = NewChunks(row=row, record=row.record, messages=step.messages, indexing=step.indexing)
        add_chunks(tx, new)
        tx.execute(
            _SQL["advance_document"],
            number=row.number,
            indexed=chunks[-1].end_byte,
            chunker=chunks[-1].after.to_json(),
        )
    if step.is_last:
        end_indexing(tx, row, state="indexed")
    return True


def end_indexing(tx: Transaction, row: DocumentRow, *, state: str) -> None:
    """Let a document wait no longer."""
    tx.execute(_SQL["end_indexing"], number=row.number, state=state)


def _is_held(row: DocumentRow, step: _Step) -> bool:
    """Return True if the chunks are the next ones, of what they were made from, and still asked for."""
    return (
        row.state == "indexing"
        and row.lease_owner == step.owner
        and (row.record, row.valid_from) == (step.row.record, step.row.valid_from)
        and row.text_bytes_indexed == _start_of(step, row)
        and (not step.is_last or row.text_bytes == _end_of(step, row))
    )


def _start_of(step: _Step, row: DocumentRow) -> int:
    return step.chunks[0].start_byte if step.chunks else row.text_bytes_indexed


def _end_of(step: _Step, row: DocumentRow) -> int:
    return step.chunks[-1].end_byte if step.chunks else row.text_bytes_indexed
