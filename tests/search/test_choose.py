"""Choosing what is relevant, and interleaving two rankings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model.search import CutBy, Detail, ProfileName, SearchRequest
from engram.model.value import replace
from engram.search.choose import (
    RELEVANT_COVERAGE,
    RELEVANT_NEARNESS,
    RELEVANT_SCORE,
    Best,
    Chosen,
    choose,
    choose_best,
    choose_either_way,
)
from tests.search.candidates import CALIBRATIONS, NOW, Row, rows, table

coverages = st.lists(st.floats(0, 1), min_size=60, max_size=60)


def either_way(found: list[Row], *, limit: int = 10) -> Best:
    return choose_either_way(table(found), CALIBRATIONS, limit=limit, score_min=0.0, now=NOW)


def keys_one_way(found: list[Row], profile: ProfileName, *, limit: int) -> list[int]:
    best = choose_best(
        table(found), CALIBRATIONS, profile=profile, limit=limit, score_min=0.0, now=NOW
    )
    return [item.key for item in best.ranked]


def chosen(
    found: list[Row],
    *,
    min_score: float | None = None,
    detail: Detail = "messages",
    limit: int = 30,
) -> Chosen:
    request = SearchRequest(query="?", min_score=min_score, detail=detail, limit=limit)
    return choose(table(found), CALIBRATIONS, request=request, now=NOW)


@given(rows, coverages)
def test_what_is_relevant_has_a_good_score_or_most_of_the_words_or_a_near_vector(
    found: list[Row], coverages: list[float]
) -> None:
    covered = [
        replace(row, coverage=coverage) for row, coverage in zip(found, coverages, strict=False)
    ]

    answer = chosen(covered)

    ranked = answer.scoring.rank()
    coverage_of = {row.key: row.coverage for row in covered}
    is_relevant = any(
        item.score >= RELEVANT_SCORE
        or coverage_of[item.key] >= RELEVANT_COVERAGE
        or answer.scoring.nearness[item.row] >= RELEVANT_NEARNESS
        for item in ranked
    )
    assert answer.is_relevant == is_relevant
    assert answer.is_silent == (not is_relevant)
    assert bool(answer.packed.items or answer.packed.handles) == bool(len(ranked))


@pytest.mark.parametrize(("coverage", "is_relevant"), [(0.61, True), (0.59, False)])
def test_a_weak_message_with_most_of_the_words_is_relevant(
    coverage: float, *, is_relevant: bool
) -> None:
    weak = Row(1, 1, message=0.02, coverage=coverage)

    answer = chosen([weak])

    assert answer.scoring.scores[0] < RELEVANT_SCORE
    assert answer.is_relevant == is_relevant
    assert [item.key for item in answer.packed.items] == [weak.key] * is_relevant
    assert [item.key for item in answer.packed.handles] == [weak.key] * (not is_relevant)


@pytest.mark.parametrize("is_deep", [True, False])
def test_a_message_that_is_near_by_its_deep_vector_alone_is_relevant(*, is_deep: bool) -> None:
    scale = CALIBRATIONS["deep" if is_deep else "instant"].message
    cosine = scale.offset + 0.79 * scale.span
    near = Row(1, 1, cosine=cosine, around=0.0, is_deep=is_deep, characters=1_500)

    answer = chosen([near])

    assert answer.scoring.scores[0] < RELEVANT_SCORE
    assert answer.is_relevant == is_deep


@pytest.mark.parametrize(("cosine", "count"), [(0.40, 1), (0.55, 2)])
def test_a_message_that_only_its_neighbours_make_good_is_left_out(
    cosine: float, count: int
) -> None:
    answer = Row(1, 1, message=0.5, window=0.5, cosine=0.75, around=0.7, is_deep=True)
    beside = Row(1, 2, window=0.5, cosine=cosine, around=0.7, is_deep=True)

    found = chosen([answer, beside])

    assert [item.sequence for item in found.packed.items] == [1, 2][:count]
    assert found.packed.weaker == 2 - count
    assert len(chosen([answer, beside], min_score=0.0).packed.items) == 2


def test_if_nothing_is_relevant_only_the_nearest_conversations_are_named() -> None:
    weak = [Row(number, 1, message=0.01 * number) for number in range(1, 7)]

    answer = chosen([*weak, Row(6, 2, message=0.05)])

    assert not answer.packed.items
    assert [item.key for item in answer.packed.handles] == [6001, 5001, 4001]
    assert (answer.packed.weaker, answer.packed.cut_by) == (7, None)


@given(rows, st.floats(0, 1))
def test_a_least_score_delivers_everything_that_reaches_it(
    found: list[Row], min_score: float
) -> None:
    short = [replace(row, characters=40) for row in found]

    answer = chosen(short, min_score=min_score, limit=200)

    expected = [item.key for item in answer.scoring.rank() if item.score >= min_score]
    # What looks like an earlier one is compared when it is read, and comes if its text differs.
    packed = {item.key for item in (*answer.packed.items, *answer.packed.alike)}
    assert packed == set(expected)
    order = [item.key for item in answer.packed.items]
    assert order == [key for key in expected if key in order]
    assert not answer.is_silent
    assert answer.packed.weaker == 0


@given(rows)
def test_search_and_recall_order_alike(found: list[Row]) -> None:
    """Messages up to half of a search's budget are charged alike; recall delivers longer ones whole."""
    short = [replace(row, characters=min(row.characters, 3_000)) for row in found]

    searched = chosen(short, min_score=0.0).scoring.rank()
    best = choose_best(
        table(short), CALIBRATIONS, profile="default", limit=100, score_min=0.0, now=NOW
    )

    assert [(item.key, item.order) for item in best.ranked] == [
        (item.key, item.order) for item in searched
    ]


