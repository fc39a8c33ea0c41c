"""The contract of exports: everything comes back as it was, once, on and across both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard

from engram.clock import RandomIds
from engram.errors import ConflictError, InvalidRequestError, QuotaExceededError
from engram.limits import (
    EXPORT_BLOCK_BYTES,
    EXPORT_LINE_BYTES_MAX,
    MESSAGES_REMOVED_AT_ONCE,
)
from engram.model.access import OrganizationDraft, Quota
from engram.model.capture import CaptureRequest
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.document import DocumentLimits
from engram.model.ids import ConversationId, DocumentId, MemoryId
from engram.model.memory import Feedback, MemoryDraft
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.store import PostgresStore
from engram.storage.sqlite.store import SqliteStore
from engram.storage.store import Store
from engram.transfer import export_format
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage import document_drafts, memory_drafts
from tests.storage.captures import session
from tests.storage.drafts import (
    ACTOR,
    UNBOUNDED,
    append,
    begin,
    count_holders,
    findings,
    read_texts,
)
from tests.storage.due_work import claim, settle_all, work
from tests.storage.processes import PROJECT
from tests.transfer.exports import (
    HOSTILE,
    body_of,
    bring,
    conversation_ids,
    export,
    export_stream,
    fill,
    lines_of,
    rewritten,
)


async def new_organization(store: Store) -> OrganizationStore:
    created = await store.control.create_organization(OrganizationDraft(name="New"), actor="test")
    return await store.organization(created.id)


@pytest.fixture
async def other(store: Store) -> OrganizationStore:
    """Return the empty store of another organisation."""
    return await new_organization(store)


@pytest.fixture(params=["sqlite", "postgres"])
async def elsewhere(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock
) -> AsyncIterator[OrganizationStore]:
    """Yield an empty organisation of another installation, on each backend."""
    if request.param == "sqlite":
        opened: Store = SqliteStore(tmp_path / "elsewhere", clock=clock, ids=RandomIds())
    else:
        url: str = request.getfixturevalue("database_url")
        opened = PostgresStore(url, clock=clock, ids=RandomIds())
    await opened.open()
    yield await new_organization(opened)
    await opened.close()


@promise("verbatim")
async def test_an_export_of_an_import_has_the_same_bytes(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    named = await fill(organization, clock)
    exported = await export(organization)

    receipt = await bring(elsewhere, exported)

    assert body_of(await export(elsewhere)) == body_of(exported)
    assert (receipt.problems, receipt.present, receipt.erased) == ((), {}, 0)
    assert receipt.stored["message"] == len(lines_of(exported, "message"))
    assert [] == await findings(elsewhere)
    texts = await read_texts(elsewhere, ConversationId(named["talk"]))
    assert texts == [*HOSTILE, "x" * 300_000]


@promise("idempotent")
async def test_a_second_import_stores_nothing(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    await fill(organization, clock)
    exported = await export(organization)
    await bring(other, exported)
    before = await other.counters()

    again = await bring(other, exported)

    assert (again.stored, again.problems, again.erased) == ({}, (), 0)
    assert again.present["memory"] == len(lines_of(exported, "memory"))
    assert await other.counters() == before
    assert body_of(await export(other)) == body_of(exported)


@promise("durable")
async def test_an_import_that_broke_off_is_completed_by_another(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    await fill(organization, clock)
    exported = await export(organization)
    steps = [len(exported) * part // 7 for part in range(1, 7)]

    for length in (*steps, len(exported) - 1):
        with pytest.raises(InvalidRequestError, match="incomplete"):
            await bring(other, exported[:length])
    receipt = await bring(other, exported)

    assert receipt.problems == ()
    assert body_of(await export(other)) == body_of(exported)
    assert [] == await findings(other)


@promise("verbatim")
@pytest.mark.parametrize(
    ("build_store", "elsewhere"),
    [("sqlite", "postgres"), ("postgres", "sqlite")],
    indirect=True,
)
async def test_a_document_of_50_mb_comes_back_byte_for_byte(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    line = "\0 naïve 日本 \U0001f469\u200d\U0001f4bb\r\n".encode()
    body = line * (50_000_000 // len(line))
    bounds = DocumentLimits()
    begun = await document_drafts.begin(organization, name="big.txt")
    for number, start in enumerate(range(0, len(body), 8_000_000)):
        part = body[start : start + 8_000_000]
        await organization.documents.add_part(begun.id, number, part, limits=bounds)
    await document_drafts.finish(organization, begun.id, bounds=bounds)
    exported = await export(organization)

    await bring(elsewhere, exported)

    assert await document_drafts.read(elsewhere, begun.id) == body
    assert body_of(await export(elsewhere)) == body_of(exported)
    assert max(map(len, exported.splitlines())) <= EXPORT_LINE_BYTES_MAX


@promise("findable")
async def test_what_was_imported_is_found_by_its_words(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    await begin(organization, "the quokka sleeps", title="animals")
    await memory_drafts.note(organization, "an axolotl is no fish")

    await bring(other, await export(organization))

    assert await count_holders(other, "quokka") == 1
    assert await count_holders(other, "axolotl") == 1


async def test_work_on_what_was_imported_is_due(
    organization: OrganizationStore, other: OrganizationStore, store: Store
) -> None:
    await begin(organization, "the quokka sleeps")
    await document_drafts.store(organization, "an axolotl is no fish")
    exported = await export(organization)
    await settle_all(other)
    await claim(store)

    await bring(other, exported)

    assert await claim(store) == {work(other, "vectors"), work(other, "documents")}


@promise("apart")
async def test_the_same_ids_live_in_two_organisations(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    named = await fill(organization, clock)
    exported = await export(organization)
    await bring(other, exported)

    talk = ConversationId(named["talk"])
    await other.delete_conversation(talk, actor=ACTOR)
    await other.memories.purge(MemoryId(named["memory"]), actor=ACTOR)

    assert body_of(await export(organization)) == body_of(exported)


@promise("removal")
async def test_what_was_deleted_here_is_not_imported_again(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    named = await fill(organization, clock)
    exported = await export(organization)
    await bring(other, exported)
    await other.delete_conversation(ConversationId(named["talk"]), actor=ACTOR)
    await other.memories.purge(MemoryId(named["memory"]), actor=ACTOR)
    document = await other.documents.get([DocumentId(named["document"])])
    await other.memories.purge(document[DocumentId(named["document"])].memory_id, actor=ACTOR)
    remains = await export(other)

    again = await bring(other, exported)

    assert (again.stored, again.erased) == ({}, 3)
    assert body_of(await export(other)) == body_of(remains)
    assert [] == await findings(other)


@promise("removal")
async def test_what_was_deleted_there_is_listed_and_stays_here(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    gone = await begin(organization, "said and deleted")
    note = await memory_drafts.note(organization, "kept and removed")
    await bring(other, await export(organization))
    await organization.delete_conversation(gone, actor=ACTOR)
    await organization.memories.purge(note, actor=ACTOR)

    receipt = await bring(other, await export(organization))

    assert [(each.kind, each.id) for each in receipt.problems] == [
        ("tombstone", note),
        ("forgotten", gone),
    ]
    assert await read_texts(other, gone) == ["said and deleted"]


@promise("removal")
async def test_a_conversation_that_is_removed_in_steps_is_not_exported(
    organization: OrganizationStore,
) -> None:
    talk = await begin(organization)
    for _ in range(MESSAGES_REMOVED_AT_ONCE // 100 + 1):
        await append(organization, *["a secret"] * 100, to=talk)
    await organization.delete_conversation(talk, actor=ACTOR)

    exported = await export(organization)

    assert [line["type"] for line in lines_of(exported)] == ["header", "forgotten", "manifest"]


@promise("removal")
async def test_what_lies_in_the_trash_is_neither_exported_nor_imported(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    talk = await begin(organization, "said and thrown away")
    note = await memory_drafts.note(organization, "kept and thrown away")
    exported = await export(organization)
    await bring(other, exported)
    keep = timedelta(days=30)
    await other.trash.trash_conversation(talk, actor=ACTOR, keep=keep)
    await other.trash.trash_memory(note, actor=ACTOR, keep=keep)

    again = await bring(other, exported)

    assert (again.stored, again.erased) == ({}, 2)
    assert lines_of(await export(other), "conversation", "memory") == []


async def test_a_session_is_not_captured_again_after_an_import(
    store: Store, organization: OrganizationStore, tmp_path: Path, clock: FakeClock
) -> None:
    kept, gone = session("one", "two", name="kept"), session("one", name="gone")
    for request in (kept, gone):
        await organization.capture_messages(request, actor=ACTOR, quota=UNBOUNDED)
    forgotten = (await organization.find_uncaptured(gone)).conversation_id
    await organization.delete_conversation(forgotten, actor=ACTOR)
    exported = await export(organization)
    copy = SqliteStore(tmp_path / "copy", clock=clock, ids=_FixedIds(organization.organization_id))
    await copy.open()
    target = await new_organization(copy)

    await bring(target, exported)

    left = [await _left(target, request) for request in (kept, gone)]
    await copy.close()
    assert left == [0, 0]


async def _left(organization: OrganizationStore, request: CaptureRequest) -> int:
    return len((await organization.find_uncaptured(request)).messages)


class _FixedIds:
    """Gives every organisation the same id, as in a copy of a store."""

    def __init__(self, organization_id: str) -> None:
        self._organization_id = organization_id
        self._random = RandomIds()

    def new(self, prefix: str) -> str:
        return self._organization_id if prefix == "org_" else self._random.new(prefix)


async def test_a_conversation_that_grew_gets_the_rest(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    talk = await begin(organization, "one", "two")
    await bring(other, await export(organization))
    await append(organization, "three", "four", to=talk)

    receipt = await bring(other, await export(organization))

    assert (receipt.stored, receipt.present["message"]) == ({"message": 2}, 2)
    assert await read_texts(other, talk) == ["one", "two", "three", "four"]


async def test_other_content_under_the_same_id_is_listed_and_left_alone(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    talk = await begin(organization, "one", "two")
    note = await memory_drafts.note(organization, "the light is red")
    await bring(other, await export(organization))
    await append(organization, "three, said here", to=talk)
    await append(other, "three, said there", to=talk)
    await memory_drafts.correct(other, note, content="the light is green")
    before = await export(other)

    receipt = await bring(other, await export(organization))

    assert [(each.kind, each.id) for each in receipt.problems] == [
        ("message", f"{talk}#3"),
        ("memory", note),
    ]
    assert (receipt.stored, receipt.conflicts) == ({}, 2)
    assert body_of(await export(other)) == body_of(before)


async def test_an_import_leaves_the_default_conversation_what_it_was(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    theirs = (await append(organization, "said there")).conversation_id
    mine = (await append(other, "said here")).conversation_id

    await bring(other, await export(organization))

    assert (await append(other, "said later")).conversation_id == mine
    assert await read_texts(other, theirs) == ["said there"]


@promise("quotas")
async def test_an_import_stops_at_the_quota_and_goes_on_when_there_is_room(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    for number in range(3):
        await begin(organization, *["x" * 2_000] * 200, title=f"talk {number}")
        await begin(organization, *["x" * 2_000] * 100)
    exported = await export(organization)

    with pytest.raises(QuotaExceededError):
        await bring(other, exported, quota=Quota(messages_max=700))
    stored = (await other.counters()).messages
    await bring(other, exported)

    assert 0 < stored <= 700
    assert body_of(await export(other)) == body_of(exported)
    assert (await other.counters()).stored_bytes == (await organization.counters()).stored_bytes


@promise("audit")
async def test_an_import_is_audited_without_its_content(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    await begin(organization, "my secret", title="a secret title")

    await bring(other, await export(organization))

    entries = await other.list_audit(limit=10, before=None)
    assert [(entry.actor, entry.action) for entry in entries] == [("importer", "import")]
    assert entries[0].details == {"conversations": 1, "messages": 1}


async def test_a_compressed_export_is_the_same_and_is_imported_as_it_is(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    await begin(organization, *["the same words again and again"] * 200)

    packed = await export(organization, compression="zstd")
    await bring(other, packed, piece_bytes=100)

    unpacked = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    assert unpacked == await export(organization)
    assert body_of(await export(other)) == body_of(unpacked)


async def test_filters_choose_what_an_export_holds(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    old = await begin(organization, "old", project="harbour")
    first = await memory_drafts.note(organization, "old note", project="harbour")
    clock.advance(timedelta(days=1))
    between = clock.now()
    clock.advance(timedelta(days=1))
    new = await begin(organization, "new")
    second = await memory_drafts.note(organization, "new note")
    document = await document_drafts.store(organization, "a document", project="harbour")
    for pair in ((first, second), (first, document.memory_id)):
        await organization.memories.connect(memory_drafts.relation(*pair), actor=ACTOR)

    async def ids(**request: Any) -> set[str]:
        data = await export(organization, **request)
        return {line["id"] for line in lines_of(data, "conversation", "memory")}

    everything = {old, first, new, second, document.memory_id}
    assert await ids() == everything
    assert await ids(project="harbour") == {old, first, document.memory_id}
    assert await ids(kinds=("conversation",)) == {old, new}
    assert await ids(kinds=("note",)) == {first, second}
    assert await ids(kinds=("document",)) == {document.memory_id}
    assert await ids(since=between) == {new, second, document.memory_id}
    assert await ids(before=between) == {old, first}
    await append(organization, "said later", to=old)
    assert old in await ids(since=between)
    related = lines_of(await export(organization, project="harbour"), "relation")
    assert [line["target_id"] for line in related] == [document.memory_id]


async def test_a_subject_gets_what_names_it_and_nothing_else(
    organization: OrganizationStore,
) -> None:
    def said(text: str, **fields: Any) -> MessageDraft:
        return MessageDraft(role="user", content=text, **fields)

    messages = (
        said("mine", name="alice"),
        said("hers", name="bob"),
        said("about me", metadata={"author": "alice"}),
    )
    shared = await begin(organization)
    request = AppendRequest(messages=messages, conversation_id=shared)
    await organization.append_messages(request, actor=ACTOR, quota=UNBOUNDED)
    own = await organization.create_conversation(ConversationDraft(agent_id="alice"), actor=ACTOR)
    await append(organization, "all of it", to=own)
    await begin(organization, "of nobody")
    await memory_drafts.store(
        organization, MemoryDraft(content="by alice", source="alice"), MemoryDraft(content="not")
    )

    exported = await export(organization, subject="alice")

    texts = [line["content"] for line in lines_of(exported, "message", "memory")]
    assert texts == ["mine", "about me", "all of it", "by alice"]
    assert conversation_ids(exported) == [shared, own]


async def test_an_export_holds_what_was_there_when_it_began(
    organization: OrganizationStore,
) -> None:
    talk = await begin(organization, *["x" * 900_000] * 6)
    exporting = export_stream(organization)
    first = await anext(exporting) + await anext(exporting)
    await append(organization, "said later", to=talk)
    await begin(organization, "begun later")

    exported = first + b"".join([part async for part in exporting])

    counts = lines_of(exported, "manifest")[0]["counts"]
    assert (counts["conversation"], counts["message"]) == (1, 6)


async def test_an_export_ends_with_an_error_if_a_conversation_goes_while_it_is_read(
    organization: OrganizationStore,
) -> None:
    talk = await begin(organization, *["x" * 900_000] * 6)
    exporting = export_stream(organization)
    for _ in range(2):
        await anext(exporting)
    await organization.delete_conversation(talk, actor=ACTOR)

    with pytest.raises(ConflictError, match="begin it again"):
        async for _ in exporting:
            pass


def _flip(data: bytes) -> bytes:
    place = data.index(b"sleeps")
    return data[:place] + b"sleepz" + data[place + 6 :]


def _newer(data: bytes) -> bytes:
    return data.replace(b'"version":1', b'"version":2', 1)


def _without_last_block(data: bytes) -> bytes:
    return b"\n".join(data.splitlines()[:-1]) + b"\n"


def _twice(data: bytes) -> bytes:
    return data + data


def _nothing(_: bytes) -> bytes:
    return b""


def _not_zstd(_: bytes) -> bytes:
    return b"\x28\xb5\x2f\xfdnot zstd at all"


def _unknown_type(data: bytes) -> bytes:
    return data.replace(b'"type":"message"', b'"type":"massage"')


def _endless_line(data: bytes) -> bytes:
    return data[:200] + b"x" * (EXPORT_LINE_BYTES_MAX + EXPORT_BLOCK_BYTES)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_flip, "hash differs"),
        (_newer, "version 2"),
        (_without_last_block, "incomplete"),
        (_twice, "after the manifest"),
        (body_of, "header"),
        (_nothing, "header"),
        (_not_zstd, "expanded"),
        (_unknown_type, "line 3"),
        (_endless_line, "longer"),
    ],
)
async def test_nothing_of_a_damaged_block_is_stored(
    organization: OrganizationStore,
    other: OrganizationStore,
    damage: Callable[[bytes], bytes],
    message: str,
) -> None:
    await begin(organization, "the quokka sleeps")

    with pytest.raises(InvalidRequestError, match=message):
        await bring(other, damage(await export(organization)))

    if message != "after the manifest":
        assert (await other.counters()).messages == 0
    assert [] == await findings(other)


def _change(kind: str, **fields: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, **fields} if line["type"] == kind else line

    return change


@promise("clear")
@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (_change("conversation", id="../../etc/passwd"), "conversation"),
        (_change("conversation", tags=["same", "same"]), "conversation"),
        (_change("conversation", created_at="yesterday"), "conversation"),
        (_change("message", sequence=5), "conversation"),
        (_change("message", name="x" * 10_000), "conversation"),
        (_change("message", captured_as="\u202e"), "conversation"),
        (_change("memory", id="mem_\0"), "memory"),
        (_change("memory", importance=9), "memory"),
        (_change("memory", episode_id="ep_unknown"), "memory"),
        (_change("memory", is_forgotten=True), "memory"),
        (_change("memory", versions=3), "memory"),
        (_change("memory", document_id="doc_other"), "memory"),
        (_change("document", id="doc_other"), "memory"),
        (_change("document", size_bytes=3), "memory"),
        (_change("document", size_bytes=10**12), "memory"),
        (_change("document", sha256="00" * 32), "memory"),
        (_change("body", text="other"), "memory"),
        (_change("relation", target_id="mem_unknown"), "relation"),
        (_change("relation", strength=7.0), "relation"),
        (_change("tombstone", sha256="zz"), "tombstone"),
        (_change("forgotten", id="mem_x"), "forgotten"),
        (_change("feedback", number=0), "feedback"),
        (_change("episode", description="x" * 100_000), "episode"),
    ],
)
async def test_a_line_that_cannot_be_stored_is_listed_and_the_others_are_stored(
    organization: OrganizationStore,
    other: OrganizationStore,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    kind: str,
) -> None:
    exported = await export(await _one_of_each(organization))

    receipt = await bring(other, rewritten(lines_of(exported), change))

    assert kind in {each.kind for each in receipt.problems}
    assert receipt.conflicts == 0
    assert [] == await findings(other)
    assert sum(receipt.stored.values()) > 0


async def _one_of_each(organization: OrganizationStore) -> OrganizationStore:
    await organization.memories.start_episode("default", "a watch", actor=ACTOR)
    await begin(organization, "said")
    gone = await begin(organization, "gone")
    await organization.delete_conversation(gone, actor=ACTOR)
    one, two, removed = await memory_drafts.remember(organization, "one", "two", "three")
    await organization.memories.purge(removed, actor=ACTOR)
    await organization.memories.connect(memory_drafts.relation(one, two), actor=ACTOR)
    rating = Feedback(memory_ids=(one,))
    await organization.memories.record_feedback(rating, actor=ACTOR)
    await document_drafts.store(organization, "the body of a document")
    return organization


async def test_a_conversation_that_comes_twice_is_stored_once(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    talk = await begin(organization, "said once")
    lines = lines_of(await export(organization))
    twice = [*lines[:3], *lines[1:3], *lines[3:]]

    receipt = await bring(other, rewritten(twice))

    assert receipt.problems == ()
    assert await read_texts(other, talk) == ["said once"]


def test_every_type_of_line_is_documented() -> None:
    page = (PROJECT / "docs" / "export.md").read_text()
    kinds = {
        str(kind.__struct_config__.tag)
        for kind in vars(export_format).values()
        if isinstance(kind, type) and issubclass(kind, export_format.Line)
        # What only gives others their fields is no line itself.
        if not kind.__subclasses__()
    }

    assert [] == [kind for kind in sorted(kinds) if f"`{kind}`" not in page]
