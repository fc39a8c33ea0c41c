"""Memories among the results of a search: one ranking, each text once, within the budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.model.access import Quota
from engram.model.conversation import Conversation
from engram.model.ids import MemoryId
from engram.model.memory import Feedback, Memory, MemoryDraft
from engram.model.search import Detail, ProfileName, SearchRequest, SearchResult
from engram.model.value import replace
from engram.model.vectors import WORDS_ALONE
from engram.search.profiles import PROFILES, SCORE_WIDTH
from engram.search.score import EXCERPT_TOKENS_MAX, Scoring, score
from engram.storage.organization import OrganizationStore
from engram.text.chunks import chunks_of
from engram.text.tokens import count_tokens
from tests.promises import promise
from tests.search.asking import add, add_meant, meant, search
from tests.search.candidates import CALIBRATIONS, NOW, Row, rows, table

DETAILS: tuple[Detail, ...] = ("messages", "window", "handle")


async def keep(
    store: OrganizationStore, content: str, *, is_meant: bool = False, **fields: Any
) -> MemoryId:
    """Store a memory, by words alone or with its vectors."""
    indexing = await meant(content) if is_meant else WORDS_ALONE
    draft = MemoryDraft(content=content, **fields)
    (stored,) = await store.memories.store([draft], actor="test", quota=Quota(), indexing=indexing)
    return stored.id


def scored(found: list[Row], profile: ProfileName = "default") -> Scoring:
    return score(table(found), profile=PROFILES[profile], calibrations=CALIBRATIONS, now=NOW)


def ids_of(results: tuple[SearchResult, ...]) -> list[str]:
    return [result.owner.id for result in results]


async def test_conversations_and_memories_share_one_ranking(store: OrganizationStore) -> None:
    best = await keep(store, "The harbour crane is green", is_meant=True)
    second = await add_meant(store, "The harbour crane is somewhere in the north of the town")
    third = await keep(store, "There is a crane, and there is also much else", is_meant=True)

    request = SearchRequest(query="green harbour crane", min_score=0)
    answer = await search(request, store, tiers=Tiers.of(deep=HashedEmbedder()))

    assert ids_of(answer.results) == [best, second, third]
    assert [result.kind for result in answer.results] == ["note", "conversation", "note"]
    assert answer.total_candidates == 3


async def test_a_memory_comes_with_its_fields_and_its_text_once(store: OrganizationStore) -> None:
    memory_id = await keep(
        store, "The crane\nis \x00 green", category="technical", source="hook", tags=("port",)
    )

    (result,) = (await search(SearchRequest(query="crane"), store)).results

    memory = result.owner
    assert isinstance(memory, Memory)
    assert (memory.id, memory.category, memory.source) == (memory_id, "technical", "hook")
    assert memory.tags == ("port",)
    assert result.chunk_text == memory.content == "The crane\nis \x00 green"
    assert (result.messages, result.is_handle) == ((), False)
    assert (result.start_sequence, result.end_sequence) == (1, 1)


async def test_a_long_memorys_result_names_the_chunk_that_matched(store: OrganizationStore) -> None:
    paragraphs = [f"Paragraph {number} speaks of the sea.\n\n" for number in range(400)]
    paragraphs[300] = "The lighthouse keeper has a green crane.\n\n"
    await keep(store, "".join(paragraphs))

    (result,) = (await search(SearchRequest(query="lighthouse"), store)).results

    assert isinstance(result.owner, Memory)
    (named,) = [each for each in chunks_of(result.owner) if each.id == result.chunk_id]
    assert "lighthouse" in (named.text or "")
    assert not result.is_handle
    shown, content = result.range, "".join(paragraphs)
    assert shown is not None
    assert shown.of == len(content)
    part = content[shown.start : shown.end]
    assert result.chunk_text == part
    assert "lighthouse keeper" in part
    assert count_tokens(part) <= EXCERPT_TOKENS_MAX


@pytest.mark.parametrize("detail", DETAILS)
async def test_every_detail_is_defined_for_memories(
    store: OrganizationStore, detail: Detail
) -> None:
    memory_id = await keep(store, "The crane is green")
    spoken = await add(store, "What is green?", "The crane")

    answer = await search(SearchRequest(query="green crane", detail=detail), store)

    assert {memory_id, spoken} == set(ids_of(answer.results))
    (result,) = (each for each in answer.results if each.kind == "note")
    is_handle = detail == "handle"
    assert result.is_handle == is_handle
    assert result.chunk_text == (None if is_handle else "The crane is green")


@pytest.mark.parametrize(("detail", "repeats"), [("messages", 45), ("window", 45), ("window", 400)])
async def test_a_memory_past_the_budget_comes_as_a_handle(
    store: OrganizationStore, detail: Detail, repeats: int
) -> None:
    short = await keep(store, "The crane is green" + " and so it stays" * 15)
    long = await keep(store, "crane " * repeats)

    request = SearchRequest(query="green crane", token_budget=100, detail=detail, min_score=0)
    answer = await search(request, store)

    handles = {result.owner.id: result.is_handle for result in answer.results}
    assert handles == {short: False, long: True}
    assert answer.cut_by == "token_budget"
    assert answer.truncated
    assert answer.tokens <= 100


async def test_windows_of_many_memories_are_few_and_say_that_there_are_more(
    store: OrganizationStore,
) -> None:
    for number in range(12):
        await keep(store, f"crane {number}")

    request = SearchRequest(query="crane", limit=5, detail="window")
    answer = await search(request, store)

    assert len(answer.results) == 5
    assert answer.truncated


@pytest.mark.parametrize("profile", ["default", "composite"])
async def test_importance_decides_between_equals(
    store: OrganizationStore, profile: ProfileName
) -> None:
    kept = {
        level: await keep(store, f"The crane is green{mark}", importance=level)
        for level, mark in ((4, "."), (0, "!"), (2, "?"))
    }

    request = SearchRequest(query="green crane", profile=profile, explain=True, min_score=0)
    answer = await search(request, store)

    assert ids_of(answer.results) == [kept[0], kept[2], kept[4]]
    scores = [result.score for result in answer.results]
    assert scores == sorted(set(scores), reverse=True)
    factors = [each.breakdown.importance_factor for each in answer.results if each.breakdown]
    assert factors == sorted(factors, reverse=True)
    assert factors[1] == 1


@promise("feedback")
async def test_what_was_said_after_recalls_decides_between_equals(store: OrganizationStore) -> None:
    blamed, unknown, praised = [await keep(store, f"The crane is green{mark}") for mark in ".!?"]
    for memory_id, helpful in ((praised, True), (blamed, False)):
        for _ in range(3):
            feedback = Feedback(memory_ids=(memory_id,), helpful=helpful)
            await store.memories.record_feedback(feedback, actor="test")

    answer = await search(SearchRequest(query="green crane", explain=True), store)

    assert ids_of(answer.results) == [praised, unknown, blamed]
    factors = [each.breakdown.usefulness_factor for each in answer.results if each.breakdown]
    assert 1.2 > factors[0] > factors[1] == 1 > factors[2] > 0.8


@pytest.mark.parametrize(("profile", "factor"), [("words", 3**-0.25), ("composite", 1 / 3)])
async def test_importance_is_part_of_the_score_in_every_profile(
    store: OrganizationStore, profile: ProfileName, factor: float
) -> None:
    await keep(store, "The crane is green", importance=4)
    await add(store, "The crane is green!")

    request = SearchRequest(query="green crane", profile=profile, explain=True, min_score=0)
    answer = await search(request, store)

    said, kept = answer.results
    assert (said.kind, kept.kind) == ("conversation", "note")
    assert said.score > kept.score
    by_words, by_note = said.messages[0].breakdown, kept.breakdown
    assert by_words is not None
    assert by_note is not None
    assert by_note.order == pytest.approx(by_words.order * factor)


@given(found=rows)
def test_messages_are_ranked_as_if_there_were_no_memories(found: list[Row]) -> None:
    scoring = scored(found)

    weight = scoring.profile.conversation_weight
    plain = (scoring.fused + weight * scoring.conversation_best) / (1 + weight) * scoring.charge
    np.testing.assert_array_equal(scoring.order, plain)
    plain_scores = 1 / (1 + np.exp((scoring.profile.middle - plain) / SCORE_WIDTH))
    np.testing.assert_array_equal(scoring.scores, plain_scores)


@pytest.mark.parametrize(
    ("importance", "factor"), [(0, 5 / 3), (1, 4 / 3), (2, 1.0), (3, 2 / 3), (4, 1 / 3)]
)
def test_the_composite_multiplies_by_engram_gos_factor(importance: int, factor: float) -> None:
    row = Row(conversation=1, sequence=1, message=0.3)
    (plain,) = scored([row], "composite").order.tolist()

    (weighed,) = scored([replace(row, importance=importance)], "composite").order.tolist()

    assert weighed == pytest.approx(plain * factor)


@given(
    first=st.integers(0, 4),
    second=st.integers(0, 4),
    useful=st.floats(-1, 1),
    profile=st.sampled_from(["default", "composite", "words"]),
)
def test_factors_are_bounded_and_follow_importance(
    first: int, second: int, useful: float, profile: ProfileName
) -> None:
    row = Row(conversation=1, sequence=1, message=0.3)
    found = [
        replace(row, importance=first, usefulness=useful),
        replace(row, conversation=2, importance=second, usefulness=useful),
    ]

    scoring = scored(found, profile)

    one, other = scoring.order.tolist()
    assert (one > other) == (first < second)
    assert ((scoring.usefulness >= 0.8) & (scoring.usefulness <= 1.2)).all()
    better, worse = scoring.scores.tolist()
    assert (better > worse) == (one > other)
    assert ((scoring.scores > 0) & (scoring.scores < 1)).all()


async def test_a_conversations_result_is_of_a_conversation(store: OrganizationStore) -> None:
    await add(store, "The crane is green")

    (result,) = (await search(SearchRequest(query="crane"), store)).results

    assert isinstance(result.owner, Conversation)
    assert result.breakdown is None
