"""Bodies of documents for tests: streams that behave and streams that do not."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

from engram.model.access import Principal
from engram.model.document import Document, DocumentDraft, StoredDocument
from engram.service import Service

TIER_1_BYTES = 700_000
"""More than a document of tier 0 has, and several steps of indexing."""


class CutError(Exception):
    """The other end is gone."""


async def stream(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def cut_after(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    raise CutError


async def store(
    service: Service, principal: Principal, body: bytes, draft: DocumentDraft | None = None
) -> StoredDocument:
    return await service.documents.store_stream(principal, draft or DocumentDraft(), stream(body))


async def body_of(service: Service, principal: Principal, document: Document) -> bytes:
    pieces = await service.documents.read_body(principal, document)
    return b"".join([piece async for piece in pieces])


async def index_all(service: Service, principal: Principal) -> int:
    """Do every step that waits; return how many there were."""
    steps = 0
    while await service.document_indexing.work(principal.organization_id):
        steps += 1
    return steps


def prose(size_bytes: int, *, seed: int = 0) -> bytes:
    """Return Markdown of about that size, in which no two sentences are the same."""
    chance = random.Random(seed)  # noqa: S311 - words, not secrets
    words = ["river", "stone", "winter", "harbour", "copper", "field", "lantern", "über", "日本"]
    lines, size = list[str](), 0
    while size < size_bytes:
        number = len(lines)
        line = f"Line {seed}.{number}: {' '.join(chance.choices(words, k=12))}.\n"
        line = f"\n## Section {number}\n\n{line}" if number % 40 == 0 else line
        lines.append(line)
        size += len(line.encode())
    return "".join(lines).encode()


def rows(home: Path, principal: Principal, statement: str) -> list[tuple[object, ...]]:
    """Return what a statement finds in the organisation's file."""
    path = home / "orgs" / f"{principal.organization_id}.db"
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(statement).fetchall()
        connection.commit()
        return found


def left_of_documents(home: Path, principal: Principal) -> tuple[object, ...]:
    """Return how many documents, pieces and memories are stored."""
    return rows(
        home,
        principal,
        "SELECT (SELECT count(*) FROM document), (SELECT count(*) FROM document_piece),"
        " (SELECT count(*) FROM memory)",
    )[0]
