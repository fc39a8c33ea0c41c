"""Packing: the budget holds, every message comes once, and nothing found is hidden."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from engram.search.pack import Packed, pack
from engram.search.profiles import PROFILES
from engram.search.score import Ranking, score
from tests.search.candidates import CALIBRATIONS, NOW, Row, rows, table

limits = st.integers(1, 50)
budgets = st.integers(100, 100_000)


def packed_keys(packed: Packed) -> list[list[int]]:
    return [[item.key for item in group.items] for group in packed.groups]


def rank(found: Iterable[Row]) -> Ranking:
    profile = PROFILES["default"]
    return score(table(found), profile=profile, calibrations=CALIBRATIONS, now=NOW).rank()


def ranked(*shares: tuple[int, int, float], characters: int = 40) -> Ranking:
    return rank(
        Row(conversation, sequence, message=share, characters=characters)
        for conversation, sequence, share in shares
    )


@given(rows, limits, budgets)
def test_neither_the_budget_nor_the_limit_is_ever_exceeded(
    found: list[Row], limit: int, budget: int
) -> None:
    packed = pack(rank(found), limit=limit, token_budget=budget)

    delivered = [item for group in packed.groups for item in group.items]
    assert sum(item.tokens for item in delivered) == packed.tokens <= budget
    assert len(packed.groups) + len(packed.handles) <= limit


@given(rows, limits, budgets)
def test_every_message_comes_once_and_a_result_is_of_one_conversation(
    found: list[Row], limit: int, budget: int
) -> None:
    packed = pack(rank(found), limit=limit, token_budget=budget)

    delivered = [item.key for group in packed.groups for item in group.items]
    assert len(set(delivered)) == len(delivered)
    assert all(
        item.conversation == group.conversation for group in packed.groups for item in group.items
    )
    assert not {item.key for item in packed.handles} & set(delivered)


@given(rows, limits, budgets)
def test_what_is_left_out_is_said(found: list[Row], limit: int, budget: int) -> None:
    items = rank(found)

    packed = pack(items, limit=limit, token_budget=budget)

    count = sum(len(group.items) for group in packed.groups)
    assert packed.is_truncated == (count < len(items))
    if packed.is_truncated:
        assert packed.handles or len(packed.groups) == limit


@given(rows, limits, budgets)
def test_packing_the_same_gives_the_same(found: list[Row], limit: int, budget: int) -> None:
    items = rank(found)

    assert pack(items, limit=limit, token_budget=budget) == pack(
        items, limit=limit, token_budget=budget
    )


def test_the_first_results_follow_the_ranking() -> None:
    items = ranked((1, 1, 0.29), (1, 5, 0.28), (2, 1, 0.27), (1, 9, 0.26), (3, 1, 0.25))

    packed = pack(items, limit=10, token_budget=1000)

    assert packed_keys(packed)[:3] == [[1001, 1005], [2001], [1009]]


def test_later_results_gather_the_messages_of_a_conversation() -> None:
    items = ranked((1, 1, 0.29), (2, 1, 0.28), (1, 2, 0.27), (2, 2, 0.26), (1, 3, 0.25))

    packed = pack(items, limit=4, token_budget=1000)

    assert packed_keys(packed) == [[1001], [2001, 2002], [1002, 1003]]


def test_a_single_result_gathers_its_conversation_up_to_the_budget() -> None:
    items = ranked((1, 1, 0.29), (2, 1, 0.28), (1, 2, 0.27), (1, 3, 0.26), characters=160)

    packed = pack(items, limit=1, token_budget=100)

    assert packed_keys(packed) == [[1001, 1002]]
    assert packed.tokens == 80
    assert packed.is_truncated


def test_a_message_too_long_for_the_budget_leaves_room_for_smaller_ones_and_a_handle() -> None:
    long = Row(1, 1, message=0.9, characters=4000)
    short = Row(2, 1, message=0.1)

    packed = pack(rank([long, short]), limit=5, token_budget=100)

    assert packed_keys(packed) == [[2001]]
    assert [item.key for item in packed.handles] == [1001]


def test_nothing_found_is_nothing_packed() -> None:
    packed = pack(rank([]), limit=5, token_budget=100)

    assert (packed.groups, packed.handles, packed.tokens) == ([], [], 0)
    assert not packed.is_truncated


def test_the_best_of_each_conversation_comes_in_order() -> None:
    items = ranked((1, 1, 0.29), (1, 2, 0.28), (2, 1, 0.27), (3, 1, 0.26))

    assert [item.key for item in items.best_of_each(2)] == [1001, 2001]
