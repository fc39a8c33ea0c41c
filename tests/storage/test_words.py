"""The word indexes: exact values, filters before ranking, and any query is safe."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import NotFoundError
from engram.limits import WORD_PASSAGE_WORDS
from engram.model.conversation import MessageDraft
from engram.model.ids import ConversationId
from engram.model.row_keys import message_key
from engram.model.search import SearchFilters
from engram.text import bm25
from engram.text.analyse import query_terms
from tests.promises import promise
from tests.storage.word_store import (
    MORNING,
    ORGANIZATION,
    WordStore,
    expected_candidates,
    expected_coverages,
    fill,
    open_file,
    said,
    shares_of,
)


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[WordStore]:
    """Yield an empty organisation file."""
    connection = open_file(tmp_path / "words.db")
    yield WordStore(connection)
    connection.close()


@pytest.mark.parametrize(
    "query",
    ["anna", "jade", "anna boat", "jade inlet anna", "anna anna boat", "jade unheard", "the the"],
)
def test_both_legs_have_their_exact_values(filled: WordStore, query: str) -> None:
    fill(filled, conversations=6, messages=20)

    found = shares_of(filled.search(query))

    assert found == expected_candidates(filled, query)


@pytest.mark.parametrize("query", ["anna", "anna boat", "jade inlet anna anna", "jade unheard"])
def test_coverage_is_the_part_of_the_query_that_a_message_has(
    filled: WordStore, query: str
) -> None:
    fill(filled, conversations=6, messages=20)

    matches = filled.search(query)

    expected = expected_coverages(filled.texts, query_terms(query))
    found = dict(zip(matches.keys.tolist(), matches.coverages.tolist(), strict=True))
    assert found == pytest.approx({key: expected[key] for key in found})
    assert 0 in found.values()  # found through its window
    assert (max(found.values()) == pytest.approx(1)) == ("unheard" not in query)


def test_a_word_that_nobody_said_leaves_most_of_a_query_uncovered(filled: WordStore) -> None:
    fill(filled, conversations=6, messages=20)

    matches = filled.search("anna unheard")

    assert 0 < matches.coverages.max() < 0.5


def test_a_message_of_many_words_is_scored_by_a_passage(filled: WordStore) -> None:
    lengths = [WORD_PASSAGE_WORDS, 10 * WORD_PASSAGE_WORDS, 10 * WORD_PASSAGE_WORDS]
    repeats = [1, 1, 10]
    for length, count in zip(lengths, repeats, strict=True):
        words = ["cedar"] * count + ["delta"] * (length - count)
        filled.add([said(" ".join(words))])

    passage, long, spread = filled.search("cedar").messages.tolist()

    assert long == passage  # its only cedar is in one of its passages
    assert spread == passage  # ten are one in each passage
    average = sum(lengths) / len(lengths)
    worth = bm25.worth(occurrences=1, length=WORD_PASSAGE_WORDS, length_average=average)
    assert passage == pytest.approx(worth / bm25.WORTH_MAX)


def test_a_long_message_that_repeats_a_word_in_every_passage_is_scored_higher(
    filled: WordStore,
) -> None:
    for count in (1, 15, 150):
        filled.add([said(" ".join(["cedar"] * count + ["delta"] * (3_000 - count)))])

    once, often, always = filled.search("cedar").messages.tolist()

    assert once < often < always < 1


def test_a_name_that_every_message_holds_still_counts(filled: WordStore) -> None:
    filled.add([said("anna"), said("anna")])

    (first, second) = shares_of(filled.search("anna")).values()

    assert first == second
    assert min(first) > 0


@promise("reproducible")
def test_ties_are_broken_by_key(filled: WordStore) -> None:
    number = filled.add([said("cedar tree") for _ in range(50)])

    found = sorted(shares_of(filled.search("cedar", limit=5)))

    assert found == [message_key(number, sequence) for sequence in range(1, 6)]


def test_a_neighbour_is_found_through_its_window(filled: WordStore) -> None:
    number = filled.add([said("Where did you go?"), said("To the fjord.")])

    found = shares_of(filled.search("fjord"))

    assert found.keys() == {message_key(number, 1), message_key(number, 2)}
    question, answer = found[message_key(number, 1)], found[message_key(number, 2)]
    assert question[0] == 0 < answer[0]
    assert question[1] == answer[1] > 0


def test_what_is_unindexed_is_not_found(filled: WordStore) -> None:
    filled.add([said("cedar"), said("delta")])
    filled.index.remove(filled.connection, filled.rows, organization_id=ORGANIZATION)

    assert shares_of(filled.search("cedar delta")) == {}
    filled.connection.execute(
        "INSERT INTO message_words (message_words) VALUES ('integrity-check')"
    )


@promise("findable")
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), min_size=1, max_size=7)
)
def test_every_word_of_a_stored_message_is_found_by_itself(contents: list[str]) -> None:
    connection = open_file(":memory:")
    filled = WordStore(connection)
    number = filled.add([said(content) for content in contents])

    for sequence, content in enumerate(contents, start=1):
        for word in content.split():
            assert not query_terms(word) or message_key(number, sequence) in filled.found(word)
    connection.close()


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '""" OR "',
        "*",
        "cedar*",
        "NEAR(cedar delta, 2)",
        "words:cedar",
        "-cedar",
        "cedar AND NOT delta",
        "^cedar",
        "{words}: cedar",
        "'; DROP TABLE message; --",
        "\x00cedar\x00",
        "!?…",
        "🦊",
        "語",
        "cedar " * 16_000,
    ],
)
def test_no_query_is_syntax(filled: WordStore, query: str) -> None:
    number = filled.add([said("cedar"), said("delta"), said("🦊 and 日本語")])

    found = filled.found(query)

    assert ("cedar" in query) == (message_key(number, 1) in found)
    assert ("delta" in query) == (message_key(number, 2) in found)


