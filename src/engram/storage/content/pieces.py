"""Bodies of documents in pieces of one size, each compressed and hashed separately."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.row_keys import piece_key
from engram.model.value import Value
from engram.storage.codec import ContentCodec, ContentError, StoredContent
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("content/content.sql")

PIECE = "piece"
"""The encoding of a text that is a reference to a document's bytes."""

_REFERENCE = re.compile(rb"(\d{1,11}):([01]):(\d{1,9}):(\d{1,9})")
"""What `Pieces.refer` writes; the digits are those of numbers that a row key can hold."""


class NewPiece(NamedTuple):
    """A piece ready to be stored."""

    place: int
    stored: StoredContent


class Pieces(Value):
    """The pieces of a document's body, or of the text made of it."""

    document: int
    is_text: bool = False

    def key(self, place: int) -> int:
        """Return the key of a piece."""
        return piece_key(self.document, is_text=self.is_text, place=place)

    def refer(self, start: int, end: int) -> str:
        """Return a reference to some bytes, which is stored in place of their text."""
        return f"{self.document}:{int(self.is_text)}:{start}:{end}"


def cut_pieces(codec: ContentCodec, data: bytes, *, first_place: int) -> list[NewPiece]:
    """Split bytes that begin at the start of a piece, and compress each piece."""
    starts = range(0, len(data), DOCUMENT_PIECE_BYTES)
    return [
        NewPiece(place, codec.encode_bytes(data[start : start + DOCUMENT_PIECE_BYTES]))
        for place, start in enumerate(starts, first_place)
    ]


def put_pieces(tx: Transaction, target: Pieces, pieces: Iterable[NewPiece]) -> int:
    """Store contiguous pieces; one that was not full is replaced.

    Returns by how many bytes the document has grown.
    """
    rows: list[dict[str, Any]] = [
        {
            "key": target.key(piece.place),
            "size_bytes": piece.stored.content_bytes,
            "content_encoding": piece.stored.encoding,
            "sha256": piece.stored.sha256,
            "content": piece.stored.content,
        }
        for piece in pieces
    ]
    if not rows:
        return 0
    replaced = _delete(tx, rows[0]["key"], rows[-1]["key"])
    tx.execute_many(_SQL["add_piece"], rows)
    return sum(row["size_bytes"] for row in rows) - replaced


def delete_pieces(tx: Transaction, document: int) -> int:
    """Remove all pieces of a document; return their bytes."""
    return _delete(tx, Pieces(document=document).key(0), Pieces(document=document + 1).key(0) - 1)


def measure_pieces(tx: Transaction, document: int) -> int:
    """Return the bytes of all pieces of a document."""
    first, last = Pieces(document=document).key(0), Pieces(document=document + 1).key(0) - 1
    return tx.execute(_SQL["measure_pieces"], first=first, last=last).fetchone()[0]


def delete_text(tx: Transaction, document: int) -> int:
    """Remove the pieces of the text that a document was converted to; return their bytes."""
    first = Pieces(document=document, is_text=True).key(0)
    return _delete(tx, first, Pieces(document=document + 1).key(0) - 1)


def _delete(tx: Transaction, first: int, last: int) -> int:
    removed = tx.execute(_SQL["delete_pieces"], first=first, last=last)
    return sum(size_bytes for (size_bytes,) in removed.fetchall())


def read_piece(tx: Transaction, source: Pieces, place: int) -> bytes:
    """Return a piece, verified against its hash, or raise `ContentError`."""
    row = tx.execute(_SQL["get_piece"], key=source.key(place)).fetchone()
    if row is None:
        raise ContentError("a piece of its document is missing")
    encoding, sha256, content = row
    return tx.tenant.codec.decode_bytes(content, encoding=encoding, sha256=sha256)


def pieces_between(start: int, end: int) -> Iterator[tuple[int, slice]]:
    """Yield the places of the pieces that contain some bytes, and which bytes of each."""
    for place in range(start // DOCUMENT_PIECE_BYTES, -(-end // DOCUMENT_PIECE_BYTES)):
        first = place * DOCUMENT_PIECE_BYTES
        yield place, slice(max(start - first, 0), min(end - first, DOCUMENT_PIECE_BYTES))


def read_bytes(tx: Transaction, source: Pieces, start: int, end: int) -> bytes:
    """Return some verified bytes, or raise `ContentError`; the caller bounds their number."""
    return b"".join(
        read_piece(tx, source, place)[wanted] for place, wanted in pieces_between(start, end)
    )


def parse_reference(reference: bytes) -> tuple[Pieces, int, int]:
    """Return the body or text that a stored reference is to, and the range of its bytes.

    Raises:
        ContentError: it is none; a damaged one must not reach the database as a number.
    """
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise ContentError("it refers to no document")
    document, is_text, start, end = map(int, found.groups())
    return Pieces(document=document, is_text=bool(is_text)), start, end


def resolve(tx: Transaction, reference: bytes) -> bytes:
    """Return the bytes that a reference is to, or raise `ContentError`.

    The caller verifies them against the hash of the text.
    """
    source, start, end = parse_reference(reference)
    return b"".join(
        _cached_piece(tx, source, place)[wanted] for place, wanted in pieces_between(start, end)
    )


def _cached_piece(tx: Transaction, source: Pieces, place: int) -> bytes:
    key = source.key(place)
    data = tx.tenant.piece_cache.get(key)
    if data is None:
        data = read_piece(tx, source, place)
        tx.tenant.piece_cache.put(key, data)
    return data
