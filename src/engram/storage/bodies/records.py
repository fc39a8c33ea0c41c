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
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant

_SQL = load_queries("bodies/bodies.sql")


def add_record(
    connection: Connection,
    tenant: Tenant,
    memory_id: MemoryId,
    *,
    project: str,
    tags: Sequence[str],
    now: int,
) -> int:
    """Add what will hold the chunks of a document, and count it; return its number."""
    record = take_numbers(connection, tenant, "document", 1).start
    tenant.execute(
        connection, _SQL["add_record"], number=record, id=memory_id, project=project, now=now
    )
    add_tags(connection, tenant, record, tags)
    grow_counters(connection, tenant, messages=1, memories=1, documents=1)
    return record


def rest(connection: Connection, tenant: Tenant, document_id: str | None) -> None:
    """Let a document keep its body alone: its memory is forgotten."""
    row = _row_of(connection, tenant, document_id)
    tenant.execute(connection, _SQL["rest_document"], number=row.number)


def wait_again(connection: Connection, tenant: Tenant, document_id: str | None) -> None:
    """Let a document that is in the search again wait for its index, from the beginning."""
    row = _row_of(connection, tenant, document_id)
    tenant.execute(connection, _SQL["wait_again"], number=row.number, now=tenant.now())


def remove_document(connection: Connection, tenant: Tenant, document_id: str | None) -> None:
    """Remove a document with its body and its text, and take its bytes off the counters."""
    row = _row_of(connection, tenant, document_id)
    stored_bytes = measure_document(connection, tenant, row.number)
    stored_bytes += delete_pieces(connection, tenant, row.number)
    tenant.execute(connection, _SQL["delete_document"], number=row.number)
    grow_counters(connection, tenant, content_bytes=-row.size_bytes, stored_bytes=-stored_bytes)


def record_size(connection: Connection, tenant: Tenant, record: int) -> tuple[int, int]:
    """Return how many messages a record has, and how many bytes are stored with them.

    Raises:
        StoreCorruptError: there is no such record.
    """
    row = tenant.execute(connection, _SQL["record_size"], record=record).fetchone()
    if row is None:
        raise StoreCorruptError("a memory has lost what it is searched by")
    return row


def _row_of(connection: Connection, tenant: Tenant, document_id: str | None) -> DocumentRow:
    return find_row(connection, tenant, DocumentId(document_id or ""))