def test_a_query_without_words_finds_nothing(filled: WordStore) -> None:
    filled.add([said("cedar")])

    assert shares_of(filled.search("?!")) == {}


@promise("findable")
def test_one_character_of_a_script_without_spaces_is_found_anywhere(filled: WordStore) -> None:
    number = filled.add([said("東京へ行く"), said("明日は雨"), said("行")])

    assert filled.found("行") == {message_key(number, 1), message_key(number, 3)}
    assert filled.found("日") == {message_key(number, 2)}
    assert filled.found("明日") == {message_key(number, 2)}


FILTERED = [
    SearchFilters(),
    SearchFilters(agent_id="otter"),
    SearchFilters(project="river"),
    SearchFilters(tags=("blue",)),
    SearchFilters(tags=("blue", "deep")),
    SearchFilters(role="assistant"),
    SearchFilters(since=MORNING + timedelta(hours=3)),
    SearchFilters(before=MORNING + timedelta(hours=3)),
    SearchFilters(
        agent_id="otter", tags=("blue",), role="user", before=MORNING + timedelta(hours=9)
    ),
]


def fill_with_variety(store: WordStore, filters: SearchFilters) -> set[int]:
    """Add conversations of every kind; return the keys of the messages that meet the filters."""
    kinds = [
        (agent, project, tags)
        for agent in ("otter", None)
        for project in ("river", "sea")
        for tags in (("deep", "blue", "old"), ("blue",), ())
    ]
    meeting: set[int] = set()
    for agent, project, tags in kinds:
        messages = [
            said(
                "cedar" if hour % 4 else "delta",
                role="user" if hour % 3 else "assistant",
                occurred_at=MORNING + timedelta(hours=hour) if hour else None,
            )
            for hour in range(12)
        ]
        number = store.add(messages, agent_id=agent, project=project, tags=tags)
        is_such = (
            filters.agent_id in {None, agent}
            and filters.project in {None, project}
            and set(filters.tags) <= set(tags)
        )
        meeting |= {
            message_key(number, sequence)
            for sequence, message in enumerate(messages, start=1)
            if is_such and meets(message, filters)
        }
    return meeting


def meets(message: MessageDraft, filters: SearchFilters) -> bool:
    moment = message.occurred_at or MORNING
    return (
        filters.role in {None, message.role}
        and (filters.since is None or moment >= filters.since)
        and (filters.before is None or moment < filters.before)
    )


@pytest.mark.parametrize("filters", FILTERED)
def test_filters_hold_before_ranking(filled: WordStore, filters: SearchFilters) -> None:
    meeting = fill_with_variety(filled, filters)
    everything = expected_candidates(filled, "cedar")

    all_found = shares_of(filled.search("cedar", filters))
    few_found = shares_of(filled.search("cedar", filters, limit=3))

    assert all_found == {key: everything[key] for key in meeting}
    assert len(few_found) >= 3
    assert few_found.items() <= all_found.items()


def test_a_conversation_is_searched_alone_with_everybodys_statistics(filled: WordStore) -> None:
    filled.add([said("cedar delta") for _ in range(9)])
    number = filled.add([said("cedar"), said("ember")])
    expected = expected_candidates(filled, "cedar ember")
    filters = SearchFilters(conversation_id=filled.conversation_id(number))

    found = shares_of(filled.search("cedar ember", filters))

    keys = {message_key(number, 1), message_key(number, 2)}
    assert found == {key: expected[key] for key in keys}


@pytest.mark.parametrize("query", ["cedar", "?!"])
def test_an_unknown_conversation_is_an_error(filled: WordStore, query: str) -> None:
    filters = SearchFilters(conversation_id=ConversationId("conv_unknown"))

    with pytest.raises(NotFoundError):
        filled.search(query, filters)


def test_an_empty_file_has_nothing(filled: WordStore) -> None:
    assert shares_of(filled.search("cedar")) == {}
