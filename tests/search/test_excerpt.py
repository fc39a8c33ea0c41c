"""Excerpts: whole sentences of a long text, with what the query asks for, within a number of tokens."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.search.excerpt import SURROUNDING_CHARACTERS, NearPassage, find_excerpt
from engram.text.analyse import query_terms
from engram.text.passages import Passage, iterate_sentences
from engram.text.tokens import count_tokens

VERY_LONG = limits.EXCERPT_SCANNED_CHARACTERS_MAX + 1

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=400) | st.lists(
    st.sampled_from(
        [
            "The harbour opens. ",
            "Six o'clock! ",
            "\n",
            "明日は雨。",
            "naïve café? ",
            "x" * 60,
            " ",
            "🦊",
        ]
    ),
    max_size=60,
).map("".join)
queries = st.sampled_from(["harbour", "cafe six", "明日", "unheard", "🦊", ""])
budgets = st.integers(1, 300)


@st.composite
def passages(draw: st.DrawFn, length: int = 400) -> list[NearPassage]:
    """Return passages in order, with values that may be negative."""
    places = sorted(draw(st.lists(st.integers(0, length), max_size=8)))
    return [NearPassage(start, end, draw(st.floats(-1, 1))) for start, end in pairwise(places)]


def excerpt(
    content: str, query: str, *, near: list[NearPassage] | None = None, tokens_max: int = 40
) -> str:
    found = find_excerpt(content, query_terms(query), near=near or [], tokens_max=tokens_max)
    return content[found.start : found.end]


def filling(characters: int) -> str:
    """Return a text of sentences that answer nothing."""
    sentence = "Nothing of note was said on that day in the whole of the town. "
    return sentence * (characters // len(sentence) + 1)


@given(texts, queries, passages(), budgets)
def test_an_excerpt_is_a_run_of_whole_sentences_without_blanks_at_its_ends(
    content: str, query: str, near: list[NearPassage], tokens_max: int
) -> None:
    found = find_excerpt(content, query_terms(query), near=near, tokens_max=tokens_max)

    text = content[found.start : found.end]
    assert 0 <= found.start <= found.end <= len(content)
    assert text == text.strip()
    sentences = [*iterate_sentences(content)]
    runs = [
        Passage(first.start, last.end)
        for place, first in enumerate(sentences)
        for last in sentences[place:]
    ]
    assert text in {content[run.start : run.end].strip() for run in runs}


@given(texts, queries, passages(), budgets)
def test_an_excerpt_of_several_sentences_is_within_its_tokens(
    content: str, query: str, near: list[NearPassage], tokens_max: int
) -> None:
    found = find_excerpt(content, query_terms(query), near=near, tokens_max=tokens_max)

    inside = [
        content[each.start : each.end]
        for each in iterate_sentences(content)
        if each.start < found.end and found.start < each.end
    ]
    assert len(inside) <= 1 or sum(map(count_tokens, inside)) <= tokens_max


@given(texts, queries, passages(), budgets)
def test_the_same_question_gives_the_same_excerpt(
    content: str, query: str, near: list[NearPassage], tokens_max: int
) -> None:
    once, again = (
        find_excerpt(content, terms, near=near, tokens_max=tokens_max)
        for terms in (query_terms(query), reversed(query_terms(query)))
    )

    assert once == again


@given(st.integers(0, 60), st.integers(0, 60), budgets)
def test_a_word_is_in_the_excerpt_wherever_it_stands(
    before: int, after: int, tokens_max: int
) -> None:
    filler = "Nothing of note was said on that day in the town. "
    content = filler * before + "A zeppelin landed beside the church tower. " + filler * after

    assert "A zeppelin landed beside the church tower." in excerpt(
        content, "zeppelins", tokens_max=tokens_max
    )


@given(st.integers(0, VERY_LONG))
def test_a_word_is_in_the_excerpt_of_a_very_long_text_wherever_it_stands(place: int) -> None:
    filler = filling(VERY_LONG)
    content = f"{filler[:place]}. A zeppelin landed beside the church tower. {filler[place:]}"

    assert "A zeppelin landed beside the church tower." in excerpt(content, "zeppelin")


@pytest.mark.parametrize("characters", [2_000, VERY_LONG])
@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("happy", "The people of that country are all very happy. "),
        ("studies", "Somebody went abroad to study the law of the sea. "),
        ("cafe", "We met at the little Café beside the river again. "),
        ("naïve", "It was a NAIVE idea to go there without a map. "),
        ("strasse", "Die lange Straße führt bis an den alten Hafen. "),
        ("明日", "そうですね、それでは明日また会いましょうと言いました。"),
    ],
)
def test_words_are_found_in_any_form_that_the_index_finds(
    characters: int, query: str, sentence: str
) -> None:
    content = filling(characters) + sentence + filling(characters)

    assert sentence.strip() in excerpt(content, query)


@pytest.mark.parametrize("characters", [2_000, VERY_LONG])
def test_a_rare_word_decides_over_one_that_is_everywhere(characters: int) -> None:
    common = "The international news had nothing new today at all. "
    content = (
        common * (characters // len(common) + 1)
        + "A zebra was seen in the street beside the church. "
        + common * 100
    )

    assert "A zebra was seen" in excerpt(content, "international zebra")


@pytest.mark.parametrize("characters", [2_000, VERY_LONG])
def test_without_a_word_the_nearest_passage_decides(characters: int) -> None:
    content = filling(characters) + "He bought a boat with two masts last year. " + filling(2_000)
    place = content.index("He bought")
    near = [NearPassage(0, 60, 0.2), NearPassage(place, place + 42, 0.9)]

    assert "He bought a boat" in excerpt(content, "ship", near=near)


def test_words_and_meaning_add_up() -> None:
    content = (
        "The harbour master wants twelve euros for it. "
        "The harbour opens at six in the morning. "
        "We planted tomatoes in the garden behind it. "
    )
    near = [NearPassage(46, 87, 0.5), NearPassage(87, 132, 0.6)]

    assert excerpt(content, "harbour", near=near, tokens_max=9).startswith("The harbour opens")


def test_the_better_neighbour_comes_first() -> None:
    content = (
        "The lanterns hang in the old boat house there. "
        "The harbour lanterns are lit at six in the evening. "
        "We planted tomatoes in the garden behind it. "
    )

    found = excerpt(content, "harbour lanterns", tokens_max=22)

    assert found == content[:98].strip()


def test_a_text_without_any_sign_of_the_query_begins_at_its_beginning() -> None:
    for characters in (1_000, VERY_LONG):
        content = filling(characters)

        assert content.startswith(excerpt(content, "zeppelin"))


def test_of_a_very_long_text_only_places_of_interest_are_scanned() -> None:
    content = filling(10 * VERY_LONG) + "A zeppelin landed beside the tower. " + filling(VERY_LONG)
    place = content.index("zeppelin")

    found = find_excerpt(content, ["zeppelin"], near=[], tokens_max=10**9)

    assert found.start >= place - SURROUNDING_CHARACTERS
    assert found.end <= place + len("zeppelin") + SURROUNDING_CHARACTERS


def test_an_identifier_is_worth_more_than_its_parts_elsewhere() -> None:
    parts = [f"if staticRoute{n} then poll the window v6 of route {n}.\n" for n in range(40)]
    planted = "pollStaticWindowV6: 'edcea24adf24'.\n"

    found = excerpt("".join([*parts[:30], planted, *parts[30:]]), "pollStaticWindowV6")

    assert planted.strip() in found
