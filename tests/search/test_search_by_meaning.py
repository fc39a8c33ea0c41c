"""A search by words and meaning together, on a real store with an embedder without a model."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from engram.embedding.hashed import HashedEmbedder
from engram.embedding.port import EMBEDDING_FAILURES
from engram.embedding.tiers import Tiers
from engram.errors import EngramError
from engram.model.search import (
    FoundMessage,
    ProfileName,
    SearchAnswer,
    SearchRequest,
)
from engram.search.profiles import PROFILES, SCORE_WIDTH
from engram.storage.organization import OrganizationStore
from tests.promises import promise
from tests.search.asking import add, add_meant, contents_of, search
from tests.search.embedders import FailingEmbedder, OtherEmbedder

HASHED = Tiers.of(deep=HashedEmbedder())
BOTH = Tiers.of(deep=HashedEmbedder(), instant=OtherEmbedder())
WORDLESS = "?! ... !!"
"""A text that is found by its vector alone: it has no words."""


def found(answer: SearchAnswer) -> dict[str, FoundMessage]:
    return {one.message.content: one for result in answer.results for one in result.messages}


@promise("findable")
async def test_what_words_cannot_find_is_found_by_its_vector(store: OrganizationStore) -> None:
    await add_meant(store, "The harbour opens at six.", WORDLESS)

    answer = await search(SearchRequest(query=WORDLESS, explain=True), store, tiers=HASHED)

    assert contents_of(answer)[0] == WORDLESS
    breakdown = found(answer)[WORDLESS].breakdown
    assert breakdown is not None
    assert breakdown.vector_tier == "deep"
    assert breakdown.raw["message_vector"] == pytest.approx(1, abs=0.01)
    assert breakdown.raw["message_words"] == 0
    assert (answer.degraded, answer.pending) == ((), 0)


async def test_the_candidates_of_words_and_of_vectors_are_united(store: OrganizationStore) -> None:
    await add(store, "harbour master")
    await add_meant(store, "harbours mastered")

    request = SearchRequest(query="harbour master", explain=True, min_score=0)
    answer = await search(request, store, tiers=HASHED)

    by_words, by_both = (
        found(answer)[text].breakdown for text in ("harbour master", "harbours mastered")
    )
    assert by_words is not None
    assert by_both is not None
    assert by_words.legs.keys() == {"message_words", "window_words"}
    assert by_both.legs.keys() == PROFILES["default"].weights.keys() - {"token_vectors"}
    assert (by_words.vector_tier, by_both.vector_tier) == (None, "deep")


async def test_every_leg_is_in_the_explanation_and_its_weights_add_up(
    store: OrganizationStore,
) -> None:
    await add_meant(store, "The harbour opens at six.", "Bring coffee.", "See you there.")

    request = SearchRequest(query="harbour six", explain=True, min_score=0)
    answer = await search(request, store, tiers=HASHED)

    assert len(found(answer)) == 3
    for one in found(answer).values():
        assert one.breakdown is not None
        assert sum(one.breakdown.weights.values()) == pytest.approx(1)
        assert one.breakdown.fused == pytest.approx(
            sum(one.breakdown.weights[leg] * value for leg, value in one.breakdown.legs.items())
        )
        distance = PROFILES["default"].middle - one.breakdown.order
        assert one.score == pytest.approx(1 / (1 + math.exp(distance / SCORE_WIDTH)))


async def test_messages_are_compared_in_the_tier_they_have(store: OrganizationStore) -> None:
    await add_meant(store, "the harbour of today", embedder=OtherEmbedder(), tier="instant")
    await add_meant(store, "the harbour of yesterday")

    request = SearchRequest(query="the harbour of today", explain=True)
    answer = await search(request, store, tiers=BOTH)

    tiers = {
        text: one.breakdown.vector_tier for text, one in found(answer).items() if one.breakdown
    }
    assert tiers == {"the harbour of today": "instant", "the harbour of yesterday": "deep"}
    assert answer.pending == 1


async def test_the_instant_embedder_is_asked_only_where_vectors_of_it_are_stored(
    store: OrganizationStore,
) -> None:
    instant = FailingEmbedder()
    instant.is_failing = False
    tiers = Tiers.of(deep=OtherEmbedder(), instant=instant)
    await add_meant(store, "The harbour opens at six.", embedder=OtherEmbedder())

    without = await search(SearchRequest(query=WORDLESS), store, tiers=tiers)
    assert (instant.asked, without.degraded) == (0, ())

    await add_meant(store, WORDLESS, embedder=instant, tier="instant")
    answer = await search(SearchRequest(query=WORDLESS, explain=True), store, tiers=tiers)

    assert (instant.asked, answer.degraded) == (1, ())
    breakdown = found(answer)[WORDLESS].breakdown
    assert breakdown is not None
    assert breakdown.vector_tier == "instant"


@promise("findable")
@pytest.mark.parametrize("failure", EMBEDDING_FAILURES)
async def test_words_answer_while_the_embedder_fails(
    store: OrganizationStore, failure: type[EngramError]
) -> None:
    await add_meant(store, "The harbour opens at six.", WORDLESS)
    down = Tiers.of(deep=FailingEmbedder(failure("no")))

    answer = await search(SearchRequest(query="harbour", explain=True), store, tiers=down)

    assert contents_of(answer)[0] == "The harbour opens at six."
    assert answer.degraded == ("words_only", "embedder_unavailable")
    assert answer.note is None
    breakdown = found(answer)["The harbour opens at six."].breakdown
    assert breakdown is not None
    assert breakdown.legs.keys() == {"message_words", "window_words"}


async def test_one_tier_answers_while_the_other_fails(store: OrganizationStore) -> None:
    await add_meant(store, WORDLESS, embedder=OtherEmbedder(), tier="instant")
    tiers = Tiers.of(deep=FailingEmbedder(), instant=OtherEmbedder())

    answer = await search(SearchRequest(query=WORDLESS), store, tiers=tiers)

    assert contents_of(answer) == [WORDLESS]
    assert answer.degraded == ("embedder_unavailable",)


async def test_vectors_of_another_embedder_are_said_and_words_answer(
    store: OrganizationStore,
) -> None:
    await add_meant(store, "The harbour opens at six.", WORDLESS)
    changed = Tiers.of(deep=OtherEmbedder())

    answer = await search(SearchRequest(query="harbour", explain=True), store, tiers=changed)

    assert contents_of(answer)[0] == "The harbour opens at six."
    assert answer.degraded == ("words_only", "embedder_changed")
    assert (await search(SearchRequest(query=WORDLESS), store, tiers=changed)).results == ()


async def test_a_tier_that_is_left_is_used_while_the_other_is_of_another_embedder(
    store: OrganizationStore,
) -> None:
    await add_meant(store, "first", embedder=OtherEmbedder(), tier="deep")
    await add_meant(store, WORDLESS, embedder=OtherEmbedder(), tier="instant")

    answer = await search(SearchRequest(query=WORDLESS), store, tiers=BOTH)

    assert contents_of(answer) == [WORDLESS]
    assert answer.degraded == ("embedder_changed",)


async def test_words_alone_are_said_where_only_vectors_of_another_embedder_are_stored(
    store: OrganizationStore,
) -> None:
    await add_meant(store, "The harbour opens at six.", embedder=OtherEmbedder(), tier="deep")

    answer = await search(SearchRequest(query="harbour"), store, tiers=BOTH)

    assert contents_of(answer) == ["The harbour opens at six."]
    assert answer.degraded == ("words_only", "embedder_changed")


async def test_without_a_stored_vector_nothing_has_changed(store: OrganizationStore) -> None:
    await add(store, "The harbour opens at six.")

    answer = await search(SearchRequest(query="harbour"), store, tiers=HASHED)

    assert contents_of(answer) == ["The harbour opens at six."]
    assert answer.degraded == ()


@pytest.mark.parametrize(
    ("profile", "query", "expected"),
    [
        ("words", "harbour", ["The harbour opens at six."]),
        ("words", WORDLESS, []),
        ("vectors", WORDLESS, [WORDLESS]),
    ],
)
async def test_a_profile_searches_by_what_it_is_named_for(
    store: OrganizationStore, profile: ProfileName, query: str, expected: list[str]
) -> None:
    await add_meant(store, "The harbour opens at six.")
    await add_meant(store, WORDLESS)

    answer = await search(SearchRequest(query=query, profile=profile), store, tiers=HASHED)

    assert contents_of(answer) == expected


async def test_searching_by_words_asks_no_embedder_and_misses_none(
    store: OrganizationStore,
) -> None:
    await add_meant(store, "The harbour opens at six.")
    embedder = FailingEmbedder()

    request = SearchRequest(query="harbour", profile="words")
    answer = await search(request, store, tiers=Tiers.of(deep=embedder))

    assert embedder.asked == 0
    assert answer.degraded == ()


async def test_searching_for_what_no_kind_can_meet_asks_no_embedder(
    store: OrganizationStore,
) -> None:
    embedder = FailingEmbedder()

    request = SearchRequest(query="harbour", kinds=("note",), role="user")
    answer = await search(request, store, tiers=Tiers.of(deep=embedder))

    assert (embedder.asked, answer.results, answer.degraded) == (0, (), ())


async def test_searching_by_vectors_without_any_finds_nothing_and_says_why(
    store: OrganizationStore,
) -> None:
    await add(store, "The harbour opens at six.")

    answer = await search(SearchRequest(query="harbour", profile="vectors"), store)

    assert answer.results == ()
    assert answer.degraded == ("words_only",)


async def test_the_composite_profile_explains_its_three_parts(store: OrganizationStore) -> None:
    await add_meant(store, "The harbour opens at six.", "Bring coffee.")

    request = SearchRequest(query="harbour", profile="composite", explain=True)
    answer = await search(request, store, tiers=HASHED)

    breakdown = found(answer)["The harbour opens at six."].breakdown
    assert breakdown is not None
    assert breakdown.weights == pytest.approx(
        {"cosine": 0.5, "bm25_of_best": 0.35, "recency": 0.15}
    )


async def test_a_question_about_nothing_stored_says_so_with_vectors_too(
    store: OrganizationStore,
) -> None:
    await add_meant(store, "The harbour opens at six.", "Bring coffee.")

    answer = await search(SearchRequest(query="quantum zeppelin"), store, tiers=HASHED)

    assert answer.note == "nothing relevant"


@promise("reproducible")
async def test_the_same_search_by_meaning_gives_the_same_answer(store: OrganizationStore) -> None:
    for number in range(5):
        await add_meant(store, f"harbour number {number}", "Bring coffee.", WORDLESS)
    request = SearchRequest(query="harbour number", explain=True, limit=20)

    assert await search(request, store, tiers=HASHED) == await search(request, store, tiers=HASHED)


async def test_the_query_is_embedded_before_a_search_takes_its_turn(
    store: OrganizationStore,
) -> None:
    await add_meant(store, "The harbour opens at six.")
    embedder, embedded_before = FailingEmbedder(), list[int]()
    embedder.is_failing = False

    @asynccontextmanager
    async def turn() -> AsyncGenerator[None]:
        embedded_before.append(embedder.asked)
        yield

    await search(SearchRequest(query="harbour"), store, tiers=Tiers.of(deep=embedder), turn=turn)

    assert embedded_before == [1]