@given(found=rows, is_topic=st.booleans())
def test_what_is_fetched_by_default_scores_one_half_or_has_most_of_the_words(
    found: list[Row], *, is_topic: bool
) -> None:
    best = choose_best(
        table(found),
        CALIBRATIONS,
        profile="default",
        limit=100,
        score_min=None,
        now=NOW,
        is_topic=is_topic,
    )

    coverage_of = {row.key: row.coverage for row in found}
    assert best.is_relevant == bool(best.ranked)
    for item in best.ranked:
        assert item.score >= RELEVANT_SCORE or coverage_of[item.key] >= RELEVANT_COVERAGE


@pytest.mark.parametrize(("limit", "cut_by"), [(2, "limit"), (3, None)])
def test_handles_are_counted_by_conversation(limit: int, cut_by: CutBy | None) -> None:
    found = [Row(number, place, message=0.5) for number in (1, 2, 3) for place in (1, 2)]

    packed = chosen(found, detail="handle", limit=limit).packed

    assert (packed.items, packed.cut_by) == ((), cut_by)
    assert [item.conversation for item in packed.handles] == [1, 2, 3][:limit]


@pytest.mark.parametrize("detail", ["handle", "window"])
def test_handles_and_windows_leave_out_what_is_much_weaker(detail: Detail) -> None:
    found = [Row(1, 1, message=0.6, window=0.6), Row(2, 1, message=0.02)]

    by_default, everything = chosen(found, detail=detail), chosen(found, detail=detail, min_score=0)

    assert [item.conversation for item in by_default.packed.handles] == [1]
    assert by_default.packed.weaker == 1
    assert [item.conversation for item in everything.packed.handles] == [1, 2]
    assert everything.packed.weaker == 0


@pytest.mark.parametrize(("score_min", "count"), [(None, 1), (0.0, 2)])
def test_recall_leaves_out_what_scores_too_low_unless_asked(
    score_min: float | None, count: int
) -> None:
    found = table([Row(1, 1, message=0.5), Row(2, 1, message=0.002)])

    best = choose_best(
        found, CALIBRATIONS, profile="default", limit=9, score_min=score_min, now=NOW
    )

    assert len(best.ranked) == count
    assert all(item.score >= RELEVANT_SCORE for item in best.ranked) == (count == 1)


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
    """Return the order value at which entries begin to be fetched."""
    best = choose_best(
        table(found),
        CALIBRATIONS,
        profile="default",
        limit=1,
        score_min=None,
        now=NOW,
        is_topic=is_topic,
    )
    return best.scoring.profile.middle


def test_the_cut_rises_with_the_candidates_and_less_for_a_topic() -> None:
    few, some, many = cut(deep_rows(1)), cut(deep_rows(100)), cut(deep_rows(1_000))

    assert few == cut(deep_rows(9)) < some < many == cut(deep_rows(10_000))
    assert cut(deep_rows(9), is_topic=True) < cut(deep_rows(100), is_topic=True) < some


def test_the_cut_of_words_alone_does_not_depend_on_the_candidates() -> None:
    found = [Row(1, place, message=0.1) for place in range(1, 100)]

    assert cut(found) == cut(found[:1])
