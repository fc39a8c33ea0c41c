"""Make what has arrived of an upload a document, owned by a new memory, in one transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

from engram.errors import InvalidRequestError, QuotaExceededError, StoreCorruptError
from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.access import Quota
from engram.model.document import DocumentLimits, DocumentTier, StoredDocument
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import MemoryOptions
from engram.storage.bodies.records import add_record
from engram.storage.bodies.rows import DocumentRow, document_of, find_row
from engram.storage.bodies.scan import BodyScan
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.state import State
from engram.storage.bookkeeping.stored_size import measure_document, measure_memory
from engram.storage.codec import ContentError, StoredContent
from engram.storage.content.pieces import Pieces, read_piece
from engram.storage.documents.uploads import delete_upload, drop_upload, find_upload
from engram.storage.memories.options import options_from_json
from engram.storage.memories.rows import microseconds
from engram.storage.memories.storing import check_episodes
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.words.rebuild import clear_state

_SQL = load_queries("documents/documents.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrived:
    """A whole upload, read once, ready for its transaction."""

    row: DocumentRow
    tier: DocumentTier
    sha256: bytes
    is_text: bool
    shown: StoredContent | None
    """What the memory shows; None where that is the body itself."""
    actor: str
    quota: Quota

    @property
    def options(self) -> MemoryOptions:
        """Return what the memory shall be."""
        return options_from_json(self.row.options or "{}")


async def finish_upload(
    tenant: Tenant, document_id: DocumentId, *, actor: str, quota: Quota, limits: DocumentLimits
) -> StoredDocument:
    """Make an upload a document that waits for its index; what cannot be one is removed."""
    find = partial(find_upload, document_id=document_id)
    while True:
        row = await tenant.read(find)
        if row.state != "uploading":
            return StoredDocument(document=document_of(row))
        try:
            arrived = await _read(tenant, row, actor=actor, quota=quota, limits=limits)
            stored = await tenant.write(partial(_transact, arrived=arrived))
        except (InvalidRequestError, QuotaExceededError):
            await drop_upload(tenant, row.number)
            raise
        if stored is not None:
            return stored


async def _read(
    tenant: Tenant, row: DocumentRow, *, actor: str, quota: Quota, limits: DocumentLimits
) -> _Arrived:
    """Read the whole body, a piece at a time.

    Raises:
        InvalidRequestError: it is not what was announced.
    """
    _check_size(row)
    tier = limits.tier_of(row.size_bytes)
    scan = BodyScan(media_type=row.media_type, name=row.name)
    for place in range(-(-row.size_bytes // DOCUMENT_PIECE_BYTES)):
        await tenant.read(partial(_feed, row=row, place=place, scan=scan))
    synopsis = await tenant.read(lambda _: scan.finish())
    shown = None
    if synopsis is None or tier > 0:
        shown = tenant.codec.encode(row.shown_name if synopsis is None else synopsis)
    return _Arrived(
        row=row,
        tier=tier,
        sha256=scan.sha256,
        is_text=synopsis is not None,
        shown=shown,
        actor=actor,
        quota=quota,
    )


def _check_size(row: DocumentRow) -> None:
    if not row.size_bytes:
        raise InvalidRequestError("must not be empty", field="document")
    if row.announced_bytes not in (None, row.size_bytes):
        message = f"{row.announced_bytes:,} bytes were announced, and {row.size_bytes:,} arrived"
        raise InvalidRequestError(message, field="size")


def _feed(tx: Transaction, *, row: DocumentRow, place: int, scan: BodyScan) -> None:
    try:
        data = read_piece(tx, Pieces(document=row.number), place)
    except ContentError as exc:
        find_row(tx, row.id)  # It may have been removed meanwhile.
        raise StoreCorruptError(f"upload {row.id} cannot be read: {exc}") from exc
    scan.feed(data)


def _transact(tx: Transaction, *, arrived: _Arrived) -> StoredDocument | None:
    """Store the document; None when the upload is not what was read any more."""
    row = arrived.row
    present = find_upload(tx, row.id)
    if (present.state, present.parts) != ("uploading", row.parts):
        return None
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    options = arrived.options
    same = tx.execute(
        _SQL["find_same"], sha256=arrived.sha256, project=options.project, now=now
    ).fetchone()
    if same is not None:
        delete_upload(tx, row.number)
        found = document_of(find_row(tx, same[0]))
        return StoredDocument(document=found, is_duplicate=True)
    check_episodes(tx, [options.episode_id])
    upload_bytes = measure_document(tx, row.number)
    _check_quota(arrived, state, upload_bytes + row.size_bytes)
    _add(tx, arrived, options, upload_bytes=upload_bytes, now=now)
    return StoredDocument(document=document_of(find_row(tx, row.id)))


def _check_quota(arrived: _Arrived, state: State, stored_bytes: int) -> None:
    """Refuse a document that does not fit as a whole: the quota may be less than when it began."""
    without = state._replace(used_bytes=state.used_bytes - stored_bytes)
    without.check_quota(arrived.quota, messages=1, stored_bytes=stored_bytes)


def _add(
    tx: Transaction, arrived: _Arrived, options: MemoryOptions, *, upload_bytes: int, now: int
) -> None:
    row, shown = arrived.row, arrived.shown
    memory_id = MemoryId(tx.tenant.ids.new("mem_"))
    record = add_record(tx, memory_id, project=options.project, tags=options.tags, now=now)
    (memory,) = tx.execute(
        _SQL["add_memory"],
        **_memory_values(options),
        id=memory_id,
        record=record,
        document_id=row.id,
        sha256=arrived.sha256 if shown is None else shown.sha256,
        now=now,
    ).fetchone()
    tx.execute(
        _SQL["finish_upload"],
        number=row.number,
        memory=memory,
        tier=arrived.tier,
        sha256=arrived.sha256,
        is_converted=not arrived.is_text,
        text_bytes=row.size_bytes if arrived.is_text else None,
        content_encoding=None if shown is None else shown.encoding,
        content=None if shown is None else shown.content,
        now=now,
    )
    after = measure_document(tx, row.number)
    grow_counters(
        tx,
        quota=arrived.quota,
        content_bytes=row.size_bytes,
        stored_bytes=after - upload_bytes + measure_memory(tx, memory),
    )
    audit.record(
        tx,
        now=now,
        actor=arrived.actor,
        action="memory_store_document",
        subject=memory_id,
        details={"document": row.id, "bytes": row.size_bytes},
    )


def _memory_values(options: MemoryOptions) -> dict[str, object]:
    return {
        "project": options.project,
        "memory_type": options.memory_type,
        "category": options.category,
        "source": options.source,
        "importance": options.importance,
        "tags": json.dumps(options.tags, ensure_ascii=False),
        "immutable": options.immutable,
        "episode_id": options.episode_id,
        "pattern_confidence": options.pattern_confidence,
        "valid_from": microseconds(options.valid_from),
        "valid_to": microseconds(options.valid_to),
        "expires_at": microseconds(options.expires_at),
    }
