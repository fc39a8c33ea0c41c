"""Scores and order are absolute: independent of the candidates of other conversations."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model.search import PROFILES as PROFILE_NAMES
from engram.model.search import ProfileName, ScoreBreakdown
from engram.model.value import replace
from engram.search.profiles import PROFILES, SCORE_WIDTH, usable_profile
from engram.search.score import (
    EXCERPT_TOKENS_MAX,
    EXCERPT_TOKENS_MIN,
    LEG_VALUE_MAX,
    DeliveredLengths,
    LegName,
    Scored,
    Scoring,
    Values,
    best_rows,
    fuse,
    length_charge,
    score,
)
from tests.promises import promise
from tests.search.candidates import CALIBRATIONS, HOUR, NOW, Row, rows, table

profiles = st.sampled_from(PROFILE_NAMES)
absolute = st.sampled_from([name for name in PROFILE_NAMES if name != "composite"])
"""All but the profile that scores words relative to the best candidate."""


def scoring(found: Iterable[Row], profile: ProfileName = "default") -> Scoring:
    return score(table(found), profile=PROFILES[profile], calibrations=CALIBRATIONS, now=NOW)


def facts(scored: Scoring, item: Scored) -> tuple[object, ...]:
    """Return what is known of an item that does not depend on other conversations."""
    explained = replace(scored.explain(item), conversation_best=0.0, order=0.0)
    return item.key, item.tokens, explained


def logistic(order: float, profile: ProfileName) -> float:
    return 1 / (1 + math.exp((PROFILES[profile].middle - order) / SCORE_WIDTH))


def only(found: Row, profile: ProfileName = "default") -> ScoreBreakdown:
    """Return the breakdown of a single candidate's score."""
    scored = scoring([found], profile)
    (item,) = scored.rank()
    return scored.explain(item)


