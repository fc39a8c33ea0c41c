"""Receive documents in parts, and turn a complete upload into a document and its memory.

Each part is durable when it is answered. Nobody sees an upload before it is finished.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from engram import limits as bounds
from engram.clock import from_microseconds
from engram.errors import (
    ConflictError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    QuotaExceededError,
    StoreCorruptError,
)
from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.access import UNBOUNDED, Quota
from engram.model.document import (
    DocumentDraft,
    DocumentLimits,
    DocumentTier,
    StoredDocument,
    Upload,
)
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import MemoryOptions
from engram.model.value import Value
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import (
    grow_counters,
    measure_document,
    measure_memory,
    row_bytes,
)
from engram.storage.bookkeeping.row_hashes import DOCUMENT, seal
from engram.storage.bookkeeping.state import State
from engram.storage.codec import ContentError, StoredContent
from engram.storage.content.pieces import (
    NewPiece,
    Pieces,
    cut_pieces,
    delete_pieces,
    put_pieces,
    read_piece,
)
from engram.storage.document_rows import DocumentRow, add_record, document_of, find_row
from engram.storage.documents.text import BodyScan
from engram.storage.due import mark_due
from engram.storage.memories.rows import add_memory, option_values, parse_times
from engram.storage.memories.storing import check_episodes
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction
from engram.storage.words.rebuild import clear_state

_SQL = load_queries("documents/documents.sql")
_LIFE = timedelta(minutes=bounds.UPLOAD_MINUTES)
LIFE_MICROSECONDS = _LIFE // timedelta(microseconds=1)
"""An upload of which no part came for so long has expired."""


class _Part(NamedTuple):
    """The next part of an upload, compressed."""

    row: DocumentRow
    pieces: list[NewPiece]
    sha256: bytes
    size_bytes: int
    """Of the upload with this part."""


class UploadedBody(Value):
    """A complete upload, read once, ready for its transaction."""

    row: DocumentRow
    tier: DocumentTier
    sha256: bytes
    is_text: bool
    shown: StoredContent | None
    """What the memory shows; None where that is the body itself."""


class UploadStore(TenantStore):
    """The uploads of one organisation."""

    async def begin_upload(
        self, draft: DocumentDraft, *, actor: str, limits: DocumentLimits, quota: Quota = UNBOUNDED
    ) -> Upload:
        """Begin to receive a document whose parts will follow; nobody sees it before it is finished.

        Raises:
            RequestTooLargeError: it is announced larger than any document may be.
            LimitExceededError: `UPLOADS_MAX` uploads are in progress.
            NotFoundError: it names an episode that is not here.
            QuotaExceededError: not even the upload itself fits the quota.
        """
        if draft.size_bytes is not None:
            limits.check(draft.size_bytes)

        def write(tx: Transaction) -> Upload:
            now = tx.tenant.now()
            _check_count(tx, now)
            check_episodes(tx, [draft.options.episode_id])
            document_id = DocumentId(tx.tenant.ids.new("doc_"))
            options = _options_to_json(draft.options)
            tx.execute(
                _SQL["add_upload"],
                id=document_id,
                name=draft.name,
                media_type=draft.media_type,
                announced_bytes=draft.size_bytes,
                options=options,
                now=now,
            )
            mark_due(tx, "documents", at=now + LIFE_MICROSECONDS)
            stored_bytes = row_bytes(draft.name, draft.media_type, options)
            grow_counters(tx, quota=quota, stored_bytes=stored_bytes)
            audit.record(tx, now=now, actor=actor, action="begin_upload", subject=document_id)
            return _upload(document_id, parts=0, size_bytes=0, waits_since=now)

        return await self._tenant.write(write)

    async def get_upload(self, document_id: DocumentId) -> Upload:
        """Return how much of an upload has arrived.

        Raises:
            NotFoundError: there is no such upload, or it is finished or has expired.
        """
        row = await self._tenant.read(lambda tx: find_upload(tx, document_id))
        if row.state != "uploading":
            raise NotFoundError("upload", document_id)
        return _upload_of(row)

    async def add_part(
        self,
        document_id: DocumentId,
        part: int,
        data: bytes,
        *,
        limits: DocumentLimits,
        quota: Quota = UNBOUNDED,
    ) -> Upload:
        """Store the next part, durably; parts count from 0. The last one again changes nothing.

        Raises:
            NotFoundError: there is no such upload, or it has expired.
            ConflictError: another part is due, or the last one was other bytes.
            InvalidRequestError: more has arrived than was announced; nothing of it stays.
            RequestTooLargeError: the document is larger than any may be; nothing of it stays.
            QuotaExceededError: the part exceeds the quota; those before it stay.
        """
        sha256 = (await asyncio.to_thread(hashlib.sha256, data)).digest()
        while True:
            row, rest = await self._tenant.read(partial(_read_upload, document_id=document_id))
            if part == row.parts - 1 and sha256 == row.part_sha256:
                return _upload_of(row)
            _check_turn(row, part)
            size_bytes = row.size_bytes + len(data)
            try:
                _check_size(row, size_bytes, limits)
            except InvalidRequestError:
                await self._drop_upload(row.number)
                raise
            pieces = await asyncio.to_thread(
                cut_pieces,
                self._tenant.codec,
                rest + data,
                first_place=row.size_bytes // DOCUMENT_PIECE_BYTES,
            )
            new = _Part(row, pieces, sha256, size_bytes)
            upload = await self._tenant.write(partial(_store_part, part=new, quota=quota))
            if upload is not None:
                return upload

    async def finish_upload(
        self, document_id: DocumentId, *, actor: str, quota: Quota, limits: DocumentLimits
    ) -> StoredDocument:
        """Turn an upload into a document, owned by a new memory, and queue it for indexing.

        The tier follows from the size, and from the beginning of the body whether it is text or has
        to be converted. Finished again, the first answer is given. If the project has a searched
        document of the same bytes, that one is the answer and the upload is gone.

        Raises:
            NotFoundError: there is no such upload, or it has expired.
            InvalidRequestError: nothing has arrived, or not as much as was announced, or the body
                is not the UTF-8 text that its media type says; nothing of it stays.
            QuotaExceededError: it exceeds the quota; nothing of it stays.
        """
        while True:
            row = await self._tenant.read(lambda tx: find_upload(tx, document_id))
            if row.state != "uploading":
                return StoredDocument(document=document_of(row))
            try:
                body = await self.read_upload(row, limits)
                finish = partial(_finish, body=body, actor=actor, quota=quota)
                stored = await self._tenant.write(finish)
            except (InvalidRequestError, QuotaExceededError):
                await self._drop_upload(row.number)
                raise
            if stored is not None:
                return stored

    async def abort_upload(self, document_id: DocumentId) -> bool:
        """Remove an upload that is not finished; False when there is none."""

        def write(tx: Transaction) -> bool:
            try:
                row = find_row(tx, document_id)
            except NotFoundError:
                return False
            return _delete_upload(tx, row.number)

        return await self._tenant.write(write)

    async def drop_expired_uploads(self) -> int:
        """Remove uploads that got no part for `UPLOAD_MINUTES`, each in a transaction; return how many."""
        since = self._tenant.now() - LIFE_MICROSECONDS
        rows = await self._tenant.read(
            lambda tx: tx.execute(_SQL["expired_uploads"], since=since).fetchall()
        )
        for (number,) in rows:
            await self._drop_upload(number)
        return len(rows)

    async def _drop_upload(self, number: int) -> None:
        await self._tenant.write(lambda tx: _delete_upload(tx, number))

    async def read_upload(self, row: DocumentRow, limits: DocumentLimits) -> UploadedBody:
        """Read the whole body, a piece at a time.

        Raises:
            InvalidRequestError: it is not what was announced.
        """
        if not row.size_bytes:
            raise InvalidRequestError("must not be empty", field="document")
        if row.announced_bytes not in (None, row.size_bytes):
            message = (
                f"{row.announced_bytes:,} bytes were announced, and {row.size_bytes:,} arrived"
            )
            raise InvalidRequestError(message, field="size")
        tenant, tier = self._tenant, limits.tier_of(row.size_bytes)
        scan = BodyScan(media_type=row.media_type, name=row.name)
        for place in range(-(-row.size_bytes // DOCUMENT_PIECE_BYTES)):
            await tenant.read(partial(_feed, row=row, place=place, scan=scan))
        synopsis = await tenant.read(lambda _: scan.finish())
        shown = None
        if synopsis is None or tier > 0:
            shown = tenant.codec.encode_alone(row.shown_name if synopsis is None else synopsis)
        is_text = synopsis is not None
        return UploadedBody(row=row, tier=tier, sha256=scan.sha256, is_text=is_text, shown=shown)


def _options_to_json(options: MemoryOptions) -> str:
    """Return the options of a memory as they are stored with its upload."""
    return json.dumps({**option_values(options), "tags": options.tags}, ensure_ascii=False)


def _options_from_json(text: str) -> MemoryOptions:
    values: dict[str, Any] = json.loads(text)
    values |= {**parse_times(values), "tags": tuple(values["tags"])}
    return MemoryOptions(**values)


def _check_count(tx: Transaction, now: int) -> None:
    (uploads,) = tx.execute(_SQL["count_uploads"], since=now - LIFE_MICROSECONDS).fetchone()
    if uploads >= bounds.UPLOADS_MAX:
        raise LimitExceededError(
            "uploads", limit=bounds.UPLOADS_MAX, actual=uploads + 1, unit="uploads at once"
        )


def find_upload(tx: Transaction, document_id: DocumentId) -> DocumentRow:
    """Return the row of an upload that has not expired, or of the document it has become.

    Raises:
        NotFoundError: there is none.
    """
    row = find_row(tx, document_id)
    if row.state == "uploading" and (row.waits_since or 0) + LIFE_MICROSECONDS <= tx.tenant.now():
        raise NotFoundError("upload", document_id)
    return row


def _read_upload(tx: Transaction, *, document_id: DocumentId) -> tuple[DocumentRow, bytes]:
    """Return the row of an upload, and the bytes of its last piece if that is not full."""
    row = find_upload(tx, document_id)
    place, size = divmod(row.size_bytes, DOCUMENT_PIECE_BYTES)
    if row.state != "uploading" or not size:
        return row, b""
    try:
        return row, read_piece(tx, Pieces(document=row.number), place)
    except ContentError as exc:
        raise StoreCorruptError(f"upload {document_id} cannot be read: {exc}") from exc


def _check_turn(row: DocumentRow, part: int) -> None:
    if row.state != "uploading":
        raise ConflictError(f"upload {row.id} is finished")
    if part == row.parts - 1:
        raise ConflictError(f"part {part} of upload {row.id} has arrived with other bytes")
    if part != row.parts:
        raise ConflictError(f"part {row.parts} of upload {row.id} is due, not part {part}")


def _check_size(row: DocumentRow, size_bytes: int, limits: DocumentLimits) -> None:
    limits.check(size_bytes)
    if row.announced_bytes is not None and size_bytes > row.announced_bytes:
        message = f"{row.announced_bytes:,} bytes were announced, and more have arrived"
        raise InvalidRequestError(message, field="size")


def is_unchanged(tx: Transaction, row: DocumentRow) -> bool:
    """Return True if no part of an upload has arrived since its row was read."""
    present = find_upload(tx, row.id)
    return (present.state, present.parts) == ("uploading", row.parts)


def _store_part(tx: Transaction, *, part: _Part, quota: Quota) -> Upload | None:
    """Store a part; None when another one has arrived first."""
    row, now = part.row, tx.tenant.now()
    if not is_unchanged(tx, row):
        return None
    added = put_pieces(tx, Pieces(document=row.number), part.pieces)
    grow_counters(tx, quota=quota, stored_bytes=added)
    values = {"sha256": part.sha256, "size_bytes": part.size_bytes}
    tx.execute(_SQL["add_part"], number=row.number, now=now, **values)
    return _upload(row.id, parts=row.parts + 1, size_bytes=part.size_bytes, waits_since=now)


def _delete_upload(tx: Transaction, number: int) -> bool:
    """Remove an upload and all that has arrived of it; False when it is none any more."""
    stored_bytes = measure_document(tx, number)
    removed = tx.execute(_SQL["delete_upload"], number=number).rowcount
    if removed:
        grow_counters(tx, stored_bytes=-stored_bytes - delete_pieces(tx, number))
    return bool(removed)


def _feed(tx: Transaction, *, row: DocumentRow, place: int, scan: BodyScan) -> None:
    try:
        data = read_piece(tx, Pieces(document=row.number), place)
    except ContentError as exc:
        find_row(tx, row.id)  # It may have been removed meanwhile.
        raise StoreCorruptError(f"upload {row.id} cannot be read: {exc}") from exc
    scan.feed(data)


def _finish(
    tx: Transaction, *, body: UploadedBody, actor: str, quota: Quota
) -> StoredDocument | None:
    """Store the document; None when another part has arrived since its body was read."""
    row = body.row
    if not is_unchanged(tx, row):
        return None
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    options = _options_from_json(row.options or "{}")
    same = tx.execute(
        _SQL["find_same"], sha256=body.sha256, project=options.project, now=now
    ).fetchone()
    if same is not None:
        _delete_upload(tx, row.number)
        return StoredDocument(document=document_of(find_row(tx, same[0])), is_duplicate=True)
    check_episodes(tx, [options.episode_id])
    upload_bytes = measure_document(tx, row.number)
    check_whole_quota(quota, state, upload_bytes + row.size_bytes)
    memory, memory_id = _add_document(tx, body, options, now)
    grow_counters(
        tx,
        quota=quota,
        content_bytes=row.size_bytes,
        stored_bytes=measure_document(tx, row.number) - upload_bytes + measure_memory(tx, memory),
    )
    audit.record(
        tx,
        now=now,
        actor=actor,
        action="memory_store_document",
        subject=memory_id,
        details={"document": row.id, "bytes": row.size_bytes},
    )
    return StoredDocument(document=document_of(find_row(tx, row.id)))


def check_whole_quota(quota: Quota, state: State, stored_bytes: int) -> None:
    """Refuse a document that does not fit as a whole: the quota may be less than when it began."""
    without = state._replace(used_bytes=state.used_bytes - stored_bytes)
    without.check_quota(quota, messages=1, stored_bytes=stored_bytes)


def _add_document(
    tx: Transaction, body: UploadedBody, options: MemoryOptions, now: int
) -> tuple[int, MemoryId]:
    """Add the memory that owns a document, and finish its upload; return the memory."""
    row, shown = body.row, body.shown
    memory_id = MemoryId(tx.tenant.ids.new("mem_"))
    memory = add_memory(
        tx,
        **option_values(options),
        id=memory_id,
        record=add_record(tx, memory_id, project=options.project, tags=options.tags, now=now),
        storage_mode="document",
        document_id=row.id,
        sha256=body.sha256 if shown is None else shown.sha256,
        created_at=now,
        updated_at=now,
    )
    tx.execute(
        _SQL["finish_upload"],
        number=row.number,
        memory=memory,
        tier=body.tier,
        sha256=body.sha256,
        is_converted=not body.is_text,
        text_bytes=row.size_bytes if body.is_text else None,
        content_encoding=None if shown is None else shown.encoding,
        content=None if shown is None else shown.content,
        now=now,
    )
    mark_due(tx, "documents")
    seal(tx, DOCUMENT, number=row.number)
    return memory, memory_id


def _upload_of(row: DocumentRow) -> Upload:
    waits_since = row.waits_since or 0
    return _upload(row.id, parts=row.parts, size_bytes=row.size_bytes, waits_since=waits_since)


def _upload(document_id: DocumentId, *, parts: int, size_bytes: int, waits_since: int) -> Upload:
    expires_at = from_microseconds(waits_since) + _LIFE
    return Upload(id=document_id, parts=parts, received_bytes=size_bytes, expires_at=expires_at)
