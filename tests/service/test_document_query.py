"""Asking documents: what is found, how much of it is shown, and what is said of it."""

from __future__ import annotations

import pytest

from engram import limits
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.access import Principal
from engram.model.document import DocumentDraft
from engram.model.ids import MemoryId
from engram.search.document_query import (
    FILTER_TIMEOUT,
    INDEXING,
    NO_MATCH,
    NO_TEXT,
    NOT_INDEXED,
    THE_BEGINNING,
    TIME_UP,
)
from engram.service import Service
from engram.text.tokens import count_tokens
from tests.promises import promise
from tests.service.asking import ask, in_pieces, store_document, store_text

LINES = "".join(f"Line {number} of the log says nothing new.\n" for number in range(20_000))
PLANTED = "The ferry to Ærø leaves at 07:42 from pier 9. ⛴\n"
HALF = len(LINES) // 2
LOG = f"# Log\n\n{LINES[:HALF]}{PLANTED}{LINES[HALF:]}"


@promise("spans")
async def test_a_span_surrounds_each_match_of_a_pattern(
    service: Service, principal: Principal
) -> None:
    stored = await store_document(service, principal, LOG)

    answer = await ask(
        service, principal, stored.document.memory_id, regex=r"\d\d:\d\d from", window_chars=100
    )

    span = answer.spans[0]
    assert "07:42 from" in span.text
    assert LOG[span.start : span.end] == span.text
    assert LOG.encode()[span.start_byte : span.end_byte].decode() == span.text
    assert ["07:42 from"] == [LOG[each.start : each.end] for each in span.matches]
    assert (len(span.text), answer.is_truncated, answer.note) == (110, False, None)


@promise("spans")
async def test_a_text_that_is_found_often_fills_the_budget_and_says_so(
    service: Service, principal: Principal
) -> None:
    stored = await store_document(service, principal, LOG)

    answer = await ask(
        service, principal, stored.document.memory_id, substrings=("Line 1",), token_budget=100
    )

    assert answer.is_truncated
    assert 95 <= sum(count_tokens(span.text) for span in answer.spans) <= 100
    assert "Line 1" in answer.spans[0].text


async def test_a_question_finds_the_part_that_answers_it(
    service: Service, principal: Principal
) -> None:
    stored = await store_document(service, principal, LOG, name="log.md")

    answer = await ask(
        service,
        principal,
        stored.document.memory_id,
        question="When does the ferry to Ærø leave?",
        window_chars=200,
        token_budget=600,
    )

    best = max(answer.spans, key=lambda span: span.score or 0)
    assert PLANTED.strip() in best.text
    assert ("Log",) == best.headings
    (text,) = answer.texts
    assert text.indexed_bytes == text.text_bytes == len(LOG.encode())


async def test_what_a_filter_finds_comes_with_what_is_near_to_the_question(
    service: Service, principal: Principal
) -> None:
    stored = await store_document(service, principal, LOG)

    answer = await ask(
        service,
        principal,
        stored.document.memory_id,
        question="When does the ferry leave?",
        substrings=("Line 19999 ",),
        window_chars=200,
    )
    alone = await ask(
        service,
        principal,
        stored.document.memory_id,
        question="When does the ferry leave?",
        substrings=("Line 19999 ",),
        window_chars=200,
        semantic=False,
    )

    assert any("ferry" in span.text for span in answer.spans)
    assert "Line 19999 " in answer.spans[-1].text
    assert 1 == len(alone.spans)


async def test_nothing_that_matches_is_an_answer(service: Service, principal: Principal) -> None:
    memory_id = await store_text(service, principal, "The pump in the cellar is new.")

    answer = await ask(service, principal, memory_id, substrings=("PUMP",))

    assert ((), NO_MATCH, False) == (answer.spans, answer.note, answer.is_truncated)


async def test_notes_can_be_asked_too(service: Service, principal: Principal) -> None:
    content = "The pump in the cellar is new. " * 1_000 + "Its serial number is 7-Ø-9."
    memory_id = await store_text(service, principal, content)

    found = await ask(service, principal, memory_id, regex="number is .*", window_chars=20)
    near = await ask(service, principal, memory_id, question="serial number", window_chars=20)

    assert found.spans[-1].text.endswith("7-Ø-9.")
    assert any("7-Ø-9" in span.text for span in near.spans)


@promise("spans")
async def test_several_texts_are_asked_at_once_in_the_order_given(
    service: Service, principal: Principal
) -> None:
    first = await store_text(service, principal, "Anna keeps the key under the mat.")
    document = await store_document(service, principal, "Berta keeps the key in her bag.")
    second = document.document.memory_id

    answer = await ask(service, principal, second, first, second, substrings=("the key",))

    assert [second, first] == [span.memory_id for span in answer.spans]
    assert [second, first] == [text.memory_id for text in answer.texts]


