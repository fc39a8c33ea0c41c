"""A search from question to answer, on a real store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import NotFoundError
from engram.model.ids import ConversationId, chunk_id
from engram.model.search import SearchRequest
from engram.model.value import replace
from engram.search.candidates import shorten
from engram.storage.organization import OrganizationStore
from engram.text.windows import window_text
from tests.search.asking import add, contents_of, search

HARBOUR = (
    "Shall we sail on Sunday?",
    "Yes, the harbour opens at six.",
    "I will bring coffee.",
    "Then I bring the lanterns.",
    "The harbour master wants twelve euros.",
    "Twelve is fine.",
    "See you there.",
)


async def test_the_best_messages_come_verbatim_and_first(store: OrganizationStore) -> None:
    await add(store, "We planted tomatoes.", "Good soil here.")
    conversation_id = await add(store, *HARBOUR)

    answer = await search(SearchRequest(query="When does the harbour open?"), store)

    assert contents_of(answer)[0] == "Yes, the harbour opens at six."
    result = answer.results[0]
    assert result.kind == "conversation"
    assert result.owner.id == conversation_id
    assert result.messages[0].message.sequence == 2
    assert result.chunk_text is None
    assert result.chunk_id == chunk_id(
        conversation_id, start=result.start_sequence, end=result.end_sequence
    )
    assert 0 < result.score <= 1
    assert answer.note is None
    assert answer.degraded == ("words_only",)
    assert answer.pending == 0


async def test_each_message_comes_once_and_tokens_are_what_was_delivered(
    store: OrganizationStore,
) -> None:
    for _ in range(4):
        await add(store, *HARBOUR)

    answer = await search(SearchRequest(query="harbour coffee lanterns", limit=10), store)

    found = [
        (result.owner.id, found.message.sequence)
        for result in answer.results
        for found in result.messages
    ]
    assert len(set(found)) == len(found)
    assert answer.tokens == sum(-(-len(content) // 4) for content in contents_of(answer))


async def test_past_the_budget_results_are_handles(store: OrganizationStore) -> None:
    for number in range(6):
        await add(store, f"harbour {number} " + "x " * 150)

    answer = await search(SearchRequest(query="harbour", token_budget=200), store)

    assert [result.is_handle for result in answer.results] == [False, False, True, True, True]
    assert answer.tokens <= 200
    assert answer.truncated
    handle = answer.results[-1]
    assert handle.messages == ()
    assert (handle.start_sequence, handle.end_sequence) == (1, 1)


async def test_a_handle_stands_where_its_text_would(store: OrganizationStore) -> None:
    await add(store, "the harbour at night")
    await add(store, "harbour lanterns " * 25)
    await add(store, "a word of lanterns, among others that have nothing to do with it")

    answer = await search(SearchRequest(query="harbour lanterns", token_budget=100), store)

    assert [result.is_handle for result in answer.results].count(True) == 1
    scores = [result.score for result in answer.results]
    assert scores == sorted(scores, reverse=True)
    assert not answer.results[-1].is_handle


async def test_a_window_comes_whole_with_its_text(store: OrganizationStore) -> None:
    conversation_id = await add(store, *HARBOUR)

    answer = await search(SearchRequest(query="harbour opens", detail="window"), store)

    first = answer.results[0]
    assert (first.start_sequence, first.end_sequence) == (1, 5)
    assert [found.message.content for found in first.messages] == list(HARBOUR[:5])
    assert first.chunk_text == window_text(found.message for found in first.messages)
    assert first.chunk_id == chunk_id(conversation_id, start=1, end=5)
    assert max(found.score for found in first.messages) == first.score
    assert answer.tokens <= 2000


async def test_a_window_that_does_not_fit_comes_as_a_handle(store: OrganizationStore) -> None:
    await add(store, "harbour " + "x " * 400)
    await add(store, "a small harbour")

    request = SearchRequest(query="harbour", detail="window", token_budget=100)
    answer = await search(request, store)

    assert {result.is_handle for result in answer.results} == {True, False}
    assert answer.tokens <= 100
    assert answer.truncated


async def test_handles_have_no_text(store: OrganizationStore) -> None:
    first = await add(store, *HARBOUR)
    second = await add(store, "The harbour is closed.")

    answer = await search(SearchRequest(query="harbour", detail="handle"), store)

    assert {result.owner.id for result in answer.results} == {first, second}
    assert all(result.is_handle and not result.messages for result in answer.results)
    assert answer.tokens == 0
    assert not answer.truncated


async def test_an_explanation_names_every_leg(store: OrganizationStore) -> None:
    await add(store, *HARBOUR)

    plain = await search(SearchRequest(query="harbour"), store)
    explained = await search(SearchRequest(query="harbour", explain=True), store)

    assert plain.results[0].messages[0].breakdown is None
    breakdown = explained.results[0].messages[0].breakdown
    assert breakdown is not None
    assert breakdown.legs.keys() == breakdown.weights.keys() == {"message_words", "window_words"}
    assert sum(breakdown.weights.values()) == pytest.approx(1)
    assert contents_of(plain) == contents_of(explained)


async def test_a_least_score_is_compared_with_the_shown_score(store: OrganizationStore) -> None:
    await add(store, *HARBOUR)
    request = SearchRequest(query="harbour opens")
    scores = [
        found.score
        for result in (await search(request, store)).results
        for found in result.messages
    ]

    answer = await search(replace(request, min_score=max(scores)), store)

    assert contents_of(answer) == ["Yes, the harbour opens at six."]


@pytest.mark.parametrize("query", ["?!", "🦊", "zeppelin"])
async def test_a_query_that_meets_nothing_says_so(store: OrganizationStore, query: str) -> None:
    await add(store, *HARBOUR)

    answer = await search(SearchRequest(query=query), store)

    assert answer.results == ()
    assert answer.total_candidates == 0
    assert answer.note == "nothing relevant"


async def test_a_weak_best_score_is_noted_beside_the_results(store: OrganizationStore) -> None:
    for number in range(20):
        await add(store, f"We talked about harbour number {number} and many other things there.")

    query = "zeppelin harbour quartz violin umbrella"
    answer = await search(SearchRequest(query=query), store)

    assert answer.results
    assert answer.note == "nothing relevant"


async def test_other_kinds_alone_find_no_conversation(store: OrganizationStore) -> None:
    await add(store, *HARBOUR)

    answer = await search(SearchRequest(query="harbour", kinds=("note", "document")), store)

    assert answer.results == ()


async def test_filters_reach_the_store(store: OrganizationStore) -> None:
    await add(store, *HARBOUR)
    second = await add(store, "The harbour is closed.")

    answer = await search(SearchRequest(query="harbour", conversation_id=second), store)

    assert contents_of(answer) == ["The harbour is closed."]


async def test_an_unknown_conversation_is_an_error(store: OrganizationStore) -> None:
    elsewhere = ConversationId("conv_elsewhere")

    with pytest.raises(NotFoundError):
        await search(SearchRequest(query="harbour", conversation_id=elsewhere), store)


async def test_a_long_query_is_shortened_and_says_so(store: OrganizationStore) -> None:
    await add(store, *HARBOUR)
    query = "harbour " + " ".join(f"unheard{number}" for number in range(200))

    answer = await search(SearchRequest(query=query), store)

    assert "Yes, the harbour opens at six." in contents_of(answer)
    assert answer.degraded == ("words_only", "query_shortened")


async def test_the_same_search_gives_the_same_answer(store: OrganizationStore) -> None:
    for _ in range(5):
        await add(store, *HARBOUR)
    request = SearchRequest(query="harbour lanterns", limit=3, explain=True)

    assert await search(request, store) == await search(request, store)


@given(st.lists(st.integers(0, 300).map(str), max_size=600))
def test_shortening_keeps_repeats_and_order(terms: list[str]) -> None:
    shortened = shorten(terms)

    assert len(set(shortened)) == min(len(set(terms)), 128)
    assert shortened == [term for term in terms if term in set(shortened)]
