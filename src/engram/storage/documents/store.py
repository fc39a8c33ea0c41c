"""The documents of one organisation: the bodies that some of its memories own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from itertools import islice

from engram.errors import InvalidRequestError
from engram.limits import DOCUMENT_PIECES_READ
from engram.model.document import ByteRange, Document
from engram.model.ids import DocumentId, MemoryId
from engram.storage import document_rows
from engram.storage.codec import ContentError
from engram.storage.content.pieces import Pieces, pieces_between, read_piece
from engram.storage.document_rows import DocumentRow, find_finished, unreadable
from engram.storage.documents.indexing import DocumentQueue
from engram.storage.documents.text import ConvertedTexts
from engram.storage.documents.uploads import UploadStore
from engram.storage.tenant import Transaction


class DocumentStore(UploadStore, DocumentQueue, ConvertedTexts):
    """The documents of one organisation."""

    async def get(self, document_ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        """Return those that exist; an upload is not one yet."""
        return await self._tenant.read(lambda tx: document_rows.get(tx, document_ids))

    async def of_memories(self, memory_ids: Sequence[MemoryId]) -> Mapping[MemoryId, Document]:
        """Return the documents of those of the memories that own one."""
        return await self._tenant.read(lambda tx: document_rows.of_memories(tx, memory_ids))

    async def headings_at(
        self, document_id: DocumentId, places: Sequence[int]
    ) -> Sequence[tuple[str, ...]]:
        """Return the headings that each byte of the text is under, the outermost first.

        Where the text is not indexed, or not yet, there are none.
        """
        return await self._tenant.read(
            lambda tx: document_rows.headings_at(tx, document_id, places)
        )

    async def read_body(
        self, document_id: DocumentId, wanted: ByteRange | None = None
    ) -> AsyncIterator[bytes]:
        """Yield a body's bytes in order, piece by piece, each verified against its hash.

        No transaction is open in between.

        Raises:
            NotFoundError: there is no such document.
            InvalidRequestError: the range begins past the end; one that only ends there is cut.
            StoreCorruptError: a piece's bytes do not match its hash.
        """
        row = await self._tenant.read(partial(find_finished, document_id=document_id))
        wanted = wanted or ByteRange(start=0, end=row.size_bytes)
        if wanted.start >= row.size_bytes:
            message = f"begins past the end, which is at {row.size_bytes:,} bytes"
            raise InvalidRequestError(message, field="range")
        end = min(wanted.end, row.size_bytes)
        async for data in self._read(row, Pieces(document=row.number), wanted.start, end):
            yield data

    async def read_text(
        self, document_id: DocumentId, wanted: ByteRange | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the UTF-8 of the searched text: the body, or what it was converted to.

        A range may split characters at its ends. Past the end, or while there is no text, there are
        no bytes.
        """
        row = await self._tenant.read(partial(find_finished, document_id=document_id))
        end = row.text_bytes or 0
        wanted = wanted or ByteRange(start=0, end=max(end, 1))
        async for data in self._read(row, row.text_pieces, wanted.start, min(wanted.end, end)):
            yield data

    async def _read(
        self, row: DocumentRow, source: Pieces, start: int, end: int
    ) -> AsyncIterator[bytes]:
        places = pieces_between(start, end)
        while some := tuple(islice(places, DOCUMENT_PIECES_READ)):
            yield await self._tenant.read(
                partial(_read_pieces, row=row, source=source, places=some)
            )


def _read_pieces(
    tx: Transaction, *, row: DocumentRow, source: Pieces, places: Sequence[tuple[int, slice]]
) -> bytes:
    """Return parts of some pieces, concatenated."""
    try:
        return b"".join(read_piece(tx, source, place)[part] for place, part in places)
    except ContentError as exc:
        raise unreadable(tx, row, exc) from exc
