"""The contract of indexing documents: step by step, by whoever is free, without a gap or a repeat."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.errors import NotFoundError, StoreCorruptError
from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.conversation import MessageQuery
from engram.model.ids import ConversationId, ConversationKey, DocumentId
from engram.model.memory import MemoryDraft
from engram.model.vectors import Indexing
from engram.storage.organization import OrganizationStore
from engram.storage.queue import RETRY_DELAY
from engram.text.documents import chunk_document
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.document_drafts import (
    LEASE,
    PDF,
    WORKER,
    claim,
    cut,
    get,
    index,
    step,
    store,
    upload,
)
from tests.storage.drafts import ACTOR, UNBOUNDED, append, count_holders, find, findings, opened
from tests.storage.embedded import QUICK, indexing_of

SMALL = 32_768
"""Bytes of a step that leave several steps to do."""

TEXT = "".join(
    f"# Part {part}\n\nIt begins with marker{part} here.\n\n"
    + "plain wörds follow. " * 300
    + "\n\n"
    for part in range(20)
)


async def chunks_of(organization: OrganizationStore, document_id: DocumentId) -> list[str]:
    """Return the texts of a document's chunks, as searches load them."""
    record = await record_of(organization, document_id)
    messages = await organization.load_range(record, start=1, end=10_000)
    return [message.content for message in messages]


async def record_of(organization: OrganizationStore, document_id: DocumentId) -> ConversationKey:
    """Return what holds the chunks of the only document."""
    found = await find(organization, "plain", limit=1)
    assert await get(organization, document_id)
    return ConversationKey(int(found.conversations[0]))


@promise("chunks")
@pytest.mark.parametrize("bytes_max", [SMALL, 65_536, 10_000_000])
async def test_the_chunks_are_those_of_the_text_however_it_is_read(
    organization: OrganizationStore, bytes_max: int
) -> None:
    document = await upload(organization, TEXT.encode())

    await index(organization, document.id, bytes_max=bytes_max)

    chunks = await chunks_of(organization, document.id)
    assert "".join(chunks) == TEXT
    assert chunks == [chunk.text for chunk in chunk_document(TEXT)]
    assert (await get(organization, document.id)).state == "indexed"
    assert await findings(organization) == []


@promise("chunks", "whole-body")
@settings(max_examples=15)
@given(
    text=st.text(
        st.sampled_from("a b\n\r#€\U0001f469日本") | st.characters(codec="utf-8"), min_size=1
    ),
    times=st.integers(1, 3_000),
)
async def test_any_text_is_the_join_of_its_chunks(
    organization: OrganizationStore, text: str, times: int
) -> None:
    body = ("plain " + text * times)[:150_000]
    document = await upload(organization, body.encode())

    await index(organization, document.id, bytes_max=65_536)

    assert "".join(await chunks_of(organization, document.id)) == body
    await organization.memories.purge(document.memory_id, actor=ACTOR)


async def test_every_chunk_knows_its_place_and_its_headings(
    organization: OrganizationStore,
) -> None:
    document = await store(organization, TEXT, name="guide.md")
    record = await record_of(organization, document.id)

    messages = await organization.load_range(record, start=1, end=1_000)

    data = TEXT.encode()
    for message in messages:
        place = message.metadata
        assert place is not None
        assert TEXT[place["start"] : place["end"]] == message.content
        assert data[place["start_byte"] : place["end_byte"]].decode() == message.content
    assert messages[1].metadata is not None
    assert messages[1].metadata["headings"] == ["Part 0"]
    assert (messages[0].name, messages[1].name) == ("guide.md > Part 0", "Part 0")


@promise("whole-body")
async def test_what_is_indexed_is_found_before_the_rest_is(
    organization: OrganizationStore,
) -> None:
    document = await upload(organization, TEXT.encode())
    assert await count_holders(organization, "marker0") == 0

    await claim(organization, document.id)
    await step(organization, document.id, bytes_max=SMALL)

    assert await count_holders(organization, "marker0") == 1
    assert await count_holders(organization, "marker19") == 0
    progress = await get(organization, document.id)
    assert progress.state == "indexing"
    assert 0 < progress.text_bytes_indexed < progress.text_bytes == len(TEXT.encode())
    assert await findings(organization) == []


