"""Check that every document has its bytes, its memory and the chunks of its text, and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial

from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.row_keys import kind_of, message_key
from engram.storage.checks.faults import Fault
from engram.storage.codec import ContentError
from engram.storage.content.messages import document_content
from engram.storage.content.pieces import Pieces
from engram.storage.document_rows import DocumentRow, find_row
from engram.storage.memories.changing import index_again
from engram.storage.memories.rows import read_row
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("checks/documents.sql")
_DOCUMENTS = load_queries("document_rows.sql")

_lost = partial(Fault, "documents")
"""Makes a fault of something that cannot be derived from other data."""


def check_documents(tx: Transaction) -> Iterator[Fault]:
    """Yield every fault of the organisation's documents, in order."""
    for document_id, sha256, owned_id in tx.execute(_SQL["documents"]):
        row = find_row(tx, document_id)
        yield from _check_pieces(tx, row)
        if row.state == "uploading":
            continue
        if owned_id != document_id or row.memory_id is None:
            yield _lost(f"document {document_id} belongs to no memory")
            continue
        yield from _check_content(tx, row, sha256)
        yield from _check_record(tx, row)
    for (memory_id,) in tx.execute(_SQL["lost_documents"]):
        yield _lost(f"memory {memory_id} has lost its document")
    for (memory_id,) in tx.execute(_SQL["lone_records"]):
        yield _lost(f"chunks of {memory_id} are searched and belong to no memory")
    (count,) = tx.execute(_SQL["stray_pieces"]).fetchone()
    if count:
        yield _repairable(f"{count} pieces belong to no document", _delete_stray_pieces)


def _repairable(message: str, repair: Callable[[Transaction], None]) -> Fault:
    return Fault("documents", message, is_repairable=True, repair=repair)


def _delete_stray_pieces(tx: Transaction) -> None:
    tx.execute(_SQL["delete_stray_pieces"])


def _stop_indexing(tx: Transaction, *, row: DocumentRow) -> None:
    tx.execute(_DOCUMENTS["rest_document"], number=row.number)


def _index_again(tx: Transaction, *, row: DocumentRow) -> None:
    if row.memory_id is None:
        return
    memory = read_row(tx, row.memory_id)
    index_again(
        tx, memory, tags=json.loads(memory.tags), known=(), skip_damaged=True, now=tx.tenant.now()
    )


def _check_pieces(tx: Transaction, row: DocumentRow) -> Iterator[Fault]:
    whole = hashlib.sha256()
    body = Pieces(document=row.number)
    faults = list(_faults_of(tx, body, row.size_bytes, whole.update))
    for fault in faults:
        yield _lost(f"the body of document {row.id} cannot be read: {fault}")
    if not faults and row.sha256 not in (None, whole.digest()):
        yield _lost(f"the body of document {row.id} does not match its SHA-256")
    if row.is_converted and row.text_bytes is not None:
        for fault in _faults_of(tx, row.text_pieces, row.text_bytes, len):
            yield _lost(f"the text of document {row.id} cannot be read: {fault}")


def _faults_of(
    tx: Transaction, pieces: Pieces, size_bytes: int, read: Callable[[bytes], object]
) -> Iterator[str]:
    """Yield what is wrong with the pieces of a body or text; call `read` with each decoded piece."""
    expected = -(-size_bytes // DOCUMENT_PIECE_BYTES)  # rounded up
    present = 0
    first, last = pieces.key(0), pieces.key((1 << 23) - 1)
    rows = tx.execute(_SQL["pieces"], first=first, last=last)
    for key, said_bytes, encoding, sha256, content in rows:
        place = present
        present += 1
        due_bytes = min(DOCUMENT_PIECE_BYTES, size_bytes - place * DOCUMENT_PIECE_BYTES)
        try:
            data = tx.tenant.codec.decode_bytes(content, encoding=encoding, sha256=sha256)
        except ContentError as exc:
            yield f"piece {place}: {exc}"
            continue
        read(data)
        if key != pieces.key(place) or not len(data) == said_bytes == due_bytes:
            yield f"piece {place} is not where it should be, or not as long"
    if present != expected:
        yield f"it has {present} pieces, and should have {expected}"


def _check_content(tx: Transaction, row: DocumentRow, sha256: bytes) -> Iterator[Fault]:
    try:
        document_content(tx, row.id, sha256=sha256)
    except ContentError as exc:
        yield _lost(f"what memory {row.memory_id} shows of its document is lost: {exc}")


def _check_record(tx: Transaction, row: DocumentRow) -> Iterator[Fault]:
    if row.record is None:
        if row.state != "forgotten":
            message = f"document {row.id} waits or is searched, and its memory is forgotten"
            yield _repairable(message, partial(_stop_indexing, row=row))
    elif kind_of(row.record) != "document":
        yield _lost(f"document {row.id} is searched as if it were none")
    elif not _has_its_chunks(tx, row, row.record):
        message = f"the chunks of document {row.id} are not those of its text"
        yield _repairable(message, partial(_index_again, row=row))


def _has_its_chunks(tx: Transaction, row: DocumentRow, record: int) -> bool:
    """Return True if the chunks are contiguous up to where the document is said to be indexed."""
    first, last = message_key(record, 1), message_key(record + 1, 0) - 1
    chunks = tx.execute(_SQL["chunks"], first=first, last=last).fetchall()
    if any(occurred_at != row.valid_from for _, occurred_at in chunks):
        return False
    if row.state == "unreadable":
        return len(chunks) == 1
    indexed = 0
    for reference, _ in chunks:
        start, _, end = reference.rpartition(":")
        if start != row.text_pieces.refer(indexed, 0).rpartition(":")[0]:
            return False
        indexed = int(end)
    is_complete = indexed == (row.text_bytes or 0)
    return indexed == row.text_bytes_indexed and (
        row.state == "indexing" or (row.state == "indexed" and is_complete)
    )
