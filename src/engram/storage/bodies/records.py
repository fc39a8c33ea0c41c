"""Take documents out of the search, into it again, and away, when that happens to their memories."""

from __future__ import annotations

from collections.abc import Sequence

from engram.errors import StoreCorruptError
from engram.model.ids import DocumentId, MemoryId
from engram.storage.bodies.rows import DocumentRow, find_row
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.numbering import take_numbers
from engram.storage.bookkeeping.stored_size import measure_document
from engram.storage.content.pieces import delete_pieces
from engram.storage.conversations.creation import add_tags
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("bodies/bodies.sql")


def add_record(
    tx: Transaction, memory_id: MemoryId, *, project: str, tags: Sequence[str], now: int
) -> int:
    """Add what will hold the chunks of a document, and count it; return its number."""
    record = take_numbers(tx, "document", 1).start
    tx.execute(_SQL["add_record"], number=record, id=memory_id, project=project, now=now)
    add_tags(tx, record, tags)
    grow_counters(tx, messages=1, memories=1, documents=1)
    return record


def rest(tx: Transaction, document_id: str | None) -> None:
    """Let a document keep its body alone: its memory is forgotten."""
    row = _row_of(tx, document_id)
    tx.execute(_SQL["rest_document"], number=row.number)


def wait_again(tx: Transaction, document_id: str | None) -> None:
    """Let a document that is in the search again wait for its index, from the beginning."""
    row = _row_of(tx, document_id)
    tx.execute(_SQL["wait_again"], number=row.number, now=tx.tenant.now())


def remove_document(tx: Transaction, document_id: str | None) -> None:
    """Remove a document with its body and its text, and take its bytes off the counters."""
    row = _row_of(tx, document_id)
    stored_bytes = measure_document(tx, row.number)
    stored_bytes += delete_pieces(tx, row.number)
    tx.execute(_SQL["delete_document"], number=row.number)
    grow_counters(tx, content_bytes=-row.size_bytes, stored_bytes=-stored_bytes)


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
