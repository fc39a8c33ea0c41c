"""The contract of documents as they are kept: byte for byte, owned by a memory, and gone with it."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.errors import ConflictError, InvalidRequestError, NotFoundError, StoreCorruptError
from engram.limits import DOCUMENT_PIECE_BYTES, WHOLE_DOCUMENT_BYTES_MAX
from engram.model.document import ByteRange
from engram.model.ids import DocumentId
from engram.model.memory import MemoryChange, MemoryFilters, MemoryOptions, MemoryQuery
from engram.storage.organization import OrganizationStore
from engram.storage.rows.database import Connection
from engram.text.summary import synopsis
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.document_drafts import (
    BOUNDS,
    PDF,
    begin,
    claim,
    finish,
    get,
    index,
    read,
    read_text,
    send,
    step,
    store,
    upload,
)
from tests.storage.drafts import ACTOR, UNBOUNDED, count_holders, findings, opened
from tests.storage.memory_drafts import get as get_memory
from tests.storage.memory_drafts import note

TABLES = (
    "document",
    "document_piece",
    "memory",
    "memory_version",
    "conversation",
    "conversation_tag",
    "message",
    "/*sqlite:*/ message_words_docsize /*postgres: word_length */",
    "vector",
    "instant_vector",
    "unembedded",
)
LONG = "# Alpha\n\nthe first words\n\n## Beta\n\n" + "many more words follow here. " * 20_000


def prose(size: int, seed: int = 0) -> str:
    """Return text of a certain number of bytes, with headings and letters of two bytes."""
    chance = random.Random(seed)  # noqa: S311 - no secrets
    words = [
        chance.choice(["# head\n", "word", "wört", "naïve", "\n\n", "text"]) for _ in range(999)
    ]
    text = " ".join(words)
    return _cut((text * (size // len(text.encode()) + 1)).encode()[:size])


def _count(connection: Connection, table: str) -> int:
    return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 ours


def _cut(data: bytes) -> str:
    text = data.decode(errors="ignore")
    return text + "x" * (len(data) - len(text.encode()))


@promise("tiers")
@pytest.mark.parametrize(
    ("size", "tier"),
    [
        (1, 0),
        (WHOLE_DOCUMENT_BYTES_MAX, 0),
        (WHOLE_DOCUMENT_BYTES_MAX + 1, 1),
        (BOUNDS.body_bytes_max, 1),
        (BOUNDS.body_bytes_max + 1, 2),
        (BOUNDS.raw_bytes_max, 2),
    ],
)
async def test_the_size_decides_the_tier_and_what_the_memory_shows(
    organization: OrganizationStore, size: int, tier: int
) -> None:
    text = prose(size)

    document = await upload(organization, text.encode())

    memory = await get_memory(organization, document.memory_id)
    assert (document.tier, document.size_bytes) == (tier, size)
    assert memory.content == (text if tier == 0 else synopsis(text))
    assert memory.content_hash == hashlib.sha256(memory.content.encode()).hexdigest()
    assert await read(organization, document.id) == text.encode()
    assert document.sha256 == hashlib.sha256(text.encode()).hexdigest()


async def test_the_memory_of_a_document_is_what_the_draft_says(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    options = MemoryOptions(
        memory_type="architecture",
        category="technical",
        source="wiki",
        importance=1,
        tags=("design", "naïve"),
        project="engram",
        pattern_confidence=0.25,
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
        valid_to=datetime(2027, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        expires_at=datetime(2028, 1, 1, tzinfo=UTC),
    )
    begun = await begin(organization, name="design.md", options=options)
    await send(organization, begun.id, b"how it is built")

    document = (await finish(organization, begun.id)).document

    memory = await get_memory(organization, document.memory_id)
    for field in MemoryOptions.__struct_fields__:
        assert getattr(memory, field) == getattr(options, field)
    assert (memory.storage_mode, memory.document_id) == ("document", document.id)
    assert (document.name, document.state, document.text_bytes) == ("design.md", "indexing", 15)
    assert await organization.documents.of_memories([memory.id]) == {memory.id: document}


@promise("verbatim")
@settings(max_examples=25)
@given(start=st.integers(0, 300_000), length=st.integers(1, 300_000))
async def test_any_range_of_a_body_is_read(
    organization: OrganizationStore, start: int, length: int
) -> None:
    body = random.Random(1).randbytes(2 * DOCUMENT_PIECE_BYTES + 7)  # noqa: S311 - no secrets
    document = await upload(organization, body, media_type=PDF, project="ranges")
    wanted = ByteRange(start=start, end=start + length)

    if start >= len(body):
        with pytest.raises(InvalidRequestError):
            await read(organization, document.id, wanted)
    else:
        assert await read(organization, document.id, wanted) == body[start : start + length]


async def test_the_same_bytes_in_the_same_project_are_stored_once(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    first = await upload(organization, b"the same", project="one")
    again = await begin(organization, options=MemoryOptions(project="one"))
    await send(organization, again.id, b"the ", b"same")
    stored = await finish(organization, again.id)
    elsewhere = await upload(organization, b"the same", project="other")

    assert (stored.document, stored.is_duplicate) == (first, True)
    assert await organization.documents.get([again.id]) == {}
    assert elsewhere.id != first.id
    assert (await organization.counters()).documents == 2

    await organization.memories.forget(first.memory_id, reason=None, actor=ACTOR, now=clock.now())
    assert (await upload(organization, b"the same", project="one")).id != first.id
    assert await findings(organization) == []


async def test_a_body_that_is_no_text_waits_for_one(organization: OrganizationStore) -> None:
    body = b"%PDF-1.7 \xff\xfe"
    document = await upload(organization, body, name="plan.pdf", media_type=PDF)

    assert document.needs_text
    assert (await get_memory(organization, document.memory_id)).content == "plan.pdf"
    assert await read_text(organization, document.id) == b""
    assert await findings(organization) == []

    text = "# Plan\n\n" + "we build it as planned. " * 40_000
    data = text.encode()
    pieces = (data[start : start + 100_000] for start in range(0, len(data), 100_000))
    await organization.documents.put_text(document.id, pieces)

    document = await get(organization, document.id)
    assert (document.needs_text, document.text_bytes) == (False, len(data))
    assert await read_text(organization, document.id) == data
    assert await read(organization, document.id) == body
    assert (await get_memory(organization, document.memory_id)).content == synopsis(text)
    assert await findings(organization) == []


@pytest.mark.parametrize(("text", "problem"), [(None, "it has a password"), ([], None)])
async def test_a_document_without_text_is_found_by_its_name(
    organization: OrganizationStore, text: list[bytes] | None, problem: str | None
) -> None:
    document = await upload(organization, b"%PDF", name="Quarterly report.pdf", media_type=PDF)

    await organization.documents.put_text(document.id, text, problem=problem)
    await organization.documents.put_text(document.id, [b"too late"])

    document = await get(organization, document.id)
    assert (document.state, document.needs_text) == ("unreadable", False)
    assert document.problem is not None
    assert await count_holders(organization, "quarter") == 1
    assert not await organization.documents.has_unindexed()
    assert await findings(organization) == []


async def test_a_forgotten_document_keeps_its_body_and_is_not_found(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    document = await store(organization, LONG, project="engram", tags=("a", "b"))
    before = await get_memory(organization, document.memory_id)

    forgotten = await organization.memories.forget(
        document.memory_id, reason="old", actor=ACTOR, now=clock.now()
    )

    assert forgotten.content == before.content
    assert (await get(organization, document.id)).state == "forgotten"
    assert await count_holders(organization, "first") == 0
    assert await read(organization, document.id) == LONG.encode()
    assert not await organization.documents.has_unindexed()
    assert (await organization.counters()).documents == 0
    assert (await organization.counters()).content_bytes == len(LONG)
    assert await findings(organization) == []


async def test_a_restored_document_is_indexed_again(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    document = await store(organization, LONG, project="engram", tags=("a", "b"))
    before = await get_memory(organization, document.memory_id)
    await organization.memories.forget(before.id, reason="old", actor=ACTOR, now=clock.now())

    restored = await organization.memories.restore(before.id, actor=ACTOR)

    assert (restored.content, restored.tags, restored.valid_to) == (
        before.content,
        before.tags,
        before.valid_to,
    )
    waiting = await get(organization, document.id)
    assert (waiting.state, waiting.text_bytes_indexed) == ("indexing", 0)
    assert await findings(organization) == []
    await index(organization, document.id)
    assert await count_holders(organization, "first") == 1
    history = await organization.memories.history(before.id)
    assert [version.memory.content for version in history] == [before.content] * 2
    assert await findings(organization) == []


async def test_a_document_without_text_is_tried_again_when_restored(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    document = await upload(organization, b"%PDF", name="report.pdf", media_type=PDF)
    await organization.documents.put_text(document.id, None, problem="no converter")
    await organization.memories.forget(
        document.memory_id, reason=None, actor=ACTOR, now=clock.now()
    )
    await organization.memories.restore(document.memory_id, actor=ACTOR)

    assert (await get(organization, document.id)).needs_text
    await organization.documents.put_text(document.id, [b"now it ", b"works"])
    assert (await get_memory(organization, document.memory_id)).content == "now it works"
    history = await organization.memories.history(document.memory_id)
    assert [version.memory.content for version in history] == ["now it works"] * 2
    assert await findings(organization) == []


async def test_the_content_of_a_document_is_not_corrected(organization: OrganizationStore) -> None:
    document = await store(organization, "as it was")

    with pytest.raises(ConflictError):
        await organization.memories.correct(
            document.memory_id,
            MemoryChange(content="as it should be"),
            actor=ACTOR,
            quota=UNBOUNDED,
        )

    assert await read(organization, document.id) == b"as it was"


async def test_the_fields_of_a_document_are_corrected(organization: OrganizationStore) -> None:
    document = await store(organization, LONG, tags=("old",))
    change = MemoryChange(importance=0, tags=("new",))

    after = await organization.memories.correct(
        document.memory_id, change, actor=ACTOR, quota=UNBOUNDED
    )

    assert (after.importance, after.tags, after.content) == (0, ("new",), synopsis(LONG))
    assert (await get(organization, document.id)).state == "indexed"
    assert await findings(organization) == []


async def test_a_document_of_another_day_is_indexed_again(organization: OrganizationStore) -> None:
    document = await store(organization, "words of a day")
    change = MemoryChange(valid_from=datetime(2026, 2, 3, tzinfo=UTC))

    await organization.memories.correct(document.memory_id, change, actor=ACTOR, quota=UNBOUNDED)

    assert (await get(organization, document.id)).state == "indexing"
    assert await findings(organization) == []
    await index(organization, document.id)
    assert await count_holders(organization, "februari") == 1
    assert await findings(organization) == []


@promise("removal")
@pytest.mark.parametrize("before", ["searched", "forgotten"])
async def test_a_purge_leaves_nothing_of_a_document(
    organization: OrganizationStore, clock: FakeClock, tmp_path: Path, before: str
) -> None:
    document = await store(organization, LONG, tags=("a",), name="long.md")
    if before == "forgotten":
        await organization.memories.forget(
            document.memory_id, reason=None, actor=ACTOR, now=clock.now()
        )

    await organization.memories.purge(document.memory_id, actor=ACTOR)

    with opened(tmp_path, organization) as connection:
        counts = {name: _count(connection, name) for name in TABLES}
    assert counts == dict.fromkeys(TABLES, 0)
    with pytest.raises(NotFoundError):
        await read(organization, document.id)
    counters = await organization.counters()
    assert not any(getattr(counters, name) for name in counters.__struct_fields__)
    assert await findings(organization) == []


@promise("removal")
async def test_a_purge_in_the_middle_of_the_index_leaves_nothing(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    document = await upload(organization, LONG.encode())
    await claim(organization, document.id)
    await step(organization, document.id)

    await organization.memories.purge(document.memory_id, actor=ACTOR)

    with opened(tmp_path, organization) as connection:
        assert not any(_count(connection, name) for name in TABLES)
    assert await claim(organization) is None


async def test_a_project_goes_with_its_documents(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await store(organization, LONG, project="gone")
    await upload(organization, b"%PDF", media_type=PDF, project="gone")
    kept = await store(organization, "kept", project="kept")
    await note(organization, "a note to be removed", project="gone")

    assert await organization.memories.delete_project("gone", actor=ACTOR) == 3

    with opened(tmp_path, organization) as connection:
        assert _count(connection, "document") == _count(connection, "document_piece") == 1
    assert await read(organization, kept.id) == b"kept"
    assert await findings(organization) == []


async def test_documents_are_listed_among_memories(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await note(organization, "a note beside them")
    document = await store(organization, "a document")

    every = await organization.memories.list(MemoryQuery(), now=clock.now())
    own = await organization.memories.list(
        MemoryQuery(filters=MemoryFilters(storage_mode="document")), now=clock.now()
    )

    assert (every.total, own.total) == (2, 1)
    assert own.memories[0].document_id == document.id
    counters = await organization.counters()
    assert (counters.memories, counters.documents) == (2, 1)
    assert counters.messages_of_conversations == 0


@promise("apart")
async def test_another_organisation_does_not_know_a_document(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    document = await store(organization, "ours")
    theirs = await store(other, "theirs")

    assert await other.documents.get([document.id]) == {}
    assert await other.documents.of_memories([document.memory_id]) == {}
    for reading in (read(other, document.id), read_text(other, document.id)):
        with pytest.raises(NotFoundError):
            await reading
    with pytest.raises(NotFoundError):
        await other.memories.purge(document.memory_id, actor=ACTOR)
    await other.documents.put_text(document.id, [b"mine"])
    assert await read(organization, document.id) == b"ours"
    assert await read(other, theirs.id) == b"theirs"
    assert await count_holders(other, "our") == 0


@promise("verbatim")
async def test_a_damaged_piece_is_never_given_out(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    document = await store(organization, LONG)
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE document_piece SET content = zeroblob(99) WHERE key % 4096 = 3")

    with pytest.raises(StoreCorruptError):
        await read(organization, document.id)
    first = ByteRange(start=0, end=DOCUMENT_PIECE_BYTES)
    assert await read(organization, document.id, first) == LONG.encode()[:DOCUMENT_PIECE_BYTES]


async def test_a_document_is_unknown_by_any_other_id(organization: OrganizationStore) -> None:
    await store(organization, "one")

    assert await organization.documents.get([DocumentId("doc_none"), DocumentId("")]) == {}
    with pytest.raises(NotFoundError):
        await read(organization, DocumentId("doc_none"))


@promise("audit")
async def test_every_change_of_documents_is_in_the_audit(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    document = await store(organization, "body of the document")
    clock.advance(timedelta(seconds=1))
    await organization.memories.purge(document.memory_id, actor=ACTOR)

    entries = await organization.list_audit(limit=10, before=None)

    assert [entry.action for entry in entries] == [
        "memory_remove",
        "memory_store_document",
        "begin_upload",
    ]
    assert "body of the document" not in str(entries)
