"""Long documents leave the search in steps: others write in between, and nothing is left half done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engram.errors import ConflictError
from engram.model.ids import DocumentId
from engram.model.memory import MemoryChange
from engram.model.vectors import Indexing
from engram.storage import document_rows
from engram.storage.document_rows import shrink_document
from engram.storage.organization import OrganizationStore
from tests.fakes import FakeClock
from tests.storage.document_drafts import (
    WORKER,
    claim,
    cut,
    get,
    index,
    read,
    step,
    store,
    upload,
)
from tests.storage.drafts import ACTOR, UNBOUNDED, append, count_holders, findings, opened
from tests.storage.embedded import QUICK, indexing_of

TEXT = "# Part\n\n" + "plain words that follow each other here. " * 1_500


@pytest.fixture(autouse=True, params=[1, 4, 7])
def few_left(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a document of some chunks be a long one."""
    monkeypatch.setattr(document_rows, "CHUNKS_LEFT", request.param)
    return request.param


async def shrink(organization: OrganizationStore, document_id: DocumentId) -> None:
    """Begin a removal that does not come."""
    assert isinstance(organization, OrganizationStore)
    tenant = organization._tenant  # pyright: ignore[reportPrivateUsage]
    await shrink_document(tenant, document_id)


async def test_a_document_whose_removal_was_begun_is_whole(
    organization: OrganizationStore, few_left: int
) -> None:
    await append(organization, "a message beside it")
    document = await store(organization, TEXT)

    await shrink(organization, document.id)

    coverage = await organization.coverage()
    assert coverage.messages == coverage.messages_indexed == few_left + 1
    assert await findings(organization) == []


async def test_a_document_whose_removal_did_not_come_is_indexed_again(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    document = await store(organization, TEXT, tags=("kept",))
    before = await count_holders(organization, "plain", limit=1_000)
    await shrink(organization, document.id)
    assert await claim(organization) is None

    clock.advance(timedelta(minutes=5))
    await index(organization, document.id)

    assert (await get(organization, document.id)).state == "indexed"
    assert await count_holders(organization, "plain", limit=1_000) == before
    assert await read(organization, document.id) == TEXT.encode()
    assert await findings(organization) == []


async def test_a_long_document_is_purged_with_its_vectors(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    document = await upload(organization, TEXT.encode())
    await claim(organization, document.id)
    text = await organization.documents.read_unindexed(document.id, bytes_max=1_000_000)
    chunks = cut(text)
    vectors = indexing_of([chunk.text for chunk in chunks], tier="instant", identity=QUICK)
    indexing = Indexing(vectors=vectors.vectors, is_queued=True)
    await organization.documents.index_chunks(
        document.id, chunks, owner=WORKER, is_last=True, indexing=indexing
    )

    await organization.memories.purge(document.memory_id, actor=ACTOR)

    counters = await organization.counters()
    assert not any(getattr(counters, name) for name in counters.__struct_fields__)
    with opened(tmp_path, organization) as connection:
        for table in ("message", "unembedded", "instant_vector", "document_piece"):
            (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 ours
            assert count == 0
    assert await findings(organization) == []


async def test_a_long_document_is_forgotten_and_restored(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    document = await store(organization, TEXT)
    before = await count_holders(organization, "plain", limit=1_000)

    await organization.memories.forget(
        document.memory_id, reason=None, actor=ACTOR, now=clock.now()
    )
    assert await findings(organization) == []
    await organization.memories.restore(document.memory_id, actor=ACTOR)
    await index(organization, document.id)

    assert await count_holders(organization, "plain", limit=1_000) == before
    assert await findings(organization) == []


async def test_a_long_document_of_another_day_is_indexed_again(
    organization: OrganizationStore,
) -> None:
    document = await store(organization, TEXT)
    change = MemoryChange(valid_from=datetime(2026, 2, 3, tzinfo=UTC))

    await organization.memories.correct(document.memory_id, change, actor=ACTOR, quota=UNBOUNDED)

    assert await findings(organization) == []
    await index(organization, document.id)
    assert await count_holders(organization, "februari", limit=1_000) > 20
    assert await findings(organization) == []


async def test_what_may_not_be_removed_is_not_shrunk(organization: OrganizationStore) -> None:
    document = await store(organization, TEXT, immutable=True)

    with pytest.raises(ConflictError):
        await organization.memories.purge(document.memory_id, actor=ACTOR)

    assert (await get(organization, document.id)).state == "indexed"


async def test_a_document_is_shrunk_while_others_index_it(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    document = await upload(organization, TEXT.encode())
    await claim(elsewhere, document.id)
    await step(elsewhere, document.id, bytes_max=32_768)

    await organization.memories.purge(document.memory_id, actor=ACTOR)

    assert await claim(elsewhere) is None
    assert await findings(organization) == []


async def test_a_reindex_leaves_a_document_whose_removal_was_begun_as_it_is(
    organization: OrganizationStore,
) -> None:
    kept = await store(organization, TEXT.upper())
    await shrink(organization, (await store(organization, TEXT)).id)

    await organization.reindex()

    assert (await get(organization, kept.id)).state == "indexed"
    assert await findings(organization) == []
