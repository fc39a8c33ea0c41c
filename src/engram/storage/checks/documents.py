"""Prove that every document has its bytes, its memory and the chunks of its text, and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.row_keys import kind_of, message_key
from engram.storage.bodies.rows import DocumentRow, find_row
from engram.storage.codec import ContentError
from engram.storage.content.document_body import document_content
from engram.storage.content.pieces import Pieces
from engram.storage.memories.changing import index_again
from engram.storage.memories.rows import read_row
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("checks/documents.sql")
_DOCUMENTS = load_queries("bodies/bodies.sql")


@dataclass(frozen=True, slots=True)
class LostOfDocument:
    """Something of a document that nothing else can tell."""

    message: str


@dataclass(frozen=True, slots=True)
class WrongChunks:
    """A document whose chunks are not those of its text, or not as many as it says."""

    row: DocumentRow


@dataclass(frozen=True, slots=True)
class WrongRest:
    """A document that waits or is searched, while its memory is forgotten."""

    row: DocumentRow


@dataclass(frozen=True, slots=True)
class StrayPieces:
    """Pieces that belong to no document."""

    count: int


DocumentFault: TypeAlias = LostOfDocument | WrongChunks | WrongRest | StrayPieces


def check_documents(tx: Transaction) -> Iterator[DocumentFault]:
    """Yield every fault of the organisation's documents, in order."""
    for document_id, sha256, owned_id in tx.execute(_SQL["documents"]):
        row = find_row(tx, document_id)
        yield from _check_pieces(tx, row)
        if row.state == "uploading":
            continue
        if owned_id != document_id or row.memory_id is None:
            yield LostOfDocument(f"document {document_id} belongs to no memory")
            continue
        yield from _check_content(tx, row, sha256)
        yield from _check_record(tx, row)
    for (memory_id,) in tx.execute(_SQL["lost_documents"]):
        yield LostOfDocument(f"memory {memory_id} has lost its document")
    for (memory_id,) in tx.execute(_SQL["lone_records"]):
        yield LostOfDocument(f"chunks of {memory_id} are searched and belong to no memory")
    (count,) = tx.execute(_SQL["stray_pieces"]).fetchone()
    if count:
        yield StrayPieces(count)


def describe_document_fault(fault: DocumentFault) -> str:
    """Return a fault in words."""
    match fault:
        case LostOfDocument(message):
            return message
        case WrongChunks(row):
            return f"the chunks of document {row.id} are not those of its text"
        case WrongRest(row):
            return f"document {row.id} waits or is searched, and its memory is forgotten"
        case StrayPieces(count):
            return f"{count} pieces belong to no document"


def mend_document(tx: Transaction, fault: DocumentFault) -> None:
    """Let a document be indexed again, or rest, or remove pieces of none; what is lost stays so."""
    match fault:
        case LostOfDocument():
            return
        case WrongChunks(row):
            _mend_chunks(tx, row)
        case WrongRest(row):
            tx.execute(_DOCUMENTS["rest_document"], number=row.number)
        case StrayPieces():
            tx.execute(_SQL["delete_stray_pieces"])


def _mend_chunks(tx: Transaction, row: DocumentRow) -> None:
    if row.memory_id is None:
        return
    memory = read_row(tx, row.memory_id)
    index_again(
        tx, memory, tags=json.loads(memory.tags), known=(), skip_damaged=True, now=tx.tenant.now()
    )


def _check_pieces(tx: Transaction, row: DocumentRow) -> Iterator[LostOfDocument]:
    whole = hashlib.sha256()
    body = Pieces(document=row.number)
    faults = list(_faults_of(tx, body, row.size_bytes, whole.update))
    for fault in faults:
        yield LostOfDocument(f"the body of document {row.id} cannot be read: {fault}")
    if not faults and row.sha256 not in (None, whole.digest()):
        yield LostOfDocument(f"the body of document {row.id} does not match its SHA-256")
    if row.is_converted and row.text_bytes is not None:
        for fault in _faults_of(tx, row.text_pieces, row.text_bytes, len):
            yield LostOfDocument(f"the text of document {row.id} cannot be read: {fault}")


def _faults_of(
    tx: Transaction, pieces: Pieces, size_bytes: int, read: Callable[[bytes], object]
) -> Iterator[str]:
    """Yield what is wrong with the pieces of a body or text; `read` is given all that is right."""
    expected = -(-size_bytes // DOCUMENT_PIECE_BYTES)
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


def _check_content(tx: Transaction, row: DocumentRow, sha256: bytes) -> Iterator[LostOfDocument]:
    try:
        document_content(tx, row.id, sha256=sha256)
    except ContentError as exc:
        yield LostOfDocument(f"what memory {row.memory_id} shows of its document is lost: {exc}")


def _check_record(tx: Transaction, row: DocumentRow) -> Iterator[DocumentFault]:
    if row.record is None:
        if row.state != "forgotten":
            yield WrongRest(row)
    elif kind_of(row.record) != "document":
        yield LostOfDocument(f"document {row.id} is searched as if it were none")
    elif not _has_its_chunks(tx, row, row.record):
        yield WrongChunks(row)


def _has_its_chunks(tx: Transaction, row: DocumentRow, record: int) -> bool:
    """Return True if the chunks follow each other up to where the document says it is indexed."""
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
