"""How fast documents are stored, indexed and asked, and what memory a large one takes of a server."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

from bench.figures import Figure, allowed
from bench.filling import new_organization
from bench.growth import Growth
from bench.opening import open_parts
from bench.prose import paragraphs
from bench.spans import span_figures
from bench.timing import Spent, Stopwatch, timed
from engram.embedding.choice import NoEmbedder
from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.document import DocumentDraft
from engram.settings import Settings
from engram.text.documents import DocumentChunker
from engram.text.utf8 import Utf8Reader
from tools.server import Server, running_server

FULL_BYTES = 50_000_000
QUICK_BYTES = 5_000_000
MB_MORE = 64
READ_BYTES = 1_048_576
LEVEL = 3
WARM_MESSAGES = 20
WARM_CHARACTERS = 2_000
TIMEOUT_S = 1_800
LOOP = "bare loop: read, hash, compress"


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of documents."""
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        path = Path(directory, "document.md")
        text = "".join(paragraphs(QUICK_BYTES if quick else FULL_BYTES))
        path.write_bytes(text.encode()[:FULL_BYTES])
        return [*_rates(path), *span_figures(path.read_bytes()), *_memory_figures(path)]


@dataclass(frozen=True, slots=True)
class _Spent:
    stored: Spent
    indexed: Spent


def _rates(path: Path) -> list[Figure]:
    """Return MB/s of storing, chunking and indexing by words, beside the bare loop."""
    megabytes = path.stat().st_size / 1_000_000
    bare = timed(lambda: _bare_loop(path))
    chunked = timed(lambda: _chunk(path))
    spent = asyncio.run(_store(path))
    figures = {
        "stored": spent.stored,
        "cut into chunks, nothing stored": chunked,
        "chunked, analysed and indexed by words": spent.indexed,
    }
    return [
        Figure(
            name=f"document of {megabytes:.0f} MB {name}",
            value=megabytes / each.wall_s,
            unit="MB/s",
            floor=megabytes / bare.wall_s,
            floor_name=LOOP,
            direction="at least",
            bound=None,
        )
        for name, each in figures.items()
    ]


def _bare_loop(path: Path) -> None:
    whole, compressor = hashlib.sha256(), zstandard.ZstdCompressor(level=LEVEL)
    with path.open("rb") as file:
        while piece := file.read(DOCUMENT_PIECE_BYTES):
            whole.update(piece)
            hashlib.sha256(piece).digest()
            compressor.compress(piece)


def _chunk(path: Path) -> None:
    reader, chunker = Utf8Reader(), DocumentChunker()
    with path.open("rb") as file:
        while piece := file.read(DOCUMENT_PIECE_BYTES):
            chunker.feed(reader.feed(piece))
    chunker.finish()


async def _store(path: Path) -> _Spent:
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        settings = Settings(home=Path(directory), embedder=NoEmbedder())
        async with open_parts(settings) as parts:
            principal = await new_organization(parts.service)
            watch = Stopwatch()
            await parts.service.documents.store_stream(principal, DocumentDraft(), _read(path))
            stored = watch.spent()
            watch = Stopwatch()
            while await parts.service.document_indexing.work(principal.organization_id):
                pass
            return _Spent(stored, watch.spent())


async def _read(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            yield data


def _memory_figures(path: Path) -> list[Figure]:
    """Return by how much a server grows at most while it takes, indexes and gives a document."""
    with running_server(LOG="error") as server:
        token = server.create_organization("bench")
        _warm(server, token)
        figures = list[Figure]()
        document = ""

        def upload() -> None:
            nonlocal document
            document = _upload(server, token, path)

        for name, work in (
            ("upload", upload),
            ("indexing", lambda: _wait_until_indexed(server, token, document)),
            ("download", lambda: _download(server, token, document, path)),
        ):
            more = _growth_mb(server, work)
            label = f"memory of a server more by the {name} of {path.stat().st_size:,} bytes"
            figures.append(allowed(label, more, unit="MB", at_most=MB_MORE))
        return figures


def _warm(server: Server, token: str) -> None:
    """Have the models loaded, and every path gone once."""
    texts = ["".join(paragraphs(WARM_CHARACTERS))[:WARM_CHARACTERS] for _ in range(WARM_MESSAGES)]
    messages = [{"role": "user", "content": text} for text in texts]
    server.post("/api/v1/messages", {"messages": messages}, token=token)
    server.post("/api/v1/search", {"query": "anything"}, token=token)
    server.wait_until_indexed(token=token, timeout_s=TIMEOUT_S)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "small.md")
        path.write_text("".join(paragraphs(400_000)))
        document = _upload(server, token, path)
        _wait_until_indexed(server, token, document)
        _download(server, token, document, path)


def _upload(server: Server, token: str, path: Path) -> str:
    connection = _connect(server)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "text/markdown"}
    with path.open("rb") as file:
        connection.request("POST", "/api/v1/documents", file, headers, encode_chunked=True)
        answer = connection.getresponse()
        body = answer.read().decode()
    assert answer.status == 201, body
    found = re.search(r'"document_id":"(\w[\w-]*)"', body)
    assert found is not None, body
    return found[1]


def _download(server: Server, token: str, document: str, path: Path) -> None:
    connection = _connect(server)
    headers = {"Authorization": f"Bearer {token}"}
    connection.request("GET", f"/api/v1/documents/{document}", headers=headers)
    answer, digest = connection.getresponse(), hashlib.sha256()
    while data := answer.read(READ_BYTES):
        digest.update(data)
    assert digest.digest() == hashlib.sha256(path.read_bytes()).digest()


def _wait_until_indexed(server: Server, token: str, document: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    path = f"/api/v1/documents/{document}/status"
    while server.get(path, token=token)["state"] != "indexed":
        if time.monotonic() > deadline:
            sys.exit("the document was not indexed")
        time.sleep(0.2)


def _connect(server: Server) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)


def _growth_mb(server: Server, work: Callable[[], None]) -> float:
    """Return how much more memory a server had during a piece of work than before it."""
    growth = Growth(server.pid)
    work()
    return growth.peak_mb()
