"""Keep the text that a body was converted to, and say what the memory of a document shows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from engram.clock import from_microseconds
from engram.errors import ConflictError, QuotaExceededError
from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.access import Quota
from engram.model.conversation import MessageDraft
from engram.model.ids import DocumentId
from engram.model.vectors import WORDS_ALONE
from engram.storage.bodies.rows import DocumentRow, find_rows
from engram.storage.bodies.scan import TextScan
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.codec import StoredContent
from engram.storage.content.pieces import NewPiece, Pieces, cut_pieces, delete_text, put_pieces
from engram.storage.content.preparation import prepare_messages
from engram.storage.documents.chunks import NewChunks, add_chunks
from engram.storage.documents.indexing import end_indexing
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

_SQL = load_queries("documents/documents.sql")
_BATCH_PIECES = 16
"""Of a converted text that are in memory at once, and stored in one transaction."""

_NO_TEXT = "there is no text in it"


@dataclass(slots=True)
class _Arriving:
    """A text of which some pieces are stored."""

    quota: Quota
    scan: TextScan = field(default_factory=TextScan)
    size_bytes: int = 0
    hashes: list[bytes] = field(default_factory=list[bytes])


async def put_text(
    tenant: Tenant,
    document_id: DocumentId,
    text: Iterable[bytes] | None,
    *,
    problem: str | None,
    quota: Quota,
) -> None:
    """Keep the text of a document that needs one, some pieces to a transaction, or why it has none."""
    row = await tenant.read(partial(_find, document_id=document_id))
    if row is None:
        return
    arriving = _Arriving(quota)
    pieces = _pieces(text or ())
    while batch := await asyncio.to_thread(_take, tenant, pieces, arriving):
        work = partial(_keep, row=row, batch=batch, arriving=arriving)
        try:
            await tenant.write(work)
        except QuotaExceededError as exc:
            problem = exc.message
            break
        arriving.hashes += [piece.stored.sha256 for piece in batch]
    if not arriving.size_bytes or problem is not None:
        await _end_unreadable(tenant, row, problem or _NO_TEXT)
        return
    shown = tenant.codec.encode(await asyncio.to_thread(arriving.scan.finish))
    await tenant.write(partial(_end, row=row, arriving=arriving, shown=shown))


def _find(tx: Transaction, *, document_id: DocumentId) -> DocumentRow | None:
    """Return the row of a document that needs a text."""
    row = find_rows(tx, [document_id]).get(document_id)
    is_needed = row is not None and row.state == "indexing" and row.text_bytes is None
    return row if is_needed else None


def _pieces(text: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a text in pieces of one size."""
    rest = bytearray()
    for data in text:
        rest += data
        while len(rest) >= DOCUMENT_PIECE_BYTES:
            yield bytes(rest[:DOCUMENT_PIECE_BYTES])
            del rest[:DOCUMENT_PIECE_BYTES]
    if rest:
        yield bytes(rest)


def _take(tenant: Tenant, pieces: Iterator[bytes], arriving: _Arriving) -> list[NewPiece]:
    """Return the next pieces, read and compressed."""
    batch: list[NewPiece] = []
    for piece in pieces:
        arriving.scan.feed(piece)
        place = arriving.size_bytes // DOCUMENT_PIECE_BYTES
        batch += cut_pieces(tenant.codec, piece, first_place=place)
        arriving.size_bytes += len(piece)
        if len(batch) >= _BATCH_PIECES:
            break
    return batch


def _keep(tx: Transaction, *, row: DocumentRow, batch: list[NewPiece], arriving: _Arriving) -> None:
    if _find(tx, document_id=row.id) is None:
        return
    removed = 0
    if not arriving.hashes:
        removed = delete_text(tx, row.number)  # of a conversion that was given up
    added = put_pieces(tx, Pieces(document=row.number, is_text=True), batch)
    grow_counters(tx, quota=arriving.quota, stored_bytes=added - removed)


def _end(tx: Transaction, *, row: DocumentRow, arriving: _Arriving, shown: StoredContent) -> None:
    if _find(tx, document_id=row.id) is None:
        return
    pieces = Pieces(document=row.number, is_text=True)
    last = pieces.key(len(arriving.hashes))
    rows = tx.execute(_SQL["text_hashes"], first=pieces.key(0), last=last)
    if [sha256 for (sha256,) in rows] != arriving.hashes:
        raise ConflictError(f"document {row.id} is converted by another process, too")
    _put(tx, row, shown, text_bytes=arriving.size_bytes, problem=None)


async def _end_unreadable(tenant: Tenant, row: DocumentRow, problem: str) -> None:
    """Keep why a document has no text, and let it be found by its name."""
    moment = None if row.valid_from is None else from_microseconds(row.valid_from)
    draft = MessageDraft(role="document", content=row.shown_name, occurred_at=moment)
    messages = (await prepare_messages([draft], tenant.codec)).messages
    shown = tenant.codec.encode(row.shown_name)

    def transact(tx: Transaction) -> None:
        present = _find(tx, document_id=row.id)
        if present is None or present.record is None:
            return
        removed = delete_text(tx, row.number)
        grow_counters(tx, stored_bytes=-removed)
        new = NewChunks(row=present, record=present.record, messages=messages, indexing=WORDS_ALONE)
        add_chunks(tx, new)
        _put(tx, present, shown, text_bytes=0, problem=problem)
        end_indexing(tx, present, state="unreadable")

    await tenant.write(transact)


def _put(
    tx: Transaction, row: DocumentRow, shown: StoredContent, *, text_bytes: int, problem: str | None
) -> None:
    tx.execute(
        _SQL["put_text"],
        number=row.number,
        text_bytes=text_bytes,
        problem=problem,
        content_encoding=shown.encoding,
        content=shown.content,
    )
    for statement in ("put_memory_hash", "put_version_hashes"):
        tx.execute(_SQL[statement], memory=row.memory, sha256=shown.sha256)
