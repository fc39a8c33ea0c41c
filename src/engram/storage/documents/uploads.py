"""Take documents in parts: each is durable when it is answered, and nobody sees them before the last."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from engram import limits as bounds
from engram.clock import from_microseconds
from engram.errors import (
    ConflictError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    StoreCorruptError,
)
from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.access import Quota
from engram.model.document import DocumentDraft, DocumentLimits, Upload
from engram.model.ids import DocumentId
from engram.storage.bodies.rows import DocumentRow, find_row
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.stored_size import measure_document, row_bytes
from engram.storage.codec import ContentError
from engram.storage.content.pieces import (
    NewPiece,
    Pieces,
    cut_pieces,
    delete_pieces,
    put_pieces,
    read_piece,
)
from engram.storage.memories.options import options_to_json
from engram.storage.memories.storing import check_episodes
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

_SQL = load_queries("documents/documents.sql")
_LIFE = timedelta(minutes=bounds.UPLOAD_MINUTES)
_LIFE_MICROSECONDS = _LIFE // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Begun:
    """An upload as it was read, and the bytes of its last piece that is not full."""

    row: DocumentRow
    rest: bytes


async def begin_upload(
    tenant: Tenant, draft: DocumentDraft, *, actor: str, quota: Quota, limits: DocumentLimits
) -> Upload:
    """Make room for a document whose parts will follow."""
    if draft.size_bytes is not None:
        limits.check(draft.size_bytes)

    def transact(tx: Transaction) -> Upload:
        now = tenant.now()
        since = now - _LIFE_MICROSECONDS
        (uploads,) = tx.execute(_SQL["count_uploads"], since=since).fetchone()
        if uploads >= bounds.UPLOADS_MAX:
            raise LimitExceededError(
                "uploads", limit=bounds.UPLOADS_MAX, actual=uploads + 1, unit="uploads at once"
            )
        check_episodes(tx, [draft.options.episode_id])
        document_id = DocumentId(tenant.ids.new("doc_"))
        options = options_to_json(draft.options)
        tx.execute(
            _SQL["add_upload"],
            id=document_id,
            name=draft.name,
            media_type=draft.media_type,
            announced_bytes=draft.size_bytes,
            options=options,
            now=now,
        )
        stored_bytes = row_bytes(draft.name, draft.media_type, options)
        grow_counters(tx, quota=quota, stored_bytes=stored_bytes)
        audit.record(tx, now=now, actor=actor, action="begin_upload", subject=document_id)
        return _upload(find_row(tx, document_id))

    return await tenant.write(transact)


def get_upload(tx: Transaction, document_id: DocumentId) -> Upload:
    """Return how much has arrived.

    Raises:
        NotFoundError: there is no such upload, or it has expired, or it is finished.
    """
    row = find_upload(tx, document_id)
    if row.state != "uploading":
        raise NotFoundError("upload", document_id)
    return _upload(row)


async def add_part(
    tenant: Tenant,
    document_id: DocumentId,
    part: int,
    data: bytes,
    *,
    quota: Quota,
    limits: DocumentLimits,
) -> Upload:
    """Keep the next part; the last one again changes nothing."""
    sha256 = (await asyncio.to_thread(hashlib.sha256, data)).digest()
    while True:
        begun = await tenant.read(partial(_see, document_id=document_id))
        row = begun.row
        if part == row.parts - 1 and sha256 == row.part_sha256:
            return _upload(row)
        _check_turn(row, part)
        await _refuse_too_much(tenant, row, len(data), limits)
        pieces = await asyncio.to_thread(
            cut_pieces,
            tenant.codec,
            begun.rest + data,
            first_place=row.size_bytes // DOCUMENT_PIECE_BYTES,
        )
        size_bytes = row.size_bytes + len(data)
        work = partial(
            _keep, row=row, pieces=pieces, sha256=sha256, size_bytes=size_bytes, quota=quota
        )
        if (upload := await tenant.write(work)) is not None:
            return upload


async def abort_upload(tenant: Tenant, document_id: DocumentId) -> bool:
    """Remove an upload that is not finished."""

    def transact(tx: Transaction) -> bool:
        try:
            row = find_row(tx, document_id)
        except NotFoundError:
            return False
        return delete_upload(tx, row.number)

    return await tenant.write(transact)


async def drop_expired_uploads(tenant: Tenant) -> int:
    """Remove uploads that nobody has continued, one to a transaction; return how many."""
    since = tenant.now() - _LIFE_MICROSECONDS
    rows = await tenant.read(lambda tx: tx.execute(_SQL["expired_uploads"], since=since).fetchall())
    for (number,) in rows:
        await drop_upload(tenant, number)
    return len(rows)


async def drop_upload(tenant: Tenant, number: int) -> None:
    """Remove an upload and all that has arrived of it."""
    await tenant.write(lambda tx: delete_upload(tx, number))


def delete_upload(tx: Transaction, number: int) -> bool:
    """Remove an upload; False when it is none any more."""
    stored_bytes = measure_document(tx, number)
    removed = tx.execute(_SQL["delete_upload"], number=number).rowcount
    if removed:
        stored_bytes += delete_pieces(tx, number)
        grow_counters(tx, stored_bytes=-stored_bytes)
    return bool(removed)


def find_upload(tx: Transaction, document_id: DocumentId) -> DocumentRow:
    """Return the row of an upload that has not expired, or of the document it has become.

    Raises:
        NotFoundError: there is none.
    """
    row = find_row(tx, document_id)
    if row.state == "uploading" and (row.waits_since or 0) + _LIFE_MICROSECONDS <= tx.tenant.now():
        raise NotFoundError("upload", document_id)
    return row


def _see(tx: Transaction, *, document_id: DocumentId) -> _Begun:
    row = find_upload(tx, document_id)
    place, size = divmod(row.size_bytes, DOCUMENT_PIECE_BYTES)
    if row.state != "uploading" or not size:
        return _Begun(row, b"")
    try:
        return _Begun(row, read_piece(tx, Pieces(document=row.number), place))
    except ContentError as exc:
        raise StoreCorruptError(f"upload {document_id} cannot be read: {exc}") from exc


def _check_turn(row: DocumentRow, part: int) -> None:
    if row.state != "uploading":
        raise ConflictError(f"upload {row.id} is finished")
    if part == row.parts - 1:
        raise ConflictError(f"part {part} of upload {row.id} has arrived with other bytes")
    if part != row.parts:
        raise ConflictError(f"part {row.parts} of upload {row.id} is due, not part {part}")


async def _refuse_too_much(
    tenant: Tenant, row: DocumentRow, added: int, limits: DocumentLimits
) -> None:
    """Refuse what passes its bound, and remove what has arrived."""
    try:
        _check_size(row, row.size_bytes + added, limits)
    except InvalidRequestError:
        await drop_upload(tenant, row.number)
        raise


def _check_size(row: DocumentRow, size_bytes: int, limits: DocumentLimits) -> None:
    limits.check(size_bytes)
    if row.announced_bytes is not None and size_bytes > row.announced_bytes:
        message = f"{row.announced_bytes:,} bytes were announced, and more have arrived"
        raise InvalidRequestError(message, field="size")


def _keep(
    tx: Transaction,
    *,
    row: DocumentRow,
    pieces: list[NewPiece],
    sha256: bytes,
    size_bytes: int,
    quota: Quota,
) -> Upload | None:
    """Store a part; None when the upload is not what it was any more."""
    present = find_upload(tx, row.id)
    if (present.state, present.parts) != ("uploading", row.parts):
        return None
    added = put_pieces(tx, Pieces(document=row.number), pieces)
    grow_counters(tx, quota=quota, stored_bytes=added)
    tx.execute(
        _SQL["add_part"],
        number=row.number,
        sha256=sha256,
        size_bytes=size_bytes,
        now=tx.tenant.now(),
    )
    return _upload(find_row(tx, row.id))


def _upload(row: DocumentRow) -> Upload:
    return Upload(
        id=row.id,
        parts=row.parts,
        received_bytes=row.size_bytes,
        expires_at=from_microseconds(row.waits_since or 0) + _LIFE,
    )
