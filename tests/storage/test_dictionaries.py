"""Compression dictionaries: when they are trained, who learns of them, and that all stay readable."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from engram.errors import StoreCorruptError
from engram.model.conversation import MessageQuery
from engram.model.ids import ConversationId
from engram.storage.content import compression
from engram.storage.organization import OrganizationStore
from engram.storage.words import rebuild
from tests.promises import promise
from tests.storage.drafts import (
    append,
    begin,
    encodings,
    findings,
    opened,
    read_texts,
    sentence,
)


async def fill(organization: OrganizationStore, messages: int, *, start: int = 0) -> ConversationId:
    conversation_id = await begin(organization)
    for first in range(start, start + messages, 200):
        await append(
            organization,
            *[sentence(number) for number in range(first, min(first + 200, start + messages))],
            to=conversation_id,
        )
    return conversation_id


async def test_a_dictionary_is_asked_for_once_there_is_enough_text(
    organization: OrganizationStore,
) -> None:
    async def due() -> int:
        jobs = await organization.claim_jobs(
            [compression.JOB_KIND], owner="me", lease=rebuild.PATIENCE, limit=10
        )
        for job in jobs:
            assert await organization.finish_job(job, owner="me")
        return len(jobs)

    await append(organization, "little")
    assert await due() == 0
    while (await organization.counters()).content_bytes < compression.FIRST_DUE_BYTES:
        await fill(organization, 200)
    assert await due() == 1
    await fill(organization, 200)
    assert await due() == 0


@promise("processes")
async def test_a_dictionary_serves_new_messages_of_every_process(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    conversation_id = await fill(organization, 600)

    assert await organization.train_dictionary()
    await append(organization, sentence(5_000), to=conversation_id)
    await append(elsewhere, "learns of the dictionary", to=conversation_id)
    await append(elsewhere, sentence(5_001), to=conversation_id)

    assert encodings(tmp_path, organization)[-3::2] == ["zstd:1", "zstd:1"]
    query = MessageQuery(conversation_id=conversation_id, around_sequence=601)
    assert (await elsewhere.get_conversation(query)).messages[-1].content == sentence(5_001)
    assert await findings(organization) == []


@promise("processes")
async def test_a_process_learns_of_a_dictionary_by_appending(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    await fill(organization, 600)
    await organization.train_dictionary()
    conversation_id = await begin(elsewhere)

    for number in range(3):
        await append(elsewhere, sentence(5_000 + number), to=conversation_id)

    assert encodings(tmp_path, organization)[-3:] == ["zstd", "zstd:1", "zstd:1"]


async def test_a_dictionary_is_trained_on_some_of_the_text_and_without_the_damaged(
    organization: OrganizationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(organization, 800)
    monkeypatch.setattr(compression, "SAMPLE_BYTES_MAX", 150_000)
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE message SET content = 'x' WHERE key % 50 = 0")

    assert await organization.train_dictionary()

    with opened(tmp_path, organization) as connection:
        (trained,) = connection.execute("SELECT trained_bytes FROM dictionary").fetchone()
    assert 150_000 <= trained < 151_000


async def test_a_message_of_an_unseen_dictionary_is_read(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await fill(organization, 600)
    await organization.train_dictionary()
    conversation_id = await begin(organization, sentence(5_000))

    assert await read_texts(elsewhere, conversation_id) == [sentence(5_000)]


@promise("encodings")
async def test_dictionaries_follow_each_other_and_all_stay_readable(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await fill(organization, 600)
    conversation_id = await begin(organization)

    for number in range(3):
        assert await organization.train_dictionary()
        await append(organization, sentence(5_000 + number), to=conversation_id)

    assert encodings(tmp_path, organization)[-3:] == ["zstd:1", "zstd:2", "zstd:3"]
    expected = [sentence(5_000 + number) for number in range(3)]
    assert await read_texts(organization, conversation_id) == expected


@promise("encodings")
@pytest.mark.parametrize("damage", ["content = x'00'", "content = zeroblob(20000)", "id = 9"])
async def test_a_damaged_dictionary_shows_in_its_messages_alone(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path, damage: str
) -> None:
    plain = await fill(organization, 600)
    assert await organization.train_dictionary()
    conversation_id = await begin(organization, sentence(5_000))
    with opened(tmp_path, organization) as connection:
        connection.execute(f"UPDATE dictionary SET {damage}")  # noqa: S608 - fixed texts

    with pytest.raises(StoreCorruptError):
        await read_texts(elsewhere, conversation_id)

    assert len(await read_texts(elsewhere, plain)) == 500
    assert {finding.check for finding in await findings(elsewhere)} == {"hashes", "words"}
    await append(elsewhere, sentence(5_001), to=plain)
    assert (await elsewhere.counters()).messages == 602


async def test_too_little_text_gives_no_dictionary(organization: OrganizationStore) -> None:
    await fill(organization, 200)

    assert not await organization.train_dictionary()


async def test_text_without_repetition_gives_no_dictionary(
    organization: OrganizationStore,
) -> None:
    noise = [
        base64.b85encode(hashlib.shake_256(str(number).encode()).digest(1_200)).decode()
        for number in range(200)
    ]
    await append(organization, *noise)

    assert not await organization.train_dictionary()
