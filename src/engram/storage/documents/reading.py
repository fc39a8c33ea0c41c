"""Read bodies and texts of documents piece by piece, each proved when it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import islice

from engram.errors import InvalidRequestError, NotFoundError, StoreCorruptError
from engram.limits import DOCUMENT_PIECES_READ
from engram.model.document import ByteRange
from engram.model.ids import DocumentId
from engram.storage.bodies.rows import DocumentRow, find_finished
from engram.storage.codec import ContentError
from engram.storage.content.pieces import Pieces, pieces_between, read_piece
from engram.storage.tenant import Tenant, Transaction


async def read_body(
    tenant: Tenant, document_id: DocumentId, wanted: ByteRange | None
) -> AsyncIterator[bytes]:
    """Yield the bytes of a body; no transaction is open in between."""
    row = await tenant.read(partial(find_finished, document_id=document_id))
    wanted = wanted or ByteRange(start=0, end=row.size_bytes)
    if wanted.start >= row.size_bytes:
        message = f"begins past the end, which is at {row.size_bytes:,} bytes"
        raise InvalidRequestError(message, field="range")
    end = min(wanted.end, row.size_bytes)
    async for piece in _read(tenant, row, Pieces(document=row.number), wanted.start, end):
        yield piece


async def read_text(
    tenant: Tenant, document_id: DocumentId, wanted: ByteRange | None = None
) -> AsyncIterator[bytes]:
    """Yield the UTF-8 of the text that is searched; nothing while there is none."""
    row = await tenant.read(partial(find_finished, document_id=document_id))
    end = row.text_bytes or 0
    wanted = wanted or ByteRange(start=0, end=max(end, 1))
    source, end = row.text_pieces, min(wanted.end, end)
    async for piece in _read(tenant, row, source, wanted.start, end):
        yield piece


async def _read(
    tenant: Tenant, row: DocumentRow, source: Pieces, start: int, end: int
) -> AsyncIterator[bytes]:
    places = pieces_between(start, end)
    while some := tuple(islice(places, DOCUMENT_PIECES_READ)):
        yield await tenant.read(partial(_read_pieces, row=row, source=source, places=some))


def _read_pieces(
    tx: Transaction, *, row: DocumentRow, source: Pieces, places: Sequence[tuple[int, slice]]
) -> bytes:
    """Return parts of some pieces, one after the other."""
    try:
        return b"".join(read_piece(tx, source, place)[part] for place, part in places)
    except ContentError as exc:
        raise unreadable(tx, row, exc) from exc


def unreadable(
    tx: Transaction, row: DocumentRow, reason: ContentError
) -> StoreCorruptError | NotFoundError:
    """Return what to raise when a piece cannot be read: the document may be gone by now."""
    try:
        find_finished(tx, row.id)
    except NotFoundError as gone:
        return gone
    return StoreCorruptError(f"document {row.id} cannot be read: {reason}")
