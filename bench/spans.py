"""How long it takes until a regular expression's only match in a large document is answered."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import re2
import zstandard

from bench.figures import Figure
from bench.filling import new_organization
from bench.opening import open_parts
from bench.timing import Spent, Stopwatch, fastest_wall, timed
from engram.embedding.choice import NoEmbedder
from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.document import DocumentDraft, DocumentQuery, TextFilter
from engram.settings import Settings

ROUNDS = 5
LEVEL = 3
PATTERN = "[A-Z]{2}-[0-9]{4}-[a-z]+"
SOUGHT = b"\n\nThe number of the last shelf is QX-4711-quokka.\n"
"""At the end of the document: everything before it has to be read."""


def span_figures(body: bytes) -> list[Figure]:
    """Return the time of a query for what stands at a document's end, beside two bare loops."""
    text = body + SOUGHT
    compressor = zstandard.ZstdCompressor(level=LEVEL)
    pieces = [compressor.compress(piece) for piece in _pieces(text)]
    asked = asyncio.run(_ask(text))
    scanned = [timed(lambda: _scan(text)) for _ in range(ROUNDS)]
    read = [timed(lambda: _read_and_scan(pieces)) for _ in range(ROUNDS)]
    name = f"first span of a regex in a document of {len(text) / 1_000_000:.0f} MB, at its end"
    return [
        _figure(name, asked, scanned, floor_name="bare scan with RE2, in memory", bound=None),
        _figure(
            name, asked, read, floor_name="bare loop: decompress, hash, scan with RE2", bound=2.0
        ),
    ]


def _figure(
    name: str,
    asked: Sequence[Spent],
    bare: Sequence[Spent],
    *,
    floor_name: str,
    bound: float | None,
) -> Figure:
    return Figure(
        name=name,
        value=1_000 * fastest_wall(asked),
        unit="ms",
        floor=1_000 * fastest_wall(bare),
        floor_name=floor_name,
        direction="at most",
        bound=bound,
    )


async def _ask(text: bytes) -> list[Spent]:
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        settings = Settings(home=Path(directory), embedder=NoEmbedder())
        async with open_parts(settings) as parts:
            principal = await new_organization(parts.service)
            stored = await parts.service.documents.store_stream(
                principal, DocumentDraft(), _stream(text)
            )
            query = DocumentQuery(
                memory_ids=(stored.document.memory_id,),
                question="which shelf?",
                filter=TextFilter(regex=PATTERN),
                semantic=False,
            )
            rounds = list[Spent]()
            for _ in range(ROUNDS):
                watch = Stopwatch()
                answer = await parts.service.search.query_document(principal, query)
                rounds.append(watch.spent())
                (span,) = answer.spans
                assert "QX-4711-quokka" in span.text
            return rounds


def _scan(text: bytes) -> None:
    assert re2.compile(PATTERN, re2.Options()).search(text, 0, len(text)) is not None


def _read_and_scan(pieces: Sequence[bytes]) -> None:
    decompressor, pattern = zstandard.ZstdDecompressor(), re2.compile(PATTERN, re2.Options())
    found = 0
    for piece in pieces:
        text = decompressor.decompress(piece)
        hashlib.sha256(text).digest()
        found += pattern.search(text, 0, len(text)) is not None
    assert found == 1


async def _stream(text: bytes) -> AsyncIterator[bytes]:
    for piece in _pieces(text):
        yield piece


def _pieces(text: bytes) -> list[bytes]:
    starts = range(0, len(text), DOCUMENT_PIECE_BYTES)
    return [text[start : start + DOCUMENT_PIECE_BYTES] for start in starts]
