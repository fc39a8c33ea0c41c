"""Keep bodies in pieces of one size, each compressed and proved for itself, and read any bytes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.row_keys import piece_key
from engram.storage.codec import ContentCodec, ContentError, StoredContent
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("content/pieces.sql")

PIECE = "piece"
"""The encoding of a text that is not stored but refers to a document's bytes."""


@dataclass(frozen=True, slots=True)
class NewPiece:
    """A piece ready to be stored."""

    place: int
    stored: StoredContent


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The pieces of a document's body, or of the text made of it."""

    document: int
    is_text: bool = False

    def key(self, place: int) -> int:
        """Return the key of a piece."""
        return piece_key(self.document, is_text=self.is_text, place=place)

    def refer(self, start: int, end: int) -> str:
        """Return what is stored in the place of these bytes' text."""
        return f"{self.document}:{int(self.is_text)}:{start}:{end}"


def cut_pieces(codec: ContentCodec, data: bytes, *, first_place: int) -> list[NewPiece]:
    """Return the pieces of bytes that begin where a piece begins."""
    starts = range(0, len(data), DOCUMENT_PIECE_BYTES)
    return [
        NewPiece(place, codec.encode_bytes(data[start : start + DOCUMENT_PIECE_BYTES]))
        for place, start in enumerate(starts, first_place)
    ]


def put_pieces(tx: Transaction, target: Pieces, pieces: Iterable[NewPiece]) -> int:
    """Store pieces that follow each other; one that was not full is replaced.

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
    first = piece_key(document, is_text=False, place=0)
    last = piece_key(document + 1, is_text=False, place=0) - 1
    return _delete(tx, first, last)


def delete_text(tx: Transaction, document: int) -> int:
    """Remove the pieces of the text that was made of a document; return their bytes."""
    first = piece_key(document, is_text=True, place=0)
    last = piece_key(document + 1, is_text=False, place=0) - 1
    return _delete(tx, first, last)


def _delete(tx: Transaction, first: int, last: int) -> int:
    removed = tx.execute(_SQL["delete_pieces"], first=first, last=last)
    return sum(size_bytes for (size_bytes,) in removed.fetchall())


def read_piece(tx: Transaction, source: Pieces, place: int) -> bytes:
    """Return a proved piece.

    Raises:
        ContentError: it is missing, or cannot be read back.
    """
    row = tx.execute(_SQL["get_piece"], key=source.key(place)).fetchone()
    if row is None:
        raise ContentError("a piece of its document is missing")
    encoding, sha256, content = row
    return tx.tenant.codec.decode_bytes(content, encoding=encoding, sha256=sha256)


def pieces_between(start: int, end: int) -> Iterator[tuple[int, slice]]:
    """Yield the places of the pieces that hold some bytes, and which bytes of each these are."""
    for place in range(start // DOCUMENT_PIECE_BYTES, -(-end // DOCUMENT_PIECE_BYTES)):
        first = place * DOCUMENT_PIECE_BYTES
        yield place, slice(max(start - first, 0), min(end - first, DOCUMENT_PIECE_BYTES))


def read_bytes(tx: Transaction, source: Pieces, start: int, end: int) -> bytes:
    """Return some proved bytes, not many more than memory may hold at once.

    Raises:
        ContentError: a piece is missing, or cannot be read back.
    """
    return b"".join(
        read_piece(tx, source, place)[wanted] for place, wanted in pieces_between(start, end)
    )


def resolve(tx: Transaction, reference: bytes) -> bytes:
    """Return the bytes that a reference is to; they are still to be proved.

    Raises:
        ContentError: it is none, or a piece is missing or cannot be read back.
    """
    try:
        document, is_text, start, end = map(int, reference.split(b":"))
    except ValueError as exc:
        raise ContentError("it refers to no document") from exc
    source = Pieces(document=document, is_text=bool(is_text))
    return b"".join(
        _kept_piece(tx, source, place)[wanted] for place, wanted in pieces_between(start, end)
    )


def _kept_piece(tx: Transaction, source: Pieces, place: int) -> bytes:
    key = source.key(place)
    data = tx.tenant.piece_cache.get(key)
    if data is None:
        data = read_piece(tx, source, place)
        tx.tenant.piece_cache.put(key, data)
    return data
