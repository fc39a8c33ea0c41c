"""The text of documents: proving that a body is text, and storing what another body was converted to."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from engram.clock import from_microseconds
from engram.convert.kinds import document_kind
from engram.errors import ConflictError, QuotaExceededError
from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.access import UNBOUNDED, Quota
from engram.model.conversation import MessageDraft
from engram.model.ids import DocumentId
from engram.model.vectors import WORDS_ALONE
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.row_hashes import MEMORY, MEMORY_VERSION, changing
from engram.storage.codec import StoredContent
from engram.storage.content.messages import prepare_messages
from engram.storage.content.pieces import NewPiece, Pieces, cut_pieces, delete_text, put_pieces
from engram.storage.document_rows import DocumentRow, get_row
from engram.storage.documents.indexing import NewChunks, add_chunks, end_indexing
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, TenantStore, Transaction
from engram.text.summary import SynopsisWriter
from engram.text.utf8 import Utf8Reader

_SQL = load_queries("documents/documents.sql")
_BATCH_PIECES = 16
"""Pieces of a converted text in memory at once, and stored in one transaction."""

_NO_TEXT = "there is no text in it"


class TextScan:
    """Decodes UTF-8 incrementally, and writes its synopsis."""

    def __init__(self) -> None:
        self._reader = Utf8Reader()
        self._writer = SynopsisWriter()

    def feed(self, data: bytes) -> None:
        """Read the next bytes.

        Raises:
            NotTextError: this is not UTF-8.
        """
        self._writer.feed(self._reader.feed(data))

    def finish(self) -> str:
        """Return the synopsis.

        Raises:
            NotTextError: the text ends inside of a character.
        """
        self._writer.feed(self._reader.finish())
        return self._writer.finish()


class BodyScan:
    """Hashes a body incrementally, and scans it as text if its first bytes are that."""

    def __init__(self, *, media_type: str, name: str | None) -> None:
        self._media_type = media_type
        self._name = name
        self._digest = hashlib.sha256()
        self._text: TextScan | None = None
        self._is_begun = False

    def feed(self, data: bytes) -> None:
        """Read the next bytes.

        Raises:
            NotTextError: this must be UTF-8 and is not.
        """
        if not self._is_begun:
            self._is_begun = True
            kind = document_kind(data, media_type=self._media_type, name=self._name)
            self._text = TextScan() if kind == "text" else None
        self._digest.update(data)
        if self._text is not None:
            self._text.feed(data)

    @property
    def sha256(self) -> bytes:
        """Return the hash of what was read."""
        return self._digest.digest()

    def finish(self) -> str | None:
        """Return the synopsis; None if the body is not text.

        Raises:
            NotTextError: the text ends inside of a character.
        """
        return None if self._text is None else self._text.finish()


@dataclass(slots=True)
class _Received:
    """What has been stored of a text so far."""

    quota: Quota
    scan: TextScan = field(default_factory=TextScan)
    size_bytes: int = 0
    hashes: list[bytes] = field(default_factory=list[bytes])


class ConvertedTexts(TenantStore):
    """Stores the texts that bodies were converted to."""

    async def put_text(
        self,
        document_id: DocumentId,
        text: Iterable[bytes] | None,
        *,
        problem: str | None = None,
        quota: Quota = UNBOUNDED,
    ) -> None:
        """Store the UTF-8 that a body was converted to, or record why the conversion failed.

        The text is consumed in a thread, and stored in several transactions. With a problem, without
        any text, or with one that exceeds the quota, the document is unreadable, and found by its
        name. Of a document that does not need a text, or is gone, nothing is changed.

        Raises:
            NotTextError: it is not UTF-8.
        """
        tenant = self._tenant
        row = await tenant.read(lambda tx: _find_without_text(tx, document_id))
        if row is None:
            return
        received = _Received(quota)
        pieces = _split(text or ())
        while batch := await asyncio.to_thread(_take_batch, tenant, pieces, received):
            try:
                await tenant.write(partial(_store_pieces, row=row, batch=batch, received=received))
            except QuotaExceededError as exc:
                problem = exc.message
                break
            received.hashes += [piece.stored.sha256 for piece in batch]
        if not received.size_bytes or problem is not None:
            await _end_unreadable(tenant, row, problem or _NO_TEXT)
            return
        shown = tenant.codec.encode_alone(await asyncio.to_thread(received.scan.finish))
        await tenant.write(partial(_end, row=row, received=received, shown=shown))


def _find_without_text(tx: Transaction, document_id: DocumentId) -> DocumentRow | None:
    """Return the row of a document that waits for its text."""
    row = get_row(tx, document_id)
    is_waiting = row is not None and row.state == "indexing" and row.text_bytes is None
    return row if is_waiting else None


def _split(text: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a text in pieces of one size."""
    rest = bytearray()
    for data in text:
        rest += data
        while len(rest) >= DOCUMENT_PIECE_BYTES:
            yield bytes(rest[:DOCUMENT_PIECE_BYTES])
            del rest[:DOCUMENT_PIECE_BYTES]
    if rest:
        yield bytes(rest)


