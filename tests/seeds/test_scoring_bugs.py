"""What was wrong with engram-go's scoring (3.7): none of it happens here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from engram.model.recall import Recalled
from engram.model.search import PROFILES, ProfileName
from tests.promises import promise
from tests.search.embedders import FailingEmbedder
from tests.seeds.house import House, opened_house
from tests.service.embedders import NamedEmbedder

HARBOUR = "The harbour opens at six."


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """A house whose memories get vectors as they are stored."""
    async with opened_house(tmp_path, instant=NamedEmbedder("quick")) as opened:
        yield opened


def ids(recalled: Recalled) -> list[str]:
    return [each.memory.id for each in recalled.results]


@pytest.mark.parametrize("profile", PROFILES)
async def test_the_weights_of_a_score_add_up(house: House, profile: ProfileName) -> None:
    """3.7: four documents named four sets of weights, and one of them added up to 1.03."""
    await house.keep(HARBOUR)

    (found,) = (await house.recall(HARBOUR, profile=profile)).results

    assert sum(found.breakdown.weights.values()) == pytest.approx(1)


@promise("reproducible")
async def test_being_recalled_makes_no_memory_recent(house: House) -> None:
    """3.7: each recall touched what it found, so that what was found was found again."""
    first = await house.keep(HARBOUR)
    house.clock.advance(timedelta(days=2))
    second = await house.keep(f"{HARBOUR} Every day.")
    before = await house.recall("harbour", profile="composite")

    for _ in range(5):
        await house.recall(HARBOUR, profile="composite", top_k=1)

    again = await house.recall("harbour", profile="composite")
    assert again.results == before.results
    hours = {each.memory.id: each.breakdown.raw["recency"] for each in again.results}
    assert hours == {first: 48, second: 0}


@promise("reproducible")
async def test_a_store_is_ranked_years_later_as_it_is_today(house: House) -> None:
    """3.7: recency fell to nothing within weeks, and with it a share of every score."""
    for text in (HARBOUR, "A harbour.", "Of the harbour, and when it opens, much was said."):
        await house.keep(text)
        house.clock.advance(timedelta(days=30))
    today = await house.recall("when does the harbour open")

    house.clock.advance(timedelta(days=3_650))

    later = await house.recall("when does the harbour open")
    assert later.results == today.results


async def test_a_rare_word_counts_more_than_a_common_one(house: House) -> None:
    """3.7: what was called BM25 knew nothing of how rare a word is."""
    for number in range(30):
        await house.keep(f"The harbour, the harbour and again the harbour, day {number}.")
    rare = await house.keep("A zeppelin landed here.")

    recalled = await house.recall("harbour zeppelin", profile="words")

    assert ids(recalled)[0] == rare


@promise("reproducible")
async def test_equal_memories_come_in_the_order_of_their_storing(house: House) -> None:
    """3.7: equal scores came in the order of a map, another one each time."""
    kept = [await house.keep(HARBOUR) for _ in range(12)]

    answers = [ids(await house.recall("harbour", top_k=top_k)) for top_k in (12, 12, 5)]

    assert answers == [kept, kept, kept[:5]]


@pytest.mark.parametrize(
    ("profile", "weights"),
    [
        ("composite", {"bm25_of_best": 0.7, "recency": 0.3}),
        ("default", {"message_words": 0.5, "window_words": 0.5}),
    ],
)
async def test_what_is_missing_gives_its_weight_to_the_rest(
    tmp_path: Path, profile: ProfileName, weights: dict[str, float]
) -> None:
    """3.7: without an embedder the cosine was 0 and kept its weight."""
    async with opened_house(tmp_path, deep=FailingEmbedder()) as house:
        await house.keep(HARBOUR)

        recalled = await house.recall(HARBOUR, profile=profile)

    assert recalled.degraded
    assert recalled.results[0].breakdown.weights == pytest.approx(weights)


async def test_importance_multiplies_as_documented(house: House) -> None:
    """3.7 and 3.4: the documents wrote another formula than the code had."""
    for importance in (4, 2, 0, 3, 1):
        await house.keep(HARBOUR, importance=importance)

    recalled = await house.recall("harbour", profile="composite")

    factors = [each.breakdown.importance_factor for each in recalled.results]
    assert [each.memory.importance for each in recalled.results] == [0, 1, 2, 3, 4]
    assert factors == pytest.approx([5 / 3, 4 / 3, 1, 2 / 3, 1 / 3])


async def test_a_question_about_preferences_favours_no_type(house: House) -> None:
    """3.7 and 4.2.7: words of a question made one type of memories count 1.35 times as much."""
    plain = await house.keep("I prefer tea to coffee.", memory_type="context")
    preference = await house.keep("I prefer tea to coffee.", memory_type="preference")

    recalled = await house.recall("what do I prefer, tea or coffee?")

    assert ids(recalled) == [plain, preference]
    assert len({each.score for each in recalled.results}) == 1


@pytest.mark.parametrize(
    "query",
    ["harbour's", "(harbour", 'the "harbour', "harbour:*", "-harbour", "harbour & | !quartz"],
)
async def test_no_sign_in_a_query_is_syntax(house: House, query: str) -> None:
    """3.7: a query is text, whatever signs it has."""
    kept = await house.keep(HARBOUR)

    assert ids(await house.recall(query, profile="words")) == [kept]
