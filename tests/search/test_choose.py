"""Interleaving two rankings: neither words nor vectors displace the other's best answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.model.search import ProfileName
from engram.search.choose import Best, choose_best, choose_either_way, fetched_min
from tests.search.candidates import CALIBRATIONS, NOW, Row, rows, table


def either_way(found: list[Row], *, limit: int = 10) -> Best:
    return choose_either_way(table(found), CALIBRATIONS, limit=limit, score_min=0.0, now=NOW)


def keys_one_way(found: list[Row], profile: ProfileName, *, limit: int) -> list[int]:
    best = choose_best(
        table(found), CALIBRATIONS, profile=profile, limit=limit, score_min=0.0, now=NOW
    )
    return [item.key for item in best.ranked]


def test_an_answer_in_other_words_comes_second_to_the_best_that_has_the_words() -> None:
    has_words = [
        Row(1, place, message=0.5, window=0.5, cosine=0.5, around=0.5, is_deep=True)
        for place in range(1, 30)
    ]
    answer = Row(1, 30, cosine=0.7, around=0.4, is_deep=True)

    best = either_way([*has_words, answer])

    assert [item.key for item in best.ranked[:2]] == [1001, answer.key]
    assert best.is_relevant


def test_without_vectors_it_is_the_ranking_of_words() -> None:
    found = [Row(1, place, message=0.1 * place) for place in range(1, 5)]

    best = either_way(found)

    assert [item.key for item in best.ranked] == keys_one_way(found, "default", limit=10)


@given(rows, st.integers(1, 20))
def test_each_is_kept_once_and_the_first_of_either_ranking_is_there(
    found: list[Row], limit: int
) -> None:
    kept = [item.key for item in either_way(found, limit=limit).ranked]

    one = keys_one_way(found, "default", limit=limit)
    other = keys_one_way(found, "vectors", limit=limit)
    assert len(set(kept)) == len(kept) == min(limit, len({*one, *other}))
    assert kept[:1] == one[:1] or kept[:1] == other[:1]
    if limit > 1:
        assert {*one[:1], *other[:1]} <= {*kept[:2]}


def deep_rows(count: int) -> list[Row]:
    return [Row(1, place, cosine=0.5, around=0.5, is_deep=True) for place in range(1, count + 1)]


def cut(found: list[Row], *, is_topic: bool = False) -> float:
    best = choose_best(
        table(found), CALIBRATIONS, profile="default", limit=1, score_min=None, now=NOW
    )
    return fetched_min(best.scoring, is_topic=is_topic)


def test_the_cut_rises_with_the_candidates_and_less_for_a_topic() -> None:
    few, some, many = cut(deep_rows(1)), cut(deep_rows(100)), cut(deep_rows(1_000))

    assert few == cut(deep_rows(9)) < some < many == cut(deep_rows(10_000))
    assert cut(deep_rows(9), is_topic=True) < cut(deep_rows(100), is_topic=True) < some


def test_the_cut_of_words_alone_does_not_depend_on_the_candidates() -> None:
    found = [Row(1, place, message=0.1) for place in range(1, 100)]

    assert cut(found) == cut(found[:1])