async def test_without_filter_and_meaning_the_beginning_is_shown(
    service: Service, principal: Principal
) -> None:
    stored = await store_document(service, principal, LOG)

    answer = await ask(
        service, principal, stored.document.memory_id, semantic=False, window_chars=500
    )

    assert [LOG[:500]] == [span.text for span in answer.spans]
    assert THE_BEGINNING == answer.note


async def test_a_forgotten_memory_answers_filters_alone(
    service: Service, principal: Principal
) -> None:
    memory_id = await store_text(service, principal, "The pump in the cellar is new.")
    await service.memories.forget(principal, memory_id)

    found = await ask(service, principal, memory_id, substrings=("pump",))
    near = await ask(service, principal, memory_id, question="pump")

    assert ["The pump in the cellar is new."] == [span.text for span in found.spans]
    assert ((), NOT_INDEXED) == (near.spans, near.note)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("filter.regex", {"regex": "a" * 1_025}),
        ("filter.regex", {"regex": "(unclosed"}),
        ("filter.substrings[1]", {"substrings": ("a", "")}),
        ("filter.substrings", {"substrings": tuple(map(str, range(limits.SUBSTRINGS_MAX + 1)))}),
        ("window_chars", {"window_chars": 0}),
        ("token_budget", {"token_budget": limits.TOKEN_BUDGET_MIN - 1}),
        ("question", {"question": " "}),
    ],
)
async def test_what_cannot_be_asked_is_refused_with_its_field(
    service: Service, principal: Principal, field: str, options: dict[str, object]
) -> None:
    memory_id = await store_text(service, principal, "The pump in the cellar is new.")

    with pytest.raises(InvalidRequestError) as refused:
        await ask(service, principal, memory_id, **options)  # pyright: ignore[reportArgumentType]: what is refused

    assert field == refused.value.field


async def test_an_unknown_memory_and_one_of_another_project_are_not_found(
    service: Service, principal: Principal
) -> None:
    memory_id = await store_text(service, principal, "The pump in the cellar is new.")

    with pytest.raises(NotFoundError):
        await ask(service, principal, MemoryId("mem_nowhere"))
    with pytest.raises(NotFoundError):
        await ask(service, principal, memory_id, project="elsewhere")


async def test_a_match_of_a_filter_says_what_it_stands_under(
    service: Service, principal: Principal
) -> None:
    text = f"before\n\n# Harbour\n\n{LINES[:9_000]}\n## Ferries\n\n{PLANTED}{LINES[:9_000]}"
    stored = await store_document(service, principal, text)

    answer = await ask(
        service,
        principal,
        stored.document.memory_id,
        substrings=("before", "Line 1 ", "ferry"),
        window_chars=20,
        semantic=False,
    )

    assert [(), ("Harbour",), ("Harbour", "Ferries"), ("Harbour", "Ferries")] == [
        span.headings for span in answer.spans
    ]


@promise("linear")
async def test_a_filter_that_takes_too_long_is_given_up_and_says_so(
    service: Service, principal: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = await store_document(service, principal, LOG)
    monkeypatch.setattr(limits, "REGEX_S", -1)

    answer = await ask(service, principal, stored.document.memory_id, regex="ferry")

    assert ((), TIME_UP, True) == (answer.spans, answer.note, answer.is_truncated)
    assert FILTER_TIMEOUT in answer.degraded


async def test_a_document_that_waits_for_its_index_answers_filters_and_says_how_far_it_is(
    service: Service, principal: Principal
) -> None:
    body = in_pieces(LOG.encode())
    stored = await service.documents.store_stream(principal, DocumentDraft(), body)

    near = await ask(service, principal, stored.document.memory_id, question="ferry")
    found = await ask(service, principal, stored.document.memory_id, substrings=("ferry",))

    assert "indexing" == stored.document.state
    assert ((), NOT_INDEXED) == (near.spans, near.note)
    assert INDEXING in near.degraded
    assert 0 == near.texts[0].indexed_bytes < near.texts[0].text_bytes
    assert "ferry" in found.spans[0].text


async def test_matches_beyond_the_bound_are_said_to_be_left_out(
    service: Service, principal: Principal
) -> None:
    stored = await store_document(service, principal, "ab" * 20_000)

    answer = await ask(
        service,
        principal,
        stored.document.memory_id,
        substrings=("a",),
        semantic=False,
        token_budget=limits.TOKEN_BUDGET_MAX,
    )

    assert answer.is_truncated
    assert limits.QUERY_MATCHES_MAX == sum(len(span.matches) for span in answer.spans)


async def test_a_document_without_text_gives_none(service: Service, principal: Principal) -> None:
    stored = await service.documents.store_stream(
        principal, DocumentDraft(media_type="application/pdf"), in_pieces(b"%PDF-1.4 broken\xff")
    )

    found = await ask(service, principal, stored.document.memory_id, substrings=("PDF",))
    begun = await ask(service, principal, stored.document.memory_id, semantic=False)

    assert ((), NO_MATCH) == (found.spans, found.note)
    assert ((), NO_TEXT) == (begun.spans, begun.note)
