"""kill -9 while documents are indexed: the index finishes by itself, and every byte comes back."""

from __future__ import annotations

import asyncio
import random
import sys
import sysconfig
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from engram.embedding.tiers import Tiers
from engram.model.access import OrganizationDraft, Quota
from engram.model.document import DocumentDraft, DocumentLimits
from engram.model.ids import DocumentId
from engram.service.work.document_indexing import DocumentIndexing
from engram.service.work.indexing import Indexer
from engram.storage.documents.store import DocumentStore
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.meaning.hashing import QuickEmbedder
from tests.meaning.programs.killed_documents import LaterClock
from tests.promises import promise
from tests.service.bodies import prose, stream
from tests.storage.places import is_database, store_at

KILLS = 20
DATABASE_KILLS = 8
"""There, a killed process leaves nothing behind that the next has to recover."""
DOCUMENTS = 200
REAL = 60
PROJECT = Path(__file__).parents[2]
SIZES = DocumentLimits(body_bytes_max=600_000)
"""Tier 2 begins early, so that all tiers fit into a test."""


@pytest.fixture
async def store(place: str) -> AsyncIterator[Store]:
    """Yield an open store whose clock is later than that of every process that gets killed."""
    store = store_at(place, clock=LaterClock(KILLS))
    await store.open()
    yield store
    await store.close()


@promise("durable", "whole-body", kills=KILLS)
async def test_documents_are_whole_and_indexed_whoever_is_killed(place: str, store: Store) -> None:
    local = await store.control.create_organization(OrganizationDraft(name="local"), actor="test")
    organization = await store.organization(local.id)
    bodies = {await keep(organization, body): body for body in all_bodies()}
    assert len(bodies) == DOCUMENTS
    assert await changed(organization.documents, bodies) == []
    command = [sys.executable, "-m", "tests.meaning.programs.killed_documents"]
    kills = DATABASE_KILLS if is_database(place) else KILLS

    await anyio.run_process([*command, place, local.id, str(kills)], cwd=PROJECT)

    killed = await organization.documents.get(list(bodies))
    assert {"indexed", "indexing"} == {document.state for document in killed.values()}
    assert await changed(organization.documents, bodies) == []
    await finish_by_itself(store, organization)
    found = await organization.documents.get(list(bodies))
    assert {document.state for document in found.values()} == {"indexed"}
    assert {document.tier for document in found.values()} == {0, 1, 2}
    assert [finding async for finding in organization.verify()] == []
    assert await changed(organization.documents, bodies) == []


async def finish_by_itself(store: Store, organization: OrganizationStore) -> None:
    """Let the work of another process run until nothing waits."""
    tiers = Tiers.of(deep=QuickEmbedder())
    indexing = DocumentIndexing(store, Indexer(store, tiers, owner="last"), owner="last")
    running = asyncio.create_task(indexing.run())
    try:
        with anyio.fail_after(300):
            while await organization.documents.has_unindexed():
                indexing.queue.add(organization.organization_id)
                await anyio.lowlevel.checkpoint()
    finally:
        running.cancel()
        await asyncio.wait([running])


async def keep(organization: OrganizationStore, body: bytes) -> DocumentId:
    """Store a document that nobody indexes yet."""
    documents = organization.documents
    upload = await documents.begin_upload(DocumentDraft(), actor="test", limits=SIZES)
    number = 0
    async for part in stream(body):
        await documents.add_part(upload.id, number, part, limits=SIZES)
        number += 1
    stored = await documents.finish_upload(upload.id, actor="test", quota=Quota(), limits=SIZES)
    return stored.document.id


async def changed(documents: DocumentStore, bodies: dict[DocumentId, bytes]) -> list[DocumentId]:
    """Return the documents that do not come back byte for byte."""
    return [
        document_id
        for document_id, body in bodies.items()
        if b"".join([piece async for piece in documents.read_body(document_id)]) != body
    ]


def all_bodies() -> list[bytes]:
    """Return bodies of all tiers, no two the same: real texts first, then made ones."""
    chance = random.Random(0)  # noqa: S311 - sizes, not secrets
    found = list(dict.fromkeys(real_texts()))[:REAL]
    large = [prose(510_000 + 20_000 * seed, seed=seed) for seed in range(6)]
    count = DOCUMENTS - len(found) - len(large)
    small = [prose(chance.randrange(1, 12_000), seed=100 + seed) for seed in range(count)]
    return [*found, *large, *small]


def real_texts() -> Iterator[bytes]:
    """Yield texts from the documentation of this system and of Python."""
    library = Path(sysconfig.get_path("stdlib"))
    yield (library / "pydoc_data" / "topics.py").read_bytes()
    for folder in (Path("/usr/share/common-licenses"), Path("/usr/share/doc"), library):
        if folder.is_dir():
            yield from texts_below(folder, limit=REAL // 3)


def texts_below(folder: Path, *, limit: int) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")):
        if limit == 0:
            return
        if path.is_file() and 0 < path.stat().st_size <= 50_000:
            body = path.read_bytes()
            if is_text(body):
                limit -= 1
                yield body


def is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