def _take_batch(tenant: Tenant, pieces: Iterator[bytes], received: _Received) -> list[NewPiece]:
    """Return the next pieces, scanned and compressed."""
    batch: list[NewPiece] = []
    for piece in pieces:
        received.scan.feed(piece)
        place = received.size_bytes // DOCUMENT_PIECE_BYTES
        batch += cut_pieces(tenant.codec, piece, first_place=place)
        received.size_bytes += len(piece)
        if len(batch) >= _BATCH_PIECES:
            break
    return batch


def _store_pieces(
    tx: Transaction, *, row: DocumentRow, batch: list[NewPiece], received: _Received
) -> None:
    if _find_without_text(tx, row.id) is None:
        return
    # The first batch replaces the text of a conversion that was given up.
    removed = 0 if received.hashes else delete_text(tx, row.number)
    added = put_pieces(tx, Pieces(document=row.number, is_text=True), batch)
    grow_counters(tx, quota=received.quota, stored_bytes=added - removed)


def _end(tx: Transaction, *, row: DocumentRow, received: _Received, shown: StoredContent) -> None:
    if _find_without_text(tx, row.id) is None:
        return
    pieces = Pieces(document=row.number, is_text=True)
    last = pieces.key(len(received.hashes))
    rows = tx.execute(_SQL["text_hashes"], first=pieces.key(0), last=last)
    if [sha256 for (sha256,) in rows] != received.hashes:
        raise ConflictError(f"document {row.id} is converted by another process, too")
    _put(tx, row, shown, text_bytes=received.size_bytes, problem=None)


async def _end_unreadable(tenant: Tenant, row: DocumentRow, problem: str) -> None:
    """Record why a document has no text, and index it by its name."""
    valid_from = None if row.valid_from is None else from_microseconds(row.valid_from)
    draft = MessageDraft(role="document", content=row.shown_name, occurred_at=valid_from)
    messages = (await prepare_messages([draft], tenant.codec)).messages
    shown = tenant.codec.encode_alone(row.shown_name)

    def write(tx: Transaction) -> None:
        present = _find_without_text(tx, row.id)
        if present is None or present.record is None:
            return
        grow_counters(tx, stored_bytes=-delete_text(tx, row.number))
        add_chunks(tx, NewChunks(present, present.record, messages, WORDS_ALONE))
        _put(tx, present, shown, text_bytes=0, problem=problem)
        end_indexing(tx, present, state="unreadable")

    await tenant.write(write)


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
    values = {"memory": row.memory, "sha256": shown.sha256}
    with changing(tx, MEMORY, number=row.memory):
        tx.execute(_SQL["put_memory_hash"], **values)
    with changing(tx, MEMORY_VERSION, memory=row.memory):
        tx.execute(_SQL["put_version_hashes"], **values)
