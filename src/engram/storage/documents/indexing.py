"""Index documents: each step stores the next chunks in one transaction.

So a document is found part by part, and any process continues where another stopped. Chunks are the
messages of the document's record; their content refers to the document's pieces.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from engram.clock import from_microseconds
from engram.errors import NotFoundError, StoreCorruptError
from engram.model.conversation import Message
from engram.model.document import Document
from engram.model.ids import ConversationId, DocumentId, MemoryId, message_id
from engram.model.value import Value
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.codec import ContentError
from engram.storage.content.messages import PreparedMessage, to_json
from engram.storage.content.pieces import PIECE, read_bytes
from engram.storage.conversations.records import extend_record
from engram.storage.document_rows import (
    DocumentRow,
    document_of,
    find_finished,
    find_row,
    get_row,
    record_size,
    shrink_document,
    unreadable,
)
from engram.storage.memories.changing import index_again
from engram.storage.memories.rows import read_row
from engram.storage.queue import DOCUMENTS, LEASE_MAX, retry_delay
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch
from engram.text.analyse import message_words, part_words
from engram.text.documents import BEGINNING, ChunkerState, DocumentChunk, chunk_name

logger = logging.getLogger(__name__)

NOBODY = ""
"""The owner of a document that nobody may claim for now."""

_SQL = load_queries("documents/documents.sql")


class UnindexedText(Value):
    """The next text of a document to be cut into chunks."""

    data: bytes
    """UTF-8 from `state.read_from_bytes` on; unless it is the last, it may end inside a character."""
    state: ChunkerState
    """Where the last chunk ended."""
    is_last: bool
    """Whether the text ends with it."""


class NewChunks(NamedTuple):
    """Messages to add to a document's record."""

    row: DocumentRow
    record: int
    messages: Sequence[PreparedMessage]
    indexing: Indexing


class DocumentQueue(TenantStore):
    """The documents that wait for their text or their index."""

    async def claim_unindexed(
        self, *, owner: str, lease: timedelta, document_id: DocumentId | None = None
    ) -> Document | None:
        """Lease a document that waits for its text or its index to `owner`.

        Of those that nobody else holds it is the one claimed longest ago, or `document_id`. Claim
        before every step: the lease begins anew, and each document has its turn.
        """

        def find(tx: Transaction) -> DocumentId | None:
            rows = DOCUMENTS.find(tx, limit=1, again=owner, id=document_id)
            return rows[0][0] if rows else None

        def claim(tx: Transaction) -> Document | None:
            found = find(tx)
            if found is None:
                return None
            _take_turn(tx, found, owner=owner, lease=lease)
            return document_of(find_row(tx, found))

        while (waiting := await self._tenant.read(find)) is not None:
            if not await self._start_over(waiting):
                return await self._tenant.write(claim)
        return None

    async def has_unindexed(self) -> bool:
        """Return True if a document waits for its text or its index, leased or not."""
        row = await self._tenant.read(lambda tx: tx.execute(_SQL["has_unindexed"]).fetchone())
        return row is not None

    async def renew_unindexed(
        self, document_id: DocumentId, *, owner: str, lease: timedelta
    ) -> bool:
        """Extend the lease of a document; False when it was lost."""
        renewed = await self._tenant.write(
            lambda tx: DOCUMENTS.renew(tx, [document_id], owner=owner, lease=lease)
        )
        return renewed > 0

    async def postpone_unindexed(
        self,
        document_id: DocumentId,
        *,
        owner: str,
        problem: str,
        delay: timedelta | None = None,
    ) -> None:
        """Release a document of `owner`, to be claimed after a delay: a step failed for now.

        Without `delay` it doubles with every failed attempt. The problem is shown with the document
        until a later step succeeds.
        """

        def write(tx: Transaction) -> None:
            attempts = DOCUMENTS.held(tx, [document_id], owner=owner).get(document_id)
            if attempts is None:
                return
            tx.execute(_SQL["put_problem"], id=document_id, problem=problem)
            wait = retry_delay(attempts - 1) if delay is None else delay
            DOCUMENTS.release(tx, [document_id], owner=owner, delay=wait)

        await self._tenant.write(write)

    async def read_unindexed(self, document_id: DocumentId, *, bytes_max: int) -> UnindexedText:
        """Return the next text to index; 64 KiB or more suffice for at least one chunk.

        Raises:
            NotFoundError: there is no such document, or it does not wait for its index.
            StoreCorruptError: a piece's bytes do not match its hash.
        """

        def read(tx: Transaction) -> UnindexedText:
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

        return await self._tenant.read(read)

    async def index_chunks(
        self,
        document_id: DocumentId,
        chunks: Sequence[DocumentChunk],
        *,
        owner: str,
        is_last: bool,
        indexing: Indexing = WORDS_ALONE,
    ) -> bool:
        """Store the next chunks with their words and vectors; False when the lease was lost.

        They must follow those stored before without a gap; False if another process stored them
        first. With the last, the document is indexed.
        """
        before = await self._tenant.read(lambda tx: get_row(tx, document_id))
        if before is None:
            return False
        messages = await asyncio.to_thread(
            lambda: [_prepare_chunk(before, chunk) for chunk in chunks]
        )

        def write(tx: Transaction) -> bool:
            row = get_row(tx, document_id)
            if row is None or row.record is None or row.state != "indexing":
                return False
            if (row.record, row.valid_from) != (before.record, before.valid_from):
                return False  # The chunks are of another version of the memory.
            is_held = DOCUMENTS.held(tx, [row.id], owner=owner)
            if not is_held or not _is_next(row, chunks, is_last=is_last):
                return False
            if chunks:
                add_chunks(tx, NewChunks(row, row.record, messages, indexing))
                done = {"indexed": chunks[-1].end_byte, "chunker": chunks[-1].after.to_json()}
                tx.execute(_SQL["advance_document"], number=row.number, **done)
            if is_last:
                end_indexing(tx, row, state="indexed")
            return True

        return await self._tenant.write(write)

    async def _start_over(self, document_id: DocumentId) -> bool:
        """Queue a document from its beginning if its removal was begun and not finished."""
        tenant = self._tenant

        def find_partial(tx: Transaction) -> MemoryId | None:
            row = get_row(tx, document_id)
            is_partial = row is not None and row.text_bytes_indexed > 0 and row.chunker is None
            return row.memory_id if row is not None and is_partial else None

        def write(tx: Transaction) -> None:
            memory_id = find_partial(tx)
            if memory_id is not None:
                row = read_row(tx, memory_id)
                tags, now = json.loads(row.tags), tx.tenant.now()
                clear_state(tx, now=now)
                index_again(tx, row, tags=tags, known=(), skip_damaged=False, now=now)

        if await tenant.read(find_partial) is None:
            return False
        try:
            await shrink_document(tenant, document_id)
            await tenant.write(write)
        except StoreCorruptError as exc:
            logger.warning("document %s is not indexed: %s", document_id, exc.message)
            # Nobody claims it before somebody may have restored it.
            await tenant.write(
                lambda tx: _take_turn(tx, document_id, owner=NOBODY, lease=LEASE_MAX)
            )
        return True


