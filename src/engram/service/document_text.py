"""The text of a document on its way to the index: converted where it has to be, and cut into chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engram.errors import ConversionError
from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.access import Quota
from engram.model.document import Document
from engram.storage.documents.indexing import UnindexedText
from engram.storage.documents.store import DocumentStore
from engram.text.documents import DocumentChunk, DocumentChunker
from engram.text.utf8 import Utf8Reader

if TYPE_CHECKING:
    from engram.convert.kinds import Kind


def cut_text(text: UnindexedText) -> list[DocumentChunk]:
    """Return the chunks that are certain in the next text of a document."""
    reader = Utf8Reader(offset_bytes=text.state.read_from_bytes)
    chunker = DocumentChunker(text.state)
    chunks = chunker.feed(reader.feed(text.data))
    if text.is_last:
        reader.finish()
        chunks += chunker.finish()
    return chunks


async def convert_body(documents: DocumentStore, document: Document, *, quota: Quota) -> None:
    """Convert a body to text, or record why that failed.

    Raises:
        ConverterMissingError: what converts it is not installed; nothing is kept of that.
    """
    # Most processes never convert anything.
    import tempfile  # noqa: PLC0415

    from engram.convert.kinds import document_kind  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="engram-") as directory:
        source, target = Path(directory, "source"), Path(directory, "text")
        head = await _write_body(documents, document, source)
        kind = document_kind(head, media_type=document.media_type, name=document.name)
        try:
            await _convert(source, target, kind=kind, media_type=document.media_type)
        except ConversionError as exc:
            await documents.put_text(document.id, None, problem=exc.message)
        else:
            await documents.put_text(document.id, _pieces(target), quota=quota)


async def _convert(source: Path, target: Path, *, kind: Kind, media_type: str) -> None:
    if kind == "text":
        raise ConversionError("it is neither text in UTF-8 nor a kind that text is made of")
    from engram.convert.kinds import declared_charset  # noqa: PLC0415
    from engram.convert.run import convert_file  # noqa: PLC0415

    charset = declared_charset(media_type)
    await asyncio.to_thread(partial(convert_file, source, target, kind=kind, charset=charset))


async def _write_body(documents: DocumentStore, document: Document, path: Path) -> bytes:
    """Write a body to a file, and return how it begins."""
    head = b""
    with path.open("wb") as file:
        async for piece in documents.read_body(document.id):
            head = head or piece
            await asyncio.to_thread(file.write, piece)
    return head


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(DOCUMENT_PIECE_BYTES):
            yield piece
