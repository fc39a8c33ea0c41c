"""What engram-go's documents and questions to them get wrong does not happen here (3.5, 3.8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from engram import limits
from engram.embedding.choice import NoEmbedder
from engram.errors import ConflictError, NotFoundError, RequestTooLargeError
from engram.language import OpenAIModel
from engram.model.access import Principal
from engram.model.document import Document, DocumentDraft, DocumentLimits
from engram.model.memory import MemoryChange, MemoryFilters, MemoryQuery
from engram.model.recall import RecallRequest
from engram.service import Service
from engram.settings import Settings
from engram.text.tokens import count_tokens
from engram.wiring import open_service
from tests.language.service import Service as LanguageService
from tests.language.service import failing, running_language_service
from tests.promises import promise
from tests.service.asking import ask, in_pieces, store_document

PADDING = "The tide tables repeat themselves from page to page, as tides do.\n"
PLANTED = "The zeppelin was moored at Kåseberga on a Tuesday.\n"
MIDDLE = PADDING * 6_000 + PLANTED + PADDING * 6_000
"""A document of tier 1, with a sentence far behind its synopsis."""


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with open_service(Settings(home=tmp_path, embedder=NoEmbedder())) as opened:
        yield opened


@pytest.fixture
async def principal(service: Service) -> Principal:
    return await service.access.local_principal()


@pytest.fixture
async def document(service: Service, principal: Principal) -> Document:
    return (await store_document(service, principal, MIDDLE)).document


@pytest.fixture
def model() -> Iterator[LanguageService]:
    """A running service of language models."""
    with running_language_service() as running:
        yield running


async def body_of(service: Service, principal: Principal, document: Document) -> bytes:
    pieces = await service.documents.read_body(principal, document)
    return b"".join([piece async for piece in pieces])


@promise("tiers")
def test_3_5_the_first_tier_ends_at_one_size() -> None:
    bounds = DocumentLimits()

    assert (0, 1) == (bounds.tier_of(500_000), bounds.tier_of(500_001))
    assert (1, 2) == (bounds.tier_of(8 * 1024 * 1024), bounds.tier_of(8 * 1024 * 1024 + 1))


@promise("all-or-nothing")
async def test_3_5_the_largest_size_is_a_setting_and_above_it_nothing_is_written(
    tmp_path: Path,
) -> None:
    settings = Settings(home=tmp_path, embedder=NoEmbedder(), raw_document_max_bytes=600_000)
    async with open_service(settings) as service:
        principal = await service.access.local_principal()
        with pytest.raises(RequestTooLargeError):
            await service.documents.store_stream(
                principal, DocumentDraft(), in_pieces(b"a" * 600_001)
            )
        page = await service.documents.list(principal, MemoryQuery())

    assert 0 == page.total


@promise("verbatim")
async def test_3_5_a_document_of_the_middle_tier_comes_back_verbatim(
    service: Service, principal: Principal, document: Document
) -> None:
    assert 1 == document.tier
    assert MIDDLE.encode() == await body_of(service, principal, document)


@promise("whole-body")
async def test_3_5_and_3_8_a_question_looks_at_the_whole_body_and_not_at_a_synopsis(
    service: Service, principal: Principal, document: Document
) -> None:
    found = await ask(
        service, principal, document.memory_id, substrings=("zeppelin",), semantic=False
    )

    assert PLANTED in found.spans[0].text
    assert MIDDLE[found.spans[0].start : found.spans[0].end] == found.spans[0].text


@promise("whole-body")
async def test_3_5_words_far_behind_the_synopsis_are_recalled(
    service: Service, principal: Principal, document: Document
) -> None:
    recalled = await service.search.recall(
        principal, RecallRequest(query="zeppelin Kåseberga", filters=MemoryFilters())
    )

    assert [document.memory_id] == [each.memory.id for each in recalled.results]


@promise("removal")
async def test_3_5_deleting_a_memory_deletes_its_body(
    service: Service, principal: Principal, document: Document
) -> None:
    await service.memories.purge(principal, document.memory_id)

    with pytest.raises(NotFoundError):
        await body_of(service, principal, document)


async def test_3_5_a_correction_does_not_destroy_the_index_of_a_document(
    service: Service, principal: Principal, document: Document
) -> None:
    with pytest.raises(ConflictError):
        await service.memories.correct(
            principal, document.memory_id, MemoryChange(content="a synopsis")
        )
    await service.memories.correct(principal, document.memory_id, MemoryChange(importance=0))

    near = await ask(service, principal, document.memory_id, question="zeppelin at Kåseberga")
    assert any(PLANTED in span.text for span in near.spans)


@promise("spans-without-model")
async def test_3_8_spans_need_no_language_model(
    service: Service, principal: Principal, document: Document
) -> None:
    answer = await ask(service, principal, document.memory_id, regex="zep+elin")

    assert answer.spans
    assert answer.answer is None


@promise("spans-without-model")
async def test_3_8_a_failing_language_model_loses_no_span(
    tmp_path: Path, model: LanguageService
) -> None:
    model.usual = failing(500)
    settings = Settings(
        home=tmp_path, embedder=NoEmbedder(), language_model=OpenAIModel("small", model.url)
    )
    async with open_service(settings) as service:
        principal = await service.access.local_principal()
        stored = await store_document(service, principal, PADDING + PLANTED)

        answer = await ask(service, principal, stored.document.memory_id, substrings=("zep",))

    assert PLANTED in answer.spans[0].text
    assert "language_model" in answer.degraded


@promise("spans")
@pytest.mark.parametrize("window_chars", range(1, 9))
async def test_3_8_no_span_parts_a_character(
    service: Service, principal: Principal, window_chars: int
) -> None:
    text = "🐋é🐋é" * 3 + "whale" + "🐋é🐋é" * 3
    stored = await store_document(service, principal, text)

    answer = await ask(
        service,
        principal,
        stored.document.memory_id,
        substrings=("whale",),
        window_chars=window_chars,
        semantic=False,
    )

    (span,) = answer.spans
    assert text.encode()[span.start_byte : span.end_byte].decode() == span.text
    assert 5 + window_chars == len(span.text)


@promise("spans")
async def test_3_8_the_question_chooses_the_spans(
    service: Service, principal: Principal, document: Document
) -> None:
    answer = await ask(
        service,
        principal,
        document.memory_id,
        question="Where was the zeppelin moored?",
        token_budget=limits.TOKEN_BUDGET_MIN,
    )

    assert any(PLANTED in span.text for span in answer.spans)


@promise("spans")
async def test_3_8_merged_windows_name_every_match(service: Service, principal: Principal) -> None:
    stored = await store_document(service, principal, "one fish two fish red fish blue fish")

    answer = await ask(service, principal, stored.document.memory_id, substrings=("fish", "red"))

    assert [4, 13, 18, 22, 32] == [match.start for match in answer.spans[0].matches]


@promise("spans")
async def test_3_8_a_span_that_is_cut_still_shows_its_match(
    service: Service, principal: Principal, document: Document
) -> None:
    answer = await ask(
        service,
        principal,
        document.memory_id,
        substrings=("zeppelin",),
        window_chars=10_000,
        token_budget=limits.TOKEN_BUDGET_MIN,
    )

    (span,) = answer.spans
    assert (True, True) == (answer.is_truncated, span.is_cut)
    assert "zeppelin" in span.text
    assert 95 <= count_tokens(span.text) <= limits.TOKEN_BUDGET_MIN