def _take_turn(tx: Transaction, document_id: DocumentId, *, owner: str, lease: timedelta) -> None:
    DOCUMENTS.claim(tx, [document_id], owner=owner, lease=lease)
    tx.execute(_SQL["take_turn"], id=document_id, now=tx.tenant.now())


def _prepare_chunk(row: DocumentRow, chunk: DocumentChunk) -> PreparedMessage:
    """Return a chunk ready to be stored; its text stays in the pieces of the document."""
    message = Message(
        id=message_id(ConversationId(row.memory_id or ""), chunk.index + 1),
        sequence=chunk.index + 1,
        role="document",
        content=chunk.text,
        name=chunk_name(chunk, row.name),
        occurred_at=None if row.valid_from is None else from_microseconds(row.valid_from),
        created_at=from_microseconds(row.created_at),
    )
    metadata = {
        "start": chunk.start,
        "end": chunk.end,
        "start_byte": chunk.start_byte,
        "end_byte": chunk.end_byte,
        "headings": chunk.headings,
    }
    values = {
        "role": message.role,
        "characters": len(chunk.text),
        "occurred_at": row.valid_from,
        "name": message.name,
        "tool_call_id": None,
        "tool_name": None,
        "content_encoding": PIECE,
        "sha256": hashlib.sha256(chunk.text.encode()).digest(),
        "metadata": to_json(metadata),
        "content": row.text_pieces.refer(chunk.start_byte, chunk.end_byte),
    }
    words = part_words(message_words(message))
    return PreparedMessage(values=values, words=words, content_bytes=0)


def add_chunks(tx: Transaction, new: NewChunks) -> None:
    """Add messages to a document's record."""
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    last_sequence, _ = record_size(tx, new.record)
    chunks = extend_record(
        tx,
        Stretch(new.record, ConversationId(new.row.memory_id or ""), last_sequence),
        new.messages,
        indexing=new.indexing,
        state=state,
        created_at=new.row.created_at,
        now=now,
    )
    content_bytes = sum(message.content_bytes for message in new.messages)
    grow_counters(tx, chunks=chunks, content_bytes=content_bytes)


def end_indexing(tx: Transaction, row: DocumentRow, *, state: str) -> None:
    """Take a document out of the queue."""
    tx.execute(_SQL["end_indexing"], number=row.number, state=state)
    DOCUMENTS.reset(tx, row.id)


def _is_next(row: DocumentRow, chunks: Sequence[DocumentChunk], *, is_last: bool) -> bool:
    """Return True if the chunks follow those stored before, up to the end if they are the last."""
    start = end = row.text_bytes_indexed
    if chunks:
        start, end = chunks[0].start_byte, chunks[-1].end_byte
    return row.text_bytes_indexed == start and (not is_last or row.text_bytes == end)