@promise("reproducible")
@given(rows, profiles, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_the_input(
    found: list[Row], profile: ProfileName, chance: random.Random
) -> None:
    shuffled = chance.sample(found, len(found))

    assert scoring(found, profile).rank() == scoring(shuffled, profile).rank()


@given(rows, rows, absolute)
def test_a_score_does_not_depend_on_what_else_was_found(
    found: list[Row], others: list[Row], profile: ProfileName
) -> None:
    keys = {row.key for row in found}
    alone = scoring(found, profile)

    together = scoring([*found, *(row for row in others if row.key not in keys)], profile)

    expected = {item.key: facts(alone, item) for item in alone.rank()}
    assert {
        item.key: facts(together, item) for item in together.rank() if item.key in keys
    } == expected


@given(rows, rows, absolute)
def test_a_score_does_not_depend_on_other_conversations(
    found: list[Row], others: list[Row], profile: ProfileName
) -> None:
    elsewhere = [replace(row, conversation=row.conversation + 100) for row in others]
    alone = [item[1:] for item in scoring(found, profile).rank()]

    together = [item[1:] for item in scoring([*found, *elsewhere], profile).rank()]

    assert [each for each in together if each[1] < 100] == alone


@given(rows, profiles)
def test_scores_and_charges_are_within_their_bounds_and_add_up(
    found: list[Row], profile: ProfileName
) -> None:
    scored = scoring(found, profile)

    for item in scored.rank():
        breakdown = scored.explain(item)
        assert 0 < item.score < 1
        assert 0 < breakdown.length_charge <= 1
        assert all(0 <= value <= LEG_VALUE_MAX for value in breakdown.legs.values())
        assert breakdown.legs.keys() == breakdown.raw.keys() == breakdown.weights.keys()
        assert sum(breakdown.weights.values()) == pytest.approx(1)
        weight = PROFILES[profile].conversation_weight
        drawn = (breakdown.fused + weight * breakdown.conversation_best) / (1 + weight)
        assert breakdown.conversation_best >= breakdown.fused
        assert breakdown.order == pytest.approx(drawn * breakdown.length_charge)
        assert breakdown.fused == pytest.approx(
            sum(breakdown.weights[leg] * value for leg, value in breakdown.legs.items())
        )
        assert item.score == pytest.approx(logistic(breakdown.order, profile))
        assert breakdown.order == item.order


@given(rows, profiles)
def test_scores_rank_exactly_as_order_values_do(found: list[Row], profile: ProfileName) -> None:
    ranked = scoring(found, profile).rank()

    for better, worse in pairwise(ranked):
        assert better.score >= worse.score
        # Order values that differ by less than rounding may have equal scores.
        assert better.score > worse.score or better.order - worse.order < 1e-9


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_a_score_is_one_half_at_the_middle_of_its_profile(profile: ProfileName) -> None:
    middle = PROFILES[profile].middle
    values = [middle - SCORE_WIDTH, middle, middle + SCORE_WIDTH]
    scored = replace(
        scoring([Row(each, 1, message=0.3) for each in (1, 2, 3)], profile),
        fused=np.array(values),
        conversation_best=np.array(values),
        charge=np.ones(3),
    )

    assert scored.scores.tolist() == pytest.approx([1 / (1 + math.e), 0.5, math.e / (1 + math.e)])


@given(rows, profiles)
def test_what_is_not_known_is_left_out_and_never_shown(
    found: list[Row], profile: ProfileName
) -> None:
    scored = scoring(found, profile)
    by_key = {row.key: row for row in found}

    ranked = scored.rank()

    assert np.isfinite(scored.fused).all()
    for item in ranked:
        breakdown = scored.explain(item)
        values = [item.score, item.order, breakdown.fused, *breakdown.raw.values()]
        assert all(map(math.isfinite, values))
        has_vector = not math.isnan(by_key[item.key].cosine)
        assert (breakdown.vector_tier is not None) == has_vector
        by_meaning = {"message_vector", "neighbor_vectors", "cosine"}
        assert has_vector or not by_meaning & breakdown.legs.keys()


@given(rows, profiles, st.floats(0, 1))
def test_a_least_score_keeps_exactly_what_reaches_it(
    found: list[Row], profile: ProfileName, score_min: float
) -> None:
    scored = scoring(found, profile)

    kept = scored.rank(score_min=score_min)

    assert [*kept] == [item for item in scored.rank() if item.score >= score_min]


@given(rows, profiles)
def test_the_best_comes_first(found: list[Row], profile: ProfileName) -> None:
    ranked = scoring(found, profile).rank()

    assert [*ranked] == sorted(ranked, key=lambda item: (-item.order, item.key))


@given(st.data())
def test_fusing_is_a_mean_of_the_legs_there_are(data: st.DataObject) -> None:
    names: list[LegName] = ["message_vector", "message_words", "recency"]
    weights: dict[LegName, float] = {name: data.draw(st.floats(0.01, 1)) for name in names}
    values: dict[LegName, float] = {
        name: data.draw(st.floats(0, 1.5) | st.just(math.nan)) for name in names
    }
    legs: dict[LegName, Values] = {name: np.array([values[name]]) for name in names}

    (fused,) = fuse(legs, weights).tolist()

    known: list[LegName] = [name for name in names if not math.isnan(values[name])]
    total = sum(weights[name] for name in known)
    expected = sum(weights[name] * values[name] for name in known) / total if known else 0
    assert fused == pytest.approx(expected)


def test_a_missing_leg_gives_its_weight_to_the_others() -> None:
    words = Row(1, 1, message=0.15, window=0.4)
    both = replace(words, cosine=0.585, around=0.75, is_deep=True)

    total = 0.35 + 0.2
    assert only(words).weights == pytest.approx(
        {"message_words": 0.35 / total, "window_words": 0.2 / total}
    )
    assert only(words).fused == pytest.approx((0.35 * 0.5 + 0.2 * 1.0) / total)
    assert only(both).fused == pytest.approx(
        (0.7 * 0.5 + 0.2 * 1.0 + 0.35 * 0.5 + 0.2 * 1.0) / (0.7 + 0.2 + total)
    )


def test_the_default_profile_without_any_vector_is_that_of_words() -> None:
    assert usable_profile("default", has_vectors=True) is PROFILES["default"]
    assert usable_profile("default", has_vectors=False) is PROFILES["words"]
    assert usable_profile("composite", has_vectors=False) is PROFILES["composite"]


def test_a_good_answer_draws_the_messages_of_its_conversation_forward() -> None:
    good = Row(1, 1, message=0.3, window=0.4)
    beside = Row(1, 2, message=0.1)
    elsewhere = Row(2, 1, message=0.11)

    ranked = scoring([good, beside, elsewhere]).rank()

    assert [item.key for item in ranked] == [1001, 1002, 2001]
    assert ranked[0].score > ranked[1].score > ranked[2].score
    assert only(beside).fused < only(elsewhere).fused


@given(rows)
def test_the_best_of_a_conversation_is_that_of_its_own(found: list[Row]) -> None:
    scored = scoring(found)

    for conversation in {row.conversation for row in found}:
        own = scored.candidates.conversations == conversation
        assert set(scored.conversation_best[own]) == {scored.fused[own].max()}


def test_a_vector_alone_is_enough_to_be_found() -> None:
    near = Row(1, 1, cosine=0.72, around=0.75, is_deep=True)

    (item,) = scoring([near]).rank()

    order = (0.7 + 0.2) / (0.7 + 0.2 + 0.35 + 0.2)
    assert item.order == pytest.approx(order)
    assert item.score == pytest.approx(logistic(order, "default"))
    assert item.score > 0.5


def test_cosines_count_on_the_scale_of_the_model_they_are_of() -> None:
    deep = Row(1, 1, cosine=0.72, around=0.75, is_deep=True)
    instant = Row(1, 2, cosine=0.7, around=0.7)

    for row in (deep, instant):
        legs = only(row, "vectors").legs
        assert legs == pytest.approx({"message_vector": 1, "neighbor_vectors": 1})
    assert [only(row).vector_tier for row in (deep, instant)] == ["deep", "instant"]


def test_a_cosine_that_means_nothing_counts_as_nothing() -> None:
    far = Row(1, 1, cosine=0.2, around=-0.3, is_deep=True)

    assert not scoring([far]).rank()
    assert not scoring([far], "vectors").rank()


def test_each_profile_asks_its_own_legs() -> None:
    found = Row(1, 1, message=0.1, window=0.2, cosine=0.6, around=0.6, is_deep=True)

    legs = {profile: set(only(found, profile).legs) for profile in PROFILE_NAMES}

    assert legs == {
        "default": {"message_vector", "neighbor_vectors", "message_words", "window_words"},
        "composite": {"cosine", "bm25_of_best", "recency"},
        "words": {"message_words", "window_words"},
        "vectors": {"message_vector", "neighbor_vectors"},
    }


@pytest.mark.parametrize(
    ("profile", "needs_words", "needs_vectors"),
    [
        ("default", True, True),
        ("composite", True, True),
        ("words", True, False),
        ("vectors", False, True),
    ],
)
def test_a_profile_asks_only_for_what_it_weighs(
    profile: ProfileName, *, needs_words: bool, needs_vectors: bool
) -> None:
    asked = PROFILES[profile]

    assert (asked.needs_words, asked.needs_vectors) == (needs_words, needs_vectors)


def test_the_composite_profile_weighs_what_was_said_lately() -> None:
    old = Row(1, 1, message=0.15, said_at=NOW - 100 * HOUR)
    new = Row(1, 2, message=0.15, said_at=NOW - HOUR)

    assert only(old, "composite").raw["recency"] == pytest.approx(100)
    assert only(old, "composite").legs["recency"] == pytest.approx(math.exp(-1))
    assert only(old, "composite").fused == pytest.approx(
        (0.35 * 1.0 + 0.15 * math.exp(-1)) / (0.35 + 0.15)
    )
    assert [item.sequence for item in scoring([old, new], "composite").rank()] == [2, 1]
    assert [item.sequence for item in scoring([old, new]).rank()] == [1, 2]


def test_the_composite_profile_is_the_formula_it_is_named_for() -> None:
    best = Row(1, 1, message=0.2, cosine=0.6, around=0.6, is_deep=True)
    other = Row(2, 1, message=0.05, cosine=0.8, around=0.8, is_deep=True, characters=9_000)

    scored = scoring([best, other], "composite")

    assert scored.fused.tolist() == pytest.approx(
        [0.5 * 0.6 + 0.35 * 1.0 + 0.15, 0.5 * 0.8 + 0.35 * 0.25 + 0.15]
    )
    assert scored.order.tolist() == scored.fused.tolist()


def test_what_is_said_in_the_future_is_as_recent_as_can_be() -> None:
    dated_ahead = Row(1, 1, message=0.1, said_at=NOW + 9_000 * HOUR)

    assert only(dated_ahead, "composite").legs["recency"] == 1


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_longer_message_is_charged_no_less(shorter: int, more: int) -> None:
    charges = length_charge(np.array([shorter, shorter + more]))

    assert charges[0] >= charges[1]


def test_of_two_equal_messages_the_short_one_goes_first() -> None:
    long = Row(1, 1, message=0.2, characters=4000)
    short = Row(1, 2, message=0.2, characters=200)

    assert [item.sequence for item in scoring([long, short]).rank()] == [2, 1]


@given(st.integers(100, 100_000), st.integers(0, 10**6))
def test_a_text_is_delivered_whole_or_as_a_short_part(budget: int, tokens: int) -> None:
    lengths = DeliveredLengths.within(budget)

    (delivered,) = lengths.of(np.array([tokens])).tolist()

    assert EXCERPT_TOKENS_MIN <= lengths.excerpt <= EXCERPT_TOKENS_MAX
    assert lengths.excerpt <= lengths.whole_max <= budget
    assert delivered == (tokens if tokens <= lengths.whole_max else lengths.excerpt) <= budget


@pytest.mark.parametrize(
    ("budget", "whole_max", "excerpt"), [(100, 50, 40), (1_500, 750, 200), (10_000, 5_000, 200)]
)
def test_texts_longer_than_half_of_the_budget_come_as_a_part(
    budget: int, whole_max: int, excerpt: int
) -> None:
    assert DeliveredLengths.within(budget) == (whole_max, excerpt)


def test_length_is_charged_for_what_is_delivered() -> None:
    found = table([Row(1, 1, message=0.3, characters=100_000), Row(1, 2, message=0.3)])
    by_default = partial(
        score, found, profile=PROFILES["default"], calibrations=CALIBRATIONS, now=NOW
    )

    whole, cut = by_default(), by_default(lengths=DeliveredLengths.within(1_500))

    assert whole.delivered_tokens.tolist() == [25_000, 10]
    assert cut.delivered_tokens.tolist() == [200, 10]
    assert cut.charge.tolist() == length_charge(np.array([200, 10])).tolist()
    assert whole.charge[0] < cut.charge[0] < whole.charge[1] == cut.charge[1] == 1


def test_a_document_is_not_put_back_for_its_length() -> None:
    long = Row(1, 1, message=0.21, characters=4000, is_document=True)
    short = Row(2, 1, message=0.2, characters=200, is_document=True)

    assert [item.conversation for item in scoring([long, short]).rank()] == [1, 2]


@promise("reproducible")
def test_ties_are_broken_by_key() -> None:
    found = [Row(2, 1, message=0.2), Row(1, 9, message=0.2)]

    assert [item.key for item in scoring(found).rank()] == [1009, 2001]


def test_nothing_found_is_nothing_ranked() -> None:
    assert not scoring([]).rank()


def test_tokens_weigh_beside_the_other_legs_where_they_were_compared() -> None:
    found = Row(1, 1, cosine=0.6, around=0.6, is_deep=True, tokens=0.4)
    without = replace(found, sequence=9, tokens=math.nan)

    scored = scoring([found, without])
    breakdowns = {item.sequence: scored.explain(item) for item in scored.rank()}

    assert "token_vectors" not in breakdowns[9].legs
    assert breakdowns[9].fused == only(without).fused
    assert breakdowns[1].raw["token_vectors"] == 0.4
    assert breakdowns[1].weights["token_vectors"] == pytest.approx(0.5 / 1.95)


@given(rows, absolute)
def test_without_tokens_nothing_depends_on_their_leg(
    found: list[Row], profile: ProfileName
) -> None:
    bare = table([replace(row, tokens=math.nan) for row in found])
    score_with = partial(score, calibrations=CALIBRATIONS, now=NOW)
    weights = {
        name: weight
        for name, weight in PROFILES[profile].weights.items()
        if name != "token_vectors"
    }

    scored = score_with(replace(bare, token_match=None), profile=PROFILES[profile])

    known = score_with(bare, profile=replace(PROFILES[profile], weights=weights))
    assert scored.rank() == known.rank()


@given(rows, st.integers(0, 80))
def test_the_best_rows_are_those_of_the_ranking(found: list[Row], limit: int) -> None:
    candidates, profile = table(found), PROFILES["default"]
    ranked = score(candidates, profile=profile, calibrations=CALIBRATIONS, now=NOW).rank()

    best = best_rows(candidates, profile=profile, calibrations=CALIBRATIONS, now=NOW, limit=limit)

    assert best.tolist()[: len(ranked)] == ranked.rows[:limit]


def test_no_rows_are_compared_for_a_profile_without_tokens() -> None:
    best = best_rows(
        table([Row(1, 1, message=1.0)]),
        profile=PROFILES["words"],
        calibrations=CALIBRATIONS,
        now=NOW,
        limit=10,
    )

    assert best.tolist() == []
