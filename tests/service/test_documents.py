"""Documents: whole or not at all, byte for byte, and found as soon as they are indexed."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram import limits
from engram.embedding.choice import NoEmbedder
from engram.errors import (
    AccessDeniedError,
    ConflictError,
    ConverterMissingError,
    InvalidRequestError,
    NotFoundError,
    NotTextError,
    QuotaExceededError,
    RequestTooLargeError,
)
from engram.model.access import Principal, Quota
from engram.model.document import ByteRange, DocumentDraft
from engram.model.ids import DocumentId
from engram.model.memory import MemoryDraft, MemoryOptions, MemoryQuery
from engram.model.recall import ContextRequest, RecallRequest
from engram.model.search import SearchRequest
from engram.model.value import replace
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.promises import promise
from tests.service.bodies import (
    TIER_1_BYTES,
    CutError,
    body_of,
    cut_after,
    index_all,
    left_of_documents,
    prose,
    rows,
    store,
    stream,
)

SMALL_LIMIT = 3_000_000
NOTHING = (0, 0, 0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
async def service(home: Path, clock: FakeClock) -> AsyncIterator[Service]:
    chosen = Settings(
        home=home,
        embedder=NoEmbedder(),
        max_document_bytes=1_000_000,
        raw_document_max_bytes=SMALL_LIMIT,
    )
    async with open_service(chosen, clock=clock) as opened:
        yield opened


async def found(service: Service, principal: Principal, query: str) -> list[str]:
    """Return the chunks of documents that a search finds."""
    request = SearchRequest(query=query, limit=50, kinds=("document",))
    answer = await service.search.search(principal, request)
    return [item.message.content for result in answer.results for item in result.messages]


async def test_a_small_document_is_found_when_it_is_answered(
    service: Service, principal: Principal
) -> None:
    stored = await store(service, principal, b"# Lisbon\n\nThe ferry leaves at dawn.\n")

    assert stored.document.tier == 0
    assert stored.document.state == "indexed"
    assert any("ferry" in text for text in await found(service, principal, "ferry dawn"))


async def test_of_a_document_the_chunk_is_shown_that_was_found(
    service: Service, principal: Principal
) -> None:
    await service.memories.store(principal, MemoryDraft(content="A note on a pangolin."))
    body = prose(TIER_1_BYTES) + b"\n# Animals\n\nA pangolin sleeps here.\n"
    stored = await store(service, principal, body, DocumentDraft(name="zoo.md"))
    await index_all(service, principal)

    request = SearchRequest(query="pangolin sleeps")
    shown = {
        detail: [
            result
            for result in (
                await service.search.search(principal, replace(request, detail=detail))
            ).results
            if result.kind == "document"
        ]
        for detail in ("messages", "window", "handle")
    }
    recalled = await service.search.recall(
        principal, RecallRequest(query="pangolin sleeps", top_k=5)
    )
    context = await service.search.fetch_context(
        principal, ContextRequest(query="pangolin sleeps", kinds=("document",))
    )

    for detail in ("messages", "window"):
        result = shown[detail][0]
        assert result.owner.id == stored.document.memory_id
        assert "A pangolin sleeps here." in result.messages[0].message.content
    (handle,) = shown["handle"]
    assert handle.is_handle
    assert handle.start_sequence == shown["window"][0].start_sequence
    (of_document,) = [each for each in recalled.results if each.memory.document_id is not None]
    assert "A pangolin sleeps here." in (of_document.matched.text or "")
    assert body.decode()[of_document.matched.start : of_document.matched.end] == (
        of_document.matched.text
    )
    assert of_document.chunk_count > 100
    assert {entry.kind for entry in context.entries} == {"document"}
    assert "A pangolin sleeps here." in context.entries[0].content


@promise("whole-body")
async def test_a_large_document_is_found_part_by_part(
    service: Service, principal: Principal
) -> None:
    body = b"The aardvark comes first.\n\n" + prose(TIER_1_BYTES) + b"\nThe zebra comes last.\n"

    stored = await store(service, principal, body)
    assert (stored.document.tier, stored.document.state) == (1, "indexing")
    await service.document_indexing.work(principal.organization_id)
    half = await service.documents.get(principal, stored.document.id)
    early = [await found(service, principal, word) for word in ("aardvark", "zebra")]
    await index_all(service, principal)
    late = [await found(service, principal, word) for word in ("aardvark", "zebra")]

    assert 0 < half.text_bytes_indexed < half.text_bytes
    assert [bool(texts) for texts in early] == [True, False]
    assert [bool(texts) for texts in late] == [True, True]
    assert (await service.documents.get(principal, stored.document.id)).state == "indexed"


@promise("verbatim")
@settings(max_examples=10)
@given(
    sizes=st.lists(st.integers(1, 400_000), min_size=1, max_size=6), seed=st.integers(0, 1_000_000)
)
async def test_bytes_come_back_however_they_were_cut(sizes: list[int], seed: int) -> None:
    body = prose(sum(sizes), seed=seed)
    cuts = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
    parts = [body[start:end] for start, end in zip(cuts, [*cuts[1:], len(body)], strict=True)]

    async with temporary_service() as (service, principal):
        stored = await service.documents.store_stream(principal, DocumentDraft(), stream(*parts))

        assert await body_of(service, principal, stored.document) == body
        assert stored.document.sha256 == hashlib.sha256(body).hexdigest()


@asynccontextmanager
async def temporary_service() -> AsyncGenerator[tuple[Service, Principal]]:
    """Yield a service for one example, which no fixture can give."""
    with tempfile.TemporaryDirectory() as directory:
        chosen = Settings(home=Path(directory), embedder=NoEmbedder())
        async with open_service(chosen) as service:
            yield service, await service.access.local_principal()


@promise("verbatim")
async def test_a_range_is_those_bytes(service: Service, principal: Principal) -> None:
    body = prose(300_000)
    document = (await store(service, principal, body)).document

    pieces = await service.documents.read_body(
        principal, document, ByteRange(start=131_000, end=262_200)
    )

    assert b"".join([piece async for piece in pieces]) == body[131_000:262_200]


@promise("all-or-nothing")
async def test_of_a_stream_that_is_cut_nothing_stays(
    service: Service, principal: Principal, home: Path
) -> None:
    with pytest.raises(CutError):
        await service.documents.store_stream(
            principal, DocumentDraft(), cut_after(prose(1_500_000), b"and then")
        )

    assert left_of_documents(home, principal) == NOTHING


@promise("all-or-nothing")
async def test_of_a_caller_who_goes_away_nothing_stays(
    service: Service, principal: Principal, home: Path
) -> None:
    reached = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield prose(1_500_000)
        reached.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(
        service.documents.store_stream(principal, DocumentDraft(), endless())
    )
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert left_of_documents(home, principal) == NOTHING


@promise("all-or-nothing")
async def test_a_stream_past_the_limit_is_refused_before_it_ends(
    service: Service, principal: Principal, home: Path
) -> None:
    taken = 0

    async def too_much() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 500_000
            yield b"x" * 500_000

    with pytest.raises(RequestTooLargeError) as refused:
        await service.documents.store_stream(principal, DocumentDraft(), too_much())

    assert refused.value.limit == SMALL_LIMIT
    assert taken <= SMALL_LIMIT + 500_000
    assert left_of_documents(home, principal) == NOTHING


async def test_a_document_at_the_limit_is_kept(service: Service, principal: Principal) -> None:
    stored = await store(service, principal, b"x" * SMALL_LIMIT)

    assert (stored.document.tier, stored.document.size_bytes) == (2, SMALL_LIMIT)


async def test_one_announced_too_large_is_refused_unread(
    service: Service, principal: Principal, home: Path
) -> None:
    async def unread() -> AsyncIterator[bytes]:
        raise AssertionError("nobody asked for it")
        yield b""

    with pytest.raises(RequestTooLargeError):
        await service.documents.store_stream(
            principal, DocumentDraft(size_bytes=SMALL_LIMIT + 1), unread()
        )

    assert left_of_documents(home, principal) == NOTHING


@promise("all-or-nothing")
@pytest.mark.parametrize("announced", [9, 11])
async def test_a_length_that_lies_leaves_nothing(
    service: Service, principal: Principal, home: Path, announced: int
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await store(service, principal, b"0123456789", DocumentDraft(size_bytes=announced))

    assert refused.value.field == "size"
    assert left_of_documents(home, principal) == NOTHING


async def test_what_is_not_the_text_it_is_said_to_be_is_refused_at_its_byte(
    service: Service, principal: Principal, home: Path
) -> None:
    body = b"x" * 200_000 + b"\xff" + b"y" * 100

    with pytest.raises(NotTextError) as refused:
        await store(service, principal, body, DocumentDraft(media_type="text/plain"))

    assert refused.value.offset_bytes == 200_000
    assert left_of_documents(home, principal) == NOTHING


async def test_nothing_is_no_document(service: Service, principal: Principal, home: Path) -> None:
    with pytest.raises(InvalidRequestError):
        await store(service, principal, b"")

    assert left_of_documents(home, principal) == NOTHING


async def test_the_same_bytes_in_a_project_are_kept_once(
    service: Service, principal: Principal, home: Path
) -> None:
    first = await store(service, principal, b"the same words")
    again = await store(service, principal, b"the same words")
    other = DocumentDraft(options=MemoryOptions(project="other"))
    elsewhere = await store(service, principal, b"the same words", other)

    assert (again.is_duplicate, again.document.id) == (True, first.document.id)
    assert not elsewhere.is_duplicate
    assert left_of_documents(home, principal)[0] == 2


async def test_html_is_searched_as_text_and_given_back_as_it_came(
    service: Service, principal: Principal
) -> None:
    body = b"<!doctype html><h1>Ports</h1><p>The <b>gan</b>try moved.</p><script>x()</script>"

    stored = await store(service, principal, body, DocumentDraft(media_type="text/html"))

    assert stored.document.state == "indexed"
    assert any("The gantry moved" in text for text in await found(service, principal, "gantry"))
    assert await found(service, principal, "script") == []
    assert await body_of(service, principal, stored.document) == body


async def test_what_no_text_can_be_made_of_is_kept_with_the_reason(
    service: Service, principal: Principal
) -> None:
    draft = DocumentDraft(name="minutes.docx", media_type="application/msword")

    stored = await store(service, principal, b"PK not really", draft)

    assert stored.document.state == "unreadable"
    assert stored.document.problem is not None
    assert await body_of(service, principal, stored.document) == b"PK not really"
    assert not await service.document_indexing.work(principal.organization_id)


async def test_a_document_waits_for_its_converter_and_says_so(
    service: Service, principal: Principal, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_missing(source: Path, target: Path, **_: object) -> None:
        raise ConverterMissingError(f"{source.name} and {target.name} need an extra")

    body = b"<!doctype html><h1>Ports</h1><p>The gantry moved.</p>"
    with monkeypatch.context() as patch:
        patch.setattr("engram.convert.sandbox.convert_file", is_missing)
        stored = await store(service, principal, body, DocumentDraft(media_type="text/html"))
    assert stored.document.state == "indexing"
    assert stored.document.problem == "source and text need an extra"
    assert not await service.document_indexing.work(principal.organization_id)

    clock.advance(timedelta(minutes=10))
    await index_all(service, principal)

    found_later = await service.documents.get(principal, stored.document.id)
    assert (found_later.state, found_later.problem) == ("indexed", None)
    assert any("The gantry moved" in text for text in await found(service, principal, "gantry"))


async def test_documents_have_their_turns(service: Service, principal: Principal) -> None:
    first = (await store(service, principal, prose(TIER_1_BYTES, seed=1))).document
    second = (await store(service, principal, prose(TIER_1_BYTES, seed=2))).document

    turns = [await service.document_indexing.work(principal.organization_id) for _ in range(4)]

    ids = [turn.id for turn in turns if turn is not None]
    assert ids == [first.id, second.id, first.id, second.id]


async def test_a_damaged_document_rests_and_holds_up_no_other(
    service: Service, principal: Principal, home: Path, clock: FakeClock
) -> None:
    damaged = (await store(service, principal, prose(TIER_1_BYTES, seed=1))).document
    rows(home, principal, "UPDATE document_piece SET content = zeroblob(9)")
    sound = (await store(service, principal, prose(TIER_1_BYTES, seed=2))).document

    steps = await index_all(service, principal)

    assert steps < 10
    assert (await service.documents.get(principal, sound.id)).state == "indexed"
    waiting = await service.documents.get(principal, damaged.id)
    assert waiting.state == "indexing"
    assert waiting.problem is not None
    clock.advance(timedelta(seconds=31))
    tried = await service.document_indexing.work(principal.organization_id)
    assert tried is not None
    assert tried.id == damaged.id
    clock.advance(timedelta(seconds=31))
    assert not await service.document_indexing.work(principal.organization_id)


@promise("parts")
async def test_parts_come_in_order_and_the_last_may_be_repeated(
    service: Service, principal: Principal
) -> None:
    documents = service.documents
    upload = await documents.begin_upload(principal, DocumentDraft(name="log"))
    await documents.add_part(principal, upload.id, 0, b"one ")

    with pytest.raises(ConflictError):
        await documents.add_part(principal, upload.id, 2, b"three ")
    await documents.add_part(principal, upload.id, 0, b"one ")
    with pytest.raises(ConflictError):
        await documents.add_part(principal, upload.id, 0, b"another")
    await documents.add_part(principal, upload.id, 1, b"two")
    resumed = await documents.find_upload(principal, upload.id)
    stored = await documents.finish_upload(principal, upload.id)
    again = await documents.finish_upload(principal, upload.id)

    assert (resumed.parts, resumed.received_bytes) == (2, 7)
    assert await body_of(service, principal, stored.document) == b"one two"
    assert again.document.id == stored.document.id


async def test_a_part_is_bounded_and_not_empty(service: Service, principal: Principal) -> None:
    upload = await service.documents.begin_upload(principal, DocumentDraft())

    with pytest.raises(RequestTooLargeError):
        await service.documents.add_part(
            principal, upload.id, 0, b"x" * (limits.UPLOAD_PART_BYTES_MAX + 1)
        )
    with pytest.raises(InvalidRequestError):
        await service.documents.add_part(principal, upload.id, 0, b"")


@promise("all-or-nothing")
async def test_an_upload_that_nobody_finishes_is_removed(
    service: Service, principal: Principal, home: Path, clock: FakeClock
) -> None:
    upload = await service.documents.begin_upload(principal, DocumentDraft())
    await service.documents.add_part(principal, upload.id, 0, b"never finished")
    assert (await service.documents.list(principal, MemoryQuery())).total == 0

    clock.advance(timedelta(minutes=limits.UPLOAD_MINUTES, seconds=1))
    with pytest.raises(NotFoundError):
        await service.documents.add_part(principal, upload.id, 1, b"too late")
    await service.background.take_due()
    await service.document_indexing.work_queued()

    assert left_of_documents(home, principal) == NOTHING


async def test_an_aborted_upload_is_gone(
    service: Service, principal: Principal, home: Path
) -> None:
    upload = await service.documents.begin_upload(principal, DocumentDraft())
    await service.documents.add_part(principal, upload.id, 0, b"half")

    await service.documents.abort_upload(principal, upload.id)

    assert left_of_documents(home, principal) == NOTHING
    with pytest.raises(NotFoundError):
        await service.documents.abort_upload(principal, upload.id)


async def test_a_document_is_known_by_its_memory_too(
    service: Service, principal: Principal
) -> None:
    document = (await store(service, principal, b"known twice")).document

    assert await service.documents.get(principal, document.memory_id) == document
    for unknown in ("doc_nothing", "mem_nothing", ""):
        with pytest.raises(NotFoundError):
            await service.documents.get(principal, unknown)


async def test_documents_are_listed_beside_no_other_memory(
    service: Service, principal: Principal
) -> None:
    await service.memories.store(principal, MemoryDraft(content="no document"))
    first = (await store(service, principal, b"the first")).document
    second = (await store(service, principal, b"the second")).document

    page = await service.documents.list(principal, MemoryQuery(limit=1))

    assert [owned.document.id for owned in page.documents] == [second.id]
    assert (page.total, page.next_offset) == (2, 1)
    rest = await service.documents.list(principal, MemoryQuery(limit=1, offset=1))
    assert [owned.document.id for owned in rest.documents] == [first.id]


@promise("removal")
async def test_removing_takes_everything(
    service: Service, principal: Principal, home: Path
) -> None:
    document = (await store(service, principal, prose(TIER_1_BYTES))).document
    await index_all(service, principal)

    await service.documents.remove(principal, document.id)

    assert left_of_documents(home, principal) == NOTHING
    assert await found(service, principal, "river stone winter") == []
    with pytest.raises(NotFoundError):
        await service.documents.get(principal, document.memory_id)


@promise("removal")
async def test_one_removed_while_it_is_indexed_ends_its_index(
    service: Service, principal: Principal
) -> None:
    document = (await store(service, principal, prose(TIER_1_BYTES))).document
    await service.document_indexing.work(principal.organization_id)

    await service.documents.remove(principal, document.id)

    assert not await service.document_indexing.work(principal.organization_id)


async def test_each_use_needs_its_scope(service: Service, principal: Principal) -> None:
    document = (await store(service, principal, b"guarded")).document
    reader = replace(principal, scopes=frozenset({"read"}))
    writer = replace(principal, scopes=frozenset({"write"}))

    for refused in (
        store(service, reader, b"not allowed"),
        service.documents.begin_upload(reader, DocumentDraft()),
        service.documents.add_part(reader, DocumentId("doc_x"), 0, b"x"),
        service.documents.finish_upload(reader, DocumentId("doc_x")),
        service.documents.abort_upload(reader, DocumentId("doc_x")),
        service.documents.find_upload(reader, DocumentId("doc_x")),
        service.documents.remove(reader, document.id),
        service.documents.get(writer, document.id),
        service.documents.show(writer, document.id),
        service.documents.list(writer, MemoryQuery()),
        service.documents.read_body(writer, document),
        service.documents.read_text(writer, document),
    ):
        with pytest.raises(AccessDeniedError):
            await refused


async def test_a_quota_is_kept_to_and_warned_of(
    service: Service, principal: Principal, home: Path
) -> None:
    bounded = replace(principal, quota=Quota(bytes_max=100_000))

    nearly = await store(service, bounded, prose(85_000))
    with pytest.raises(QuotaExceededError):
        await store(service, bounded, prose(30_000, seed=1))

    assert nearly.quota_warning is not None
    assert left_of_documents(home, principal)[0] == 1
