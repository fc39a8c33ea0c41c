"""What `verify` finds wrong with documents, and what of that `repair` can mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.storage.organization import OrganizationStore
from tests.fakes import SOME_DAY
from tests.promises import promise
from tests.storage.document_drafts import (
    PDF,
    begin,
    claim,
    get,
    index,
    read,
    send,
    step,
    store,
    upload,
)
from tests.storage.drafts import ACTOR, count_holders, findings, opened

pytestmark = promise("one-truth")

TEXT = "# Part\n\n" + "plain words that follow each other here. " * 1_500

LOST = {
    "a lost piece": "DELETE FROM document_piece WHERE key & 4095 = 1",
    "a damaged piece": "UPDATE document_piece SET content = x'00' WHERE key & 4095 = 1",
    "another piece": """UPDATE document_piece SET (size_bytes, content_encoding, sha256, content) =
        (SELECT size_bytes, content_encoding, sha256, content FROM document_piece AS other
         WHERE other.key & 4095 = 2) WHERE key & 4095 = 1""",
    "a piece too many": """INSERT INTO document_piece
        (key, organization_id, size_bytes, content_encoding, sha256, content) SELECT key + 9, organization_id, size_bytes,
        content_encoding, sha256, content FROM document_piece WHERE key & 4095 = 1""",
    "another hash": "UPDATE document SET sha256 = zeroblob(32)",
    "a lost memory": "UPDATE document SET memory = 99",
    "a lost document": "DELETE FROM document",
    "another content": "UPDATE document SET content = 'other', content_encoding = 'raw'",
    "a lost content": "UPDATE document SET content = NULL, content_encoding = NULL",
}

WRONG = {
    "a lost chunk": "DELETE FROM message WHERE key & 16777215 = 3",
    "a lost last chunk": """DELETE FROM message WHERE key = (SELECT max(key) FROM message)""",
    "another reference": "UPDATE message SET content = '1:0:0:9' WHERE key & 16777215 = 3",
    "another moment": "UPDATE message SET occurred_at = 1 WHERE key & 16777215 = 3",
    "other progress": "UPDATE document SET text_bytes_indexed = 9",
    "another state": "UPDATE document SET state = 'forgotten'",
}


@pytest.mark.parametrize("damage", LOST.values(), ids=LOST)
async def test_what_is_lost_of_documents_is_found_and_left_to_a_person(
    organization: OrganizationStore, tmp_path: Path, damage: str
) -> None:
    await upload(organization, TEXT.encode() * 10)
    assert await findings(organization) == []

    with opened(tmp_path, organization) as connection:
        connection.execute(damage)

    found = [each for each in await findings(organization) if each.check == "documents"]
    assert found
    assert not all(each.repairable for each in found)
    await organization.repair()
    assert [each for each in await findings(organization) if each.check == "documents"]


@pytest.mark.parametrize("damage", WRONG.values(), ids=WRONG)
async def test_chunks_that_are_wrong_are_made_anew(
    organization: OrganizationStore, tmp_path: Path, damage: str
) -> None:
    document = await store(organization, TEXT, tags=("kept",))
    with opened(tmp_path, organization) as connection:
        connection.execute(damage)

    found = [each for each in await findings(organization) if each.check == "documents"]
    assert [each.repairable for each in found] == [True]
    await organization.repair()

    assert (await get(organization, document.id)).state == "indexing"
    assert await findings(organization) == []
    await index(organization, document.id)
    assert await read(organization, document.id) == TEXT.encode()
    assert await count_holders(organization, "plain", limit=1_000) > 20
    assert await findings(organization) == []


async def test_a_document_that_waits_while_its_memory_is_forgotten_rests(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    document = await store(organization, TEXT)
    await organization.memories.forget(document.memory_id, reason=None, actor=ACTOR, now=SOME_DAY)
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE document SET state = 'indexing', waits_since = 1")

    assert [each.check for each in await findings(organization)] == ["documents"]
    await organization.repair()

    assert (await get(organization, document.id)).state == "forgotten"
    assert await claim(organization) is None
    assert await findings(organization) == []


async def test_pieces_of_no_document_are_removed(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    document = await store(organization, TEXT)
    with opened(tmp_path, organization) as connection:
        connection.execute(
            """INSERT INTO document_piece
        (key, organization_id, size_bytes, content_encoding, sha256, content) SELECT key + (7 << 24), organization_id, size_bytes,
            content_encoding, sha256, content FROM document_piece"""
        )

    assert [each.check for each in await findings(organization)] == ["documents"]
    await organization.repair()

    assert await findings(organization) == []
    assert await read(organization, document.id) == TEXT.encode()


async def test_counters_of_documents_are_counted_again(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await store(organization, TEXT)
    before = await organization.counters()
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE counters SET documents = 7, content_bytes = 7, messages = 7")

    await organization.repair()

    assert await organization.counters() == before
    assert (before.documents, before.messages, before.content_bytes) == (1, 1, len(TEXT))


async def test_documents_on_their_way_are_whole(organization: OrganizationStore) -> None:
    begun = await begin(organization)
    await send(organization, begun.id, TEXT.encode(), b"and more")
    waiting = await upload(organization, TEXT.upper().encode())
    await claim(organization, waiting.id)
    await step(organization, waiting.id, bytes_max=65_536)
    converted = await upload(organization, b"%PDF", media_type=PDF)
    await organization.documents.put_text(converted.id, [TEXT.encode()])

    assert await findings(organization) == []
    coverage = await organization.coverage()
    assert coverage.messages == coverage.messages_indexed > 0
    assert (await organization.compress_backfill(batch_size=100)).remaining == 0


async def test_a_damaged_text_of_a_converted_document_is_found(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    document = await upload(organization, b"%PDF", media_type=PDF)
    await organization.documents.put_text(document.id, [TEXT.encode()])
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE document_piece SET content = x'00' WHERE key >> 23 & 1 = 1")

    found = await findings(organization)

    assert {each.check for each in found} == {"documents"}
    assert not any(each.repairable for each in found)


async def test_a_dictionary_is_trained_without_documents(
    organization: OrganizationStore,
) -> None:
    await store(organization, TEXT)

    assert not await organization.train_dictionary()
