"""Read what the memory of a document shows: the body of a short one, and what stands for others."""

from __future__ import annotations

from engram.storage.codec import ContentError
from engram.storage.content.messages import decode_text
from engram.storage.content.pieces import Pieces, read_bytes
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("content/pieces.sql")


def document_content(tx: Transaction, document_id: str, *, sha256: bytes) -> str:
    """Return the proved content of the memory that owns a document.

    Raises:
        ContentError: it cannot be read back.
    """
    row = tx.execute(_SQL["content_of"], id=document_id).fetchone()
    if row is None:
        raise ContentError("its document is missing")
    encoding, content, number, size_bytes = row
    if content is None:
        content = read_bytes(tx, Pieces(document=number), 0, size_bytes)
    return decode_text(tx, content, encoding=encoding, sha256=sha256)