async def test_chunks_are_found_by_their_headings_and_the_day_they_are_of(
    organization: OrganizationStore,
) -> None:
    text = "# Zanzibar\n\n" + "an island far away. " * 300
    await store(organization, text, valid_from=datetime(2026, 2, 3, tzinfo=UTC))

    chunks = len(chunk_document(text))
    assert chunks > 1
    assert await count_holders(organization, "zanzibar") == chunks
    assert await count_holders(organization, "februari") == chunks


@promise("whole-body")
async def test_another_process_goes_on_where_one_ended(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    document = await upload(organization, TEXT.encode())
    await claim(organization, document.id, owner="dead")
    await step(organization, document.id, bytes_max=SMALL, owner="dead")
    assert await claim(elsewhere, owner="other") is None

    clock.advance(LEASE)

    while await claim(elsewhere, owner="other") is not None:
        assert await step(elsewhere, document.id, bytes_max=SMALL, owner="other")
    assert "".join(await chunks_of(organization, document.id)) == TEXT
    assert await findings(organization) == []


async def test_who_has_lost_the_lease_stores_nothing(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    document = await upload(organization, TEXT.encode())
    await claim(organization, document.id, owner="slow")
    clock.advance(LEASE)
    await claim(organization, document.id, owner="fast")

    assert not await step(organization, document.id, owner="slow")
    assert await step(organization, document.id, owner="fast")
    assert "".join(await chunks_of(organization, document.id)) == TEXT
    assert await findings(organization) == []


async def test_the_same_step_twice_is_stored_once(organization: OrganizationStore) -> None:
    document = await upload(organization, TEXT.encode())
    await claim(organization, document.id)
    text = await organization.documents.read_unindexed(document.id, bytes_max=SMALL)

    taken = await asyncio.gather(
        *(
            organization.documents.index_chunks(
                document.id, cut(text), owner=WORKER, is_last=text.is_last
            )
            for _ in range(3)
        )
    )

    assert sorted(taken) == [False, False, True]
    await index(organization, document.id)
    assert "".join(await chunks_of(organization, document.id)) == TEXT


async def test_a_step_that_leaves_a_gap_is_refused(organization: OrganizationStore) -> None:
    document = await upload(organization, TEXT.encode())
    await claim(organization, document.id)
    chunks = chunk_document(TEXT)

    for wrong, is_last in ((chunks[1:], True), (chunks[:-1], True)):
        assert not await organization.documents.index_chunks(
            document.id, wrong, owner=WORKER, is_last=is_last
        )

    assert (await get(organization, document.id)).text_bytes_indexed == 0


async def test_documents_take_turns(organization: OrganizationStore) -> None:
    texts = [TEXT, TEXT.upper(), TEXT.title()]
    documents = [await upload(organization, text.encode()) for text in texts]
    turns: list[DocumentId] = []

    while (claimed := await claim(organization)) is not None:
        turns.append(claimed.id)
        assert await step(organization, claimed.id, bytes_max=SMALL)

    ids = [document.id for document in documents]
    assert turns[:6] == ids * 2
    assert set(turns) == set(ids)


async def test_a_document_rests_longer_after_every_failure(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    document = await upload(organization, TEXT.encode())
    delays: list[timedelta] = []

    for _ in range(3):
        assert await claim(organization) is not None
        await organization.documents.postpone_unindexed(
            document.id, owner=WORKER, problem="it is damaged"
        )
        delays.append(timedelta())
        while await claim(organization, owner="other") is None:
            clock.advance(RETRY_DELAY)
            delays[-1] += RETRY_DELAY
        await organization.documents.postpone_unindexed(
            document.id, owner="other", delay=timedelta(), problem="it was only looked at"
        )

    assert delays == [RETRY_DELAY, 4 * RETRY_DELAY, 16 * RETRY_DELAY]
    await claim(organization)
    assert await step(organization, document.id, bytes_max=SMALL)
    await claim(organization)
    await organization.documents.postpone_unindexed(document.id, owner=WORKER, problem="again")
    clock.advance(RETRY_DELAY)
    assert await claim(organization) is not None


async def test_a_document_that_failed_rests(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    document = await upload(organization, TEXT.encode())
    await claim(organization)

    await organization.documents.postpone_unindexed(
        document.id, owner=WORKER, delay=timedelta(minutes=5), problem="it is damaged"
    )

    assert (await get(organization, document.id)).problem == "it is damaged"
    assert await claim(organization) is None
    assert await organization.documents.has_unindexed()
    assert not await step(organization, document.id)
    clock.advance(timedelta(minutes=5))
    assert await claim(organization) is not None
    await index(organization, document.id)
    healed = await get(organization, document.id)
    assert (healed.state, healed.problem) == ("indexed", None)


async def test_only_what_waits_is_read_for_the_index(organization: OrganizationStore) -> None:
    done = await store(organization, "all of it")
    without = await upload(organization, b"%PDF", media_type=PDF)

    for document_id in (done.id, without.id, DocumentId("doc_none")):
        with pytest.raises(NotFoundError):
            await organization.documents.read_unindexed(document_id, bytes_max=SMALL)
    assert not await organization.documents.index_chunks(
        DocumentId("doc_none"), [], owner=WORKER, is_last=True
    )


async def test_a_reindex_gives_the_same_words(organization: OrganizationStore) -> None:
    document = await store(organization, TEXT, name="guide.md")
    waiting = await upload(organization, TEXT.upper().encode())
    await claim(organization, waiting.id)
    await step(organization, waiting.id, bytes_max=SMALL)

    await organization.reindex()

    assert await count_holders(organization, "part", limit=100) > 20
    assert await findings(organization) == []
    await index(organization, waiting.id)
    assert (await get(organization, document.id)).state == "indexed"
    assert await findings(organization) == []


async def test_messages_are_embedded_before_the_chunks_of_documents(
    organization: OrganizationStore,
) -> None:
    queued = Indexing(is_queued=True)
    await append(organization, "an old message")
    document = await upload(organization, TEXT.encode())
    await claim(organization, document.id)
    text = await organization.documents.read_unindexed(document.id, bytes_max=SMALL)
    chunks = cut(text)
    await organization.documents.index_chunks(
        document.id, chunks, owner=WORKER, is_last=text.is_last, indexing=queued
    )
    await organization.memories.store(
        [MemoryDraft(content="a new memory")], actor=ACTOR, quota=UNBOUNDED, indexing=queued
    )

    claimed = await organization.claim_unembedded(
        owner=WORKER, lease=LEASE, limit=100, characters_max=10_000_000
    )

    assert [each.content for each in claimed] == [
        "a new memory",
        *(chunk.text for chunk in chunks),
    ]
    assert claimed[2].name == "Part 0"
    assert [each.units for each in claimed] == ["passages", *("sentences" for _ in chunks)]


async def test_chunks_have_vectors_that_go_with_them(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    document = await upload(organization, TEXT.encode())
    await claim(organization, document.id)
    text = await organization.documents.read_unindexed(document.id, bytes_max=10_000_000)
    chunks = cut(text)
    indexing = indexing_of([chunk.text for chunk in chunks], tier="instant", identity=QUICK)

    await organization.documents.index_chunks(
        document.id, chunks, owner=WORKER, is_last=True, indexing=indexing
    )

    assert (await organization.counters()).vectors >= len(chunks)
    assert await findings(organization) == []
    await organization.memories.forget(
        document.memory_id, reason=None, actor=ACTOR, now=clock.now()
    )
    counters = await organization.counters()
    assert (counters.vectors, counters.pending) == (0, 0)
    assert await findings(organization) == []


async def test_the_chunks_of_a_document_are_no_conversation(
    organization: OrganizationStore,
) -> None:
    document = await store(organization, TEXT)

    with pytest.raises(NotFoundError):
        await organization.get_conversation(
            MessageQuery(conversation_id=ConversationId(document.memory_id))
        )
    counters = await organization.counters()
    assert (counters.conversations, counters.messages, counters.documents) == (0, 1, 1)
    assert counters.content_bytes == len(TEXT.encode())


async def test_a_damaged_piece_stops_the_index_of_its_document_alone(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    damaged = await upload(organization, TEXT.encode())
    whole = await upload(organization, b"whole and plain")
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE document_piece SET content = x'00' WHERE key = 1 << 24")

    with pytest.raises(StoreCorruptError):
        await index(organization, damaged.id)
    await index(organization, whole.id)

    assert (await get(organization, damaged.id)).text_bytes_indexed == 0
    assert (await get(organization, whole.id)).state == "indexed"


async def test_a_chunk_across_two_pieces_is_read_whole(organization: OrganizationStore) -> None:
    body = "plain " + "é" * (DOCUMENT_PIECE_BYTES - 1_000) + " across"
    document = await store(organization, body)

    assert "".join(await chunks_of(organization, document.id)) == body
    assert await findings(organization) == []
