"""Turn rows of documents into the values of `engram.model.document`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from engram.clock import from_microseconds
from engram.errors import NotFoundError, StoreCorruptError
from engram.model.document import Document, DocumentState, DocumentTier
from engram.model.ids import DocumentId, MemoryId
from engram.storage.content.pieces import Pieces
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("bodies/bodies.sql")


class DocumentRow(NamedTuple):
    """The columns of `load_documents`."""

    number: int
    id: DocumentId
    memory: int | None
    memory_id: MemoryId | None
    record: int | None
    """What holds its chunks; None while it is uploaded or forgotten."""
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
    lease_owner: str | None
    problem: str | None
    options: str | None
    chunker: str | None

    @property
    def text_pieces(self) -> Pieces:
        """Return where the text is that is searched."""
        return Pieces(document=self.number, is_text=bool(self.is_converted))

    @property
    def shown_name(self) -> str:
        """Return what stands for a document of which no text is known."""
        return self.name or self.media_type


def find_rows(tx: Transaction, document_ids: Sequence[DocumentId]) -> dict[DocumentId, DocumentRow]:
    """Return the rows that exist, uploads included, in the order asked for."""
    rows = tx.execute(_SQL["load_documents"], ids=json.dumps(document_ids))
    found = {row.id: row for row in map(DocumentRow._make, rows.fetchall())}
    return {each: found[each] for each in document_ids if each in found}


def find_row(tx: Transaction, document_id: DocumentId) -> DocumentRow:
    """Return the row of a document or upload.

    Raises:
        NotFoundError: there is no such document here.
    """
    row = find_rows(tx, [document_id]).get(document_id)
    if row is None:
        raise NotFoundError("document", document_id)
    return row


def find_finished(tx: Transaction, document_id: DocumentId) -> DocumentRow:
    """Return the row of a document that has arrived.

    Raises:
        NotFoundError: there is no such document here, or not all of it.
    """
    row = find_row(tx, document_id)
    if row.state == "uploading":
        raise NotFoundError("document", document_id)
    return row


def get(tx: Transaction, document_ids: Sequence[DocumentId]) -> dict[DocumentId, Document]:
    """Return the documents that have arrived, in the order asked for."""
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
    """Return the documents of memories that are searched; of immutable ones only if asked for."""
    rows = tx.execute(_SQL["owned_documents"], ids=json.dumps(memory_ids), immutable=immutable)
    return [document_id for (document_id,) in rows.fetchall()]


def document_of(row: DocumentRow) -> Document:
    """Return the document of a row that is no upload."""
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
