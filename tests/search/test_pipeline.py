"""A search from question to answer, on a real store."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.errors import NotFoundError
from engram.model.ids import ConversationId, chunk_id
from engram.model.search import Detail, SearchRequest
from engram.model.value import replace
from engram.search.candidates import shorten
from engram.search.score import EXCERPT_TOKENS_MAX
from engram.storage.organization import OrganizationStore
from engram.text.excerpts import tokens_of
from engram.text.tokens import count_tokens
from engram.text.windows import window_text
from tests.promises import promise
from tests.search.asking import NO_EMBEDDER, add, add_meant, contents_of, search

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


@promise("bounded")
async def test_each_message_comes_once_and_tokens_are_what_was_delivered(
    store: OrganizationStore,
) -> None:
    for _ in range(4):
        await add(store, *HARBOUR)

    request = SearchRequest(query="harbour coffee lanterns", min_score=0)
    answer = await search(request, store)

    found = [
        (result.owner.id, found.message.sequence)
        for result in answer.results
        for found in result.messages
    ]
    assert len(set(found)) == len(found)
    assert answer.tokens == sum(map(count_tokens, contents_of(answer)))


@promise("bounded")
async def test_past_the_budget_results_are_handles(store: OrganizationStore) -> None:
    for number in range(6):
        await add(store, f"harbour {number} " + "x " * 80)

    answer = await search(SearchRequest(query="harbour", token_budget=200), store)

    assert [result.is_handle for result in answer.results] == [False] * 2 + [True] * 4
    assert answer.tokens <= 200
    assert answer.cut_by == "token_budget"
    assert answer.truncated
    handle = answer.results[-1]
    assert handle.messages == ()
    assert (handle.start_sequence, handle.end_sequence, handle.found_sequence) == (1, 1, 1)


async def test_a_limit_counts_messages_and_says_that_it_left_some_out(
    store: OrganizationStore,
) -> None:
    await add(store, *(f"harbour number {number}" for number in range(8)))
    await add(store, "the harbour")

    answers = {
        limit: await search(SearchRequest(query="harbour", limit=limit, min_score=0), store)
        for limit in (3, 9)
    }

    assert len(contents_of(answers[3])) == 3
    assert (answers[3].cut_by, answers[3].truncated) == ("limit", True)
    assert len(contents_of(answers[9])) == 9
    assert (answers[9].cut_by, answers[9].truncated) == (None, False)


async def test_a_handle_stands_where_its_text_would(store: OrganizationStore) -> None:
    for number in range(3):
        await add(store, f"harbour lanterns {number}" + " of the old town" * 10)
    await add(store, "one word of lanterns")

    request = SearchRequest(query="harbour lanterns", token_budget=100, min_score=0)
    answer = await search(request, store)

    assert [result.is_handle for result in answer.results] == [False, False, True, False]
    scores = [result.score for result in answer.results]
    assert scores == sorted(scores, reverse=True)


async def test_consecutive_messages_of_one_conversation_share_a_result(
    store: OrganizationStore,
) -> None:
    first = await add(store, "harbour lanterns", "harbour lanterns here", "A lone word: harbour.")
    second = await add(store, "the harbour lanterns of a town")

    answer = await search(SearchRequest(query="harbour lanterns", min_score=0), store)

    found = [found.score for result in answer.results for found in result.messages]
    assert found == sorted(found, reverse=True)
    owners = [result.owner.id for result in answer.results]
    assert {*owners} == {first, second}
    assert all(one != other for one, other in pairwise(owners))
    assert all(
        result.score == max(found.score for found in result.messages) for result in answer.results
    )


async def test_the_same_text_is_delivered_once_and_repeats_are_counted(
    store: OrganizationStore,
) -> None:
    repeated = "The harbour opens at six on every day of the week."
    await add(store, repeated, "harbour: yes", "harbour:  yes\n")
    await add(store, repeated, "harbour: yes")

    answer = await search(SearchRequest(query="harbour", min_score=0), store)

    assert len(contents_of(answer)) == 2
    assert contents_of(answer)[1] == repeated
    assert " ".join(contents_of(answer)[0].split()) == "harbour: yes"
    assert answer.repeated == 3
    assert answer.tokens == sum(map(count_tokens, contents_of(answer)))


@pytest.mark.parametrize("has_vectors", [False, True])
async def test_repeats_take_no_place_from_other_texts(
    store: OrganizationStore, *, has_vectors: bool
) -> None:
    repeated = ["The harbour opens at six."] * 40
    others = ["The harbour has lanterns, and a master.", "A harbour in the rain, seen from afar."]
    for contents in (repeated, others):
        await (add_meant if has_vectors else add)(store, *contents)
    tiers = Tiers.of(deep=HashedEmbedder()) if has_vectors else NO_EMBEDDER

    request = SearchRequest(query="harbour opens", limit=3, min_score=0)
    answer = await search(request, store, tiers=tiers)

    assert sorted(contents_of(answer)) == sorted({*repeated, *others})
    assert answer.repeated == 39


@promise("findable")
async def test_texts_that_look_alike_leave_a_place_for_one_with_all_words_of_the_query(
    store: OrganizationStore,
) -> None:
    letters = "abcdefghij"
    alike = [f"lanterns {one}{other}" for one in letters for other in letters]
    long = "The keeper has lanterns. " + "It was a long day at the old harbour. " * 100
    await add(store, *alike)
    await add(store, "It was said.", long)

    # The repeated word ranks all of them before the long message.
    query = "keeper" + " lanterns" * 30
    answer = await search(SearchRequest(query=query, limit=5, token_budget=100_000), store)

    assert long in contents_of(answer)
    assert len(contents_of(answer)) == 5
    assert answer.cut_by == "limit"


async def test_texts_that_only_look_alike_all_come(store: OrganizationStore) -> None:
    alike = [f"The harbour opens at {hour}." for hour in ("six", "ten", "two")]
    await add(store, *alike)

    answer = await search(SearchRequest(query="harbour opens", min_score=0), store)
    two = await search(SearchRequest(query="harbour opens", limit=2, min_score=0), store)

    assert sorted(contents_of(answer)) == sorted(alike)
    assert answer.repeated == 0
    assert len(contents_of(two)) == 2
    assert two.cut_by == "limit"


async def test_the_same_window_is_delivered_once(store: OrganizationStore) -> None:
    await add(store, *HARBOUR[:3])
    await add(store, *HARBOUR[:3])

    request = SearchRequest(query="harbour opens", detail="window", min_score=0)
    answer = await search(request, store)

    assert len(answer.results) == 1
    assert answer.repeated == 1


async def test_what_is_much_weaker_than_the_best_is_counted_and_shown_on_request(
    store: OrganizationStore,
) -> None:
    await add(store, "The harbour master keeps lanterns and coffee.")
    weak = [f"Somebody said harbour, and {number} more." for number in range(4)]
    await add(store, *weak)

    request = SearchRequest(query="harbour master lanterns coffee")
    answer = await search(request, store)
    everything = await search(replace(request, min_score=0), store)

    assert contents_of(answer) == ["The harbour master keeps lanterns and coffee."]
    assert (answer.weaker, answer.cut_by, answer.note) == (4, None, None)
    assert {*weak} <= {*contents_of(everything)}
    assert everything.weaker == 0


async def test_of_a_long_message_the_part_that_matches_comes_with_its_range(
    store: OrganizationStore,
) -> None:
    lines = [f"Line {number} of the log says that all is well.\n" for number in range(400)]
    lines[250] = "The lighthouse keeper asked for lanterns.\n"
    content = "".join(lines)
    await add(store, content)

    answer = await search(SearchRequest(query="lighthouse lanterns"), store)

    (found,) = answer.results[0].messages
    assert found.range is not None
    assert found.range.of == len(content)
    assert found.message.content == content[found.range.start : found.range.end]
    assert "The lighthouse keeper asked for lanterns." in found.message.content
    assert answer.tokens == count_tokens(found.message.content) <= EXCERPT_TOKENS_MAX


@pytest.mark.parametrize(
    "content",
    [
        "The lighthouse keeper said that everything is well. " * 60,
        "lighthouse " + "1,2;3.4:5\n" * 150,
        "lighthouse。" + "今天天气很好我们去海边看船。" * 60,
    ],
)
async def test_a_message_up_to_half_of_the_budget_comes_whole_and_a_longer_one_in_part(
    store: OrganizationStore, content: str
) -> None:
    await add(store, content)
    tokens = count_tokens(content)

    whole, cut = [
        await search(SearchRequest(query="lighthouse", token_budget=budget), store)
        for budget in (2 * max(tokens, tokens_of(len(content))), 2 * tokens - 2)
    ]

    assert contents_of(whole) == [content]
    assert whole.results[0].messages[0].range is None
    assert cut.results[0].messages[0].range is not None
    assert "lighthouse" in contents_of(cut)[0]


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
    assert answer.cut_by == "token_budget"
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


@promise("bounded")
@pytest.mark.parametrize("detail", ["messages", "window", "handle"])
async def test_of_what_is_not_relevant_only_the_nearest_places_come(
    store: OrganizationStore, detail: Detail
) -> None:
    for number in range(20):
        await add(store, f"We talked about harbour number {number} and many other things there.")

    request = SearchRequest(query="zeppelin harbour quartz violin umbrella", detail=detail)
    answer = await search(request, store)

    assert len(answer.results) == 3
    assert all(result.is_handle and not result.messages for result in answer.results)
    assert [result.found_sequence for result in answer.results] == [1, 1, 1]
    assert answer.note == "nothing relevant"
    assert (answer.tokens, answer.cut_by, answer.weaker) == (0, None, 20)


async def test_what_is_not_relevant_is_noted_beside_results_that_were_asked_for(
    store: OrganizationStore,
) -> None:
    for number in range(20):
        await add(store, f"We talked about harbour number {number} and many other things there.")

    query = "zeppelin harbour quartz violin umbrella"
    answer = await search(SearchRequest(query=query, min_score=0, limit=20), store)

    assert len(contents_of(answer)) == 20
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

    answer = await search(SearchRequest(query=query, min_score=0), store)

    assert "Yes, the harbour opens at six." in contents_of(answer)
    assert answer.degraded == ("words_only", "query_shortened")


@promise("reproducible")
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
