"""Rows of documents: reading them, their chunks and headings, and taking them into and out of the search."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from engram.clock import from_microseconds
from engram.errors import NotFoundError, StoreCorruptError
from engram.model.document import Document, DocumentState, DocumentTier
from engram.model.ids import ConversationId, DocumentId, MemoryId
from engram.model.row_keys import message_key
from engram.storage.bookkeeping.counters import grow_counters, measure_document
from engram.storage.codec import ContentError
from engram.storage.content.pieces import Pieces, delete_pieces, measure_pieces
from engram.storage.conversations.records import add_empty_record, add_tags
from engram.storage.due import mark_due
from engram.storage.postings.index import MessageWords
from engram.storage.queue import DOCUMENTS
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.rows import remove_messages
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch, remove_rows, words_gained, words_of
from engram.text.windows import window_count

_SQL = load_queries("document_rows.sql")
_CONVERSATIONS = load_queries("conversations/conversations.sql")

CHUNKS_LEFT = 256
"""Chunks that a removal deletes in one transaction, and that each step before it deletes."""

_LEASE = timedelta(minutes=5)
"""Far longer than a step takes: nobody indexes the document meanwhile."""

_OWNER = "removal"


class DocumentRow(NamedTuple):
    """The columns of `load_documents`."""

    number: int
    id: DocumentId
    memory: int | None
    memory_id: MemoryId | None
    record: int | None
    """The record of its chunks; None while it is uploaded or forgotten."""
    valid_from: int | None
    state: DocumentState
    name: str | None
    media_type: str
    tier: DocumentTier | None
    size_bytes: int
    sha256: bytes | None
    is_converted: int
    text_bytes: int | None
    text_bytes_indexed: int
    created_at: int
    waits_since: int | None
    parts: int
    part_sha256: bytes | None
    announced_bytes: int | None
    problem: str | None
    options: str | None
    chunker: str | None

    @property
    def text_pieces(self) -> Pieces:
        """Return the pieces of the searched text: the body, or what it was converted to."""
        return Pieces(document=self.number, is_text=bool(self.is_converted))

    @property
    def shown_name(self) -> str:
        """Return the text that stands for a document without one."""
        return self.name or self.media_type


def find_rows(tx: Transaction, document_ids: Sequence[DocumentId]) -> dict[DocumentId, DocumentRow]:
    """Return the rows that exist, uploads included, in the order requested."""
    rows = tx.execute(_SQL["load_documents"], ids=json.dumps(document_ids))
    found = {row.id: row for row in map(DocumentRow._make, rows.fetchall())}
    return {each: found[each] for each in document_ids if each in found}


def get_row(tx: Transaction, document_id: DocumentId) -> DocumentRow | None:
    """Return the row of a document or upload, None if it does not exist."""
    return find_rows(tx, [document_id]).get(document_id)


def find_row(tx: Transaction, document_id: DocumentId) -> DocumentRow:
    """Return the row of a document or upload, or raise `NotFoundError`."""
    row = get_row(tx, document_id)
    if row is None:
        raise NotFoundError("document", document_id)
    return row


def find_finished(tx: Transaction, document_id: DocumentId) -> DocumentRow:
    """Return the row of a document, or raise `NotFoundError`; an upload is none yet."""
    row = find_row(tx, document_id)
    if row.state == "uploading":
        raise NotFoundError("document", document_id)
    return row


def unreadable(
    tx: Transaction, row: DocumentRow, reason: ContentError
) -> StoreCorruptError | NotFoundError:
    """Return the error to raise when a piece cannot be read: the document may be gone by now."""
    try:
        find_finished(tx, row.id)
    except NotFoundError as gone:
        return gone
    return StoreCorruptError(f"document {row.id} cannot be read: {reason}")


def get(tx: Transaction, document_ids: Sequence[DocumentId]) -> dict[DocumentId, Document]:
    """Return the documents that exist, uploads excluded, in the order requested."""
    rows = find_rows(tx, document_ids)
    return {each: document_of(row) for each, row in rows.items() if row.state != "uploading"}


def of_memories(tx: Transaction, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, Document]:
    """Return the documents of the memories that own one."""
    rows = tx.execute(_SQL["documents_of_memories"], ids=json.dumps(memory_ids))
    documents = get(tx, [document_id for (document_id,) in rows.fetchall()])
    found = {document.memory_id: document for document in documents.values()}
    return {each: found[each] for each in memory_ids if each in found}


def find_owned(
    tx: Transaction, memory_ids: Sequence[MemoryId], *, immutable: bool
) -> list[DocumentId]:
    """Return the documents of searched memories; those of immutable ones only if `immutable`."""
    rows = tx.execute(_SQL["owned_documents"], ids=json.dumps(memory_ids), immutable=immutable)
    return [document_id for (document_id,) in rows.fetchall()]


def document_of(row: DocumentRow) -> Document:
    """Return the document of a row that is not an upload."""
    if row.memory_id is None or row.tier is None or row.sha256 is None:
        raise StoreCorruptError(f"document {row.id} has lost its memory")
    return Document(
        id=row.id,
        memory_id=row.memory_id,
        name=row.name,
        media_type=row.media_type,
        tier=row.tier,
        size_bytes=row.size_bytes,
        sha256=row.sha256.hex(),
        state=row.state,
        text_bytes=row.text_bytes or 0,
        text_bytes_indexed=row.text_bytes_indexed,
        created_at=from_microseconds(row.created_at),
        needs_text=row.text_bytes is None,
        problem=row.problem,
    )


def add_record(
    tx: Transaction, memory_id: MemoryId, *, project: str, tags: Sequence[str], now: int
) -> int:
    """Add the record that will take the chunks of a document, and count it; return its number."""
    record = add_empty_record(tx, memory_id, project=project, now=now)
    add_tags(tx, record, tags)
    grow_counters(tx, messages=1, memories=1, documents=1)
    return record


def rest_document(tx: Transaction, document_id: str | None) -> None:
    """Take a document out of the index and its queue, because its memory is forgotten."""
    row = _row_of(tx, document_id)
    tx.execute(_SQL["rest_document"], number=row.number)
    DOCUMENTS.reset(tx, row.id)


def queue_document(tx: Transaction, document_id: str | None) -> None:
    """Queue a document to be indexed from the beginning."""
    row = _row_of(tx, document_id)
    tx.execute(_SQL["queue_document"], number=row.number, now=tx.tenant.now())
    mark_due(tx, "documents")
    DOCUMENTS.reset(tx, row.id)


def remove_document(tx: Transaction, document_id: str | None, *, with_pieces: bool = True) -> int:
    """Remove a document and subtract its bytes from the counters; return its stored size.

    Without `with_pieces` its body and text stay, and belong to nothing.
    """
    row = _row_of(tx, document_id)
    stored_bytes = measure_document(tx, row.number)
    stored_bytes += (delete_pieces if with_pieces else measure_pieces)(tx, row.number)
    tx.execute(_SQL["delete_document"], number=row.number)
    grow_counters(tx, content_bytes=-row.size_bytes, stored_bytes=-stored_bytes)
    return stored_bytes


def record_size(tx: Transaction, record: int) -> tuple[int, int]:
    """Return how many messages a record has, and how many bytes are stored with them.

    Raises:
        StoreCorruptError: there is no such record.
    """
    row = tx.execute(_SQL["record_size"], record=record).fetchone()
    if row is None:
        raise StoreCorruptError("a memory has lost what it is searched by")
    return row


def _row_of(tx: Transaction, document_id: str | None) -> DocumentRow:
    return find_row(tx, DocumentId(document_id or ""))


def headings_at(
    tx: Transaction, document_id: DocumentId, places: Sequence[int]
) -> list[tuple[str, ...]]:
    """Return the headings that each byte of a text is under; none where it is not indexed."""
    record = find_finished(tx, document_id).record
    if record is None:
        return [()] * len(places)
    count, _ = tx.execute(_SQL["record_size"], record=record).fetchone()

    def chunk(sequence: int) -> dict[str, Any]:
        key = message_key(record, sequence)
        (metadata,) = tx.execute(_SQL["chunk_place"], key=key).fetchone()
        return json.loads(metadata)

    def headings(place: int) -> tuple[str, ...]:
        # Chunks are contiguous, so a binary search reads some twenty of them.
        before = bisect_right(
            range(1, count + 1), place, key=lambda sequence: chunk(sequence)["start_byte"]
        )
        found = chunk(before) if before else None
        return tuple(found["headings"]) if found and place <= found["end_byte"] else ()

    return [headings(place) for place in places]


class _Cut(NamedTuple):
    """A document whose last chunks are to be removed."""

    row: DocumentRow
    stretch: Stretch
    kept: int
    """The number of chunks that stay."""
    words: Sequence[MessageWords]
    """Those of the chunks to remove."""


async def shrink_document(
    tenant: Tenant, document_id: DocumentId, *, skip_damaged: bool = False
) -> bool:
    """Remove all but the first chunks of a document, in steps; False when it has no more than those.

    To remove the words of a chunk takes as long as to add them: a long document removed at once
    would block all other writers for minutes. The last chunks are removed first, so that what is left is
    always what was indexed up to there; if the removal does not follow, the document is indexed again.

    Raises:
        StoreCorruptError: a chunk cannot be read, and not `skip_damaged`.
    """
    is_shrunk = False
    read = partial(_read_cut, document_id=document_id, skip_damaged=skip_damaged)
    while (cut := await tenant.read(read)) is not None:
        await tenant.write(partial(_cut_chunks, cut=cut))
        is_shrunk = True
    return is_shrunk


def _read_cut(tx: Transaction, *, document_id: DocumentId, skip_damaged: bool) -> _Cut | None:
    """Analyse the chunks to remove next; None when few enough are left."""
    row = get_row(tx, document_id)
    if row is None or row.record is None:
        return None
    chunks, _ = record_size(tx, row.record)
    if chunks <= CHUNKS_LEFT:
        return None
    kept = max(CHUNKS_LEFT, chunks - CHUNKS_LEFT)
    stretch = Stretch(row.record, ConversationId(row.memory_id or ""), chunks)
    words = words_of(tx, stretch, after=kept, skip_damaged=skip_damaged)
    return _Cut(row, stretch, kept, list(words))


def _cut_chunks(tx: Transaction, *, cut: _Cut) -> None:
    number, last = cut.stretch.conversation, cut.stretch.last_sequence
    row = get_row(tx, cut.row.id)
    if row is None or row.record != number or record_size(tx, number)[0] != last:
        return  # Somebody else has changed it: the caller reads it again.
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    gained = words_gained(tx, cut.stretch, cut.words, last_sequence=cut.kept)
    remove_rows(
        tx,
        cut.words,
        window_words=-gained,
        also_next=state.is_in_next(number),
        may_return=True,
    )
    keys = {"first": message_key(number, cut.kept + 1), "last": message_key(number, last)}
    tx.execute(_SQL["shorten_document"], number=row.number, first=keys["first"], now=now)
    mark_due(tx, "documents")
    DOCUMENTS.claim(tx, [row.id], owner=_OWNER, lease=_LEASE)
    tx.execute(_CONVERSATIONS["delete_messages"], **keys)
    tx.execute(_SQL["shorten_record"], record=number, messages=cut.kept)
    remove_messages(tx, **keys)
    grow_counters(tx, chunks=window_count(cut.kept) - window_count(last))
