"""Fusion and order: absolute values, independent of what else was found."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model.search import Candidate
from engram.retrieval.fuse import WORD_LEGS, Leg, explain, fuse, length_charge, rank
from tests.retrieval.candidates import candidate, candidates


@given(candidates, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_the_input(
    found: list[Candidate], chance: random.Random
) -> None:
    shuffled = chance.sample(found, len(found))

    assert rank(found, legs=WORD_LEGS) == rank(shuffled, legs=WORD_LEGS)


@given(candidates, candidates)
def test_a_score_does_not_depend_on_what_else_was_found(
    found: list[Candidate], others: list[Candidate]
) -> None:
    alone = {item.candidate: item.fused for item in rank(found, legs=WORD_LEGS)}

    together = rank([*found, *others], legs=WORD_LEGS)

    assert all(item.fused == alone[item.candidate] for item in together if item.candidate in alone)


@given(candidates)
def test_scores_and_charges_are_within_their_bounds(found: list[Candidate]) -> None:
    for item in rank(found, legs=WORD_LEGS):
        breakdown = explain(item, WORD_LEGS)

        assert 0 <= item.score <= 1
        assert 0 < breakdown.length_charge <= 1
        assert all(0 <= value <= 1.5 for value in breakdown.legs.values())
        assert breakdown.order == pytest.approx(breakdown.fused * breakdown.length_charge)
        assert breakdown.fused == pytest.approx(
            sum(breakdown.weights[leg] * value for leg, value in breakdown.legs.items())
        )


@given(candidates, st.floats(0, 1))
def test_a_least_score_keeps_exactly_what_reaches_it(
    found: list[Candidate], score_min: float
) -> None:
    kept = rank(found, legs=WORD_LEGS, score_min=score_min)

    assert kept == [item for item in rank(found, legs=WORD_LEGS) if item.score >= score_min]


def test_a_missing_leg_gives_its_weight_to_the_others() -> None:
    found = candidate(1, 1, message=0.15, window=0.4)
    third = Leg(name="third", weight=0.6, floor=0.0, span=1.0, raw=lambda _: 0.25)

    assert fuse(found, WORD_LEGS) == pytest.approx(0.5 * 0.5 + 0.5 * 1.0)
    assert fuse(found, (*WORD_LEGS, third)) == pytest.approx((0.3 * 1.5 + 0.6 * 0.25) / 1.2)


def test_a_leg_counts_from_its_floor() -> None:
    leg = Leg(name="cosine", weight=1, floor=0.45, span=0.27, raw=lambda item: item.share_message)

    values = [leg.value(candidate(1, 1, message=raw)) for raw in (0.1, 0.45, 0.585, 0.72, 1.0)]

    assert values == pytest.approx([0, 0, 0.5, 1, 1.5])


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_longer_message_is_charged_no_less(shorter: int, more: int) -> None:
    assert length_charge(shorter) >= length_charge(shorter + more)


def test_of_two_equal_messages_the_short_one_goes_first() -> None:
    long = candidate(1, 1, message=0.2, characters=4000)
    short = replace(candidate(1, 2, message=0.2), characters=200)

    assert [item.candidate for item in rank([long, short], legs=WORD_LEGS)] == [short, long]


def test_ties_are_broken_by_key() -> None:
    found = [candidate(2, 1, message=0.2), candidate(1, 9, message=0.2)]

    assert [item.candidate.key for item in rank(found, legs=WORD_LEGS)] == [1009, 2001]
