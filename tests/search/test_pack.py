"""Packing: bounds hold, each message comes once, and what is left out is counted or named."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model.ids import ConversationKey, MessageKey
from engram.model.search import CutBy
from engram.search.pack import (
    BAR_RISE,
    BAR_SHARE,
    COVERING_ROOM,
    HANDLES_MAX,
    NEW_SOURCE_SHARE,
    REPEATS_MAX,
    Packed,
    count_good,
    pack,
)
from engram.search.profiles import PROFILES
from engram.search.score import COVERING_MAX, Ranking, score
from tests.promises import promise
from tests.search.candidates import CALIBRATIONS, NOW, Row, rows, table

limits = st.integers(1, 50)
budgets = st.integers(100, 100_000)
bars = st.booleans()


def packed_keys(packed: Packed) -> list[MessageKey]:
    return [item.key for item in packed.items]


def handle_keys(packed: Packed) -> list[MessageKey]:
    return [item.key for item in packed.handles]


def rank(found: Iterable[Row]) -> Ranking:
    profile = PROFILES["default"]
    return score(table(found), profile=profile, calibrations=CALIBRATIONS, now=NOW).rank()


def ranking(*places: tuple[int, float], tokens: int = 10, covering: Container[int] = ()) -> Ranking:
    """Return a ranking of messages with these conversations and order values.

    Args:
        covering: the places of those that contain the words of the query.
    """
    conversations = [ConversationKey(conversation) for conversation, _ in places]
    return Ranking(
        rows=[*range(len(places))],
        keys=[MessageKey(owner * 1000 + number) for number, owner in enumerate(conversations, 1)],
        conversations=conversations,
        sequences=[*range(1, len(places) + 1)],
        tokens=[tokens] * len(places),
        scores=[min(order, 1.0) for _, order in places],
        orders=[order for _, order in places],
        covers=[place in covering for place in range(len(places))],
        look_of=lambda row: (row, 0.0, 0.0, 0.0),
    )


def bar_after(*, tokens: int, is_new: bool) -> float:
    """Return the share of the best order value that the next message must reach."""
    return BAR_SHARE + BAR_RISE * (tokens / 1000) ** 2 + NEW_SOURCE_SHARE * is_new


@promise("bounded")
@given(found=rows, limit=limits, budget=budgets, has_bar=bars)
def test_neither_the_budget_nor_the_limit_is_ever_exceeded(
    found: list[Row], limit: int, budget: int, *, has_bar: bool
) -> None:
    packed = pack(rank(found), limit=limit, token_budget=budget, has_bar=has_bar)

    assert sum(item.tokens for item in packed.items) <= budget
    assert len(packed.items) <= limit
    assert len(packed.handles) <= HANDLES_MAX


@given(found=rows, limit=limits, budget=budgets, has_bar=bars)
def test_every_message_comes_once_in_the_order_of_the_ranking(
    found: list[Row], limit: int, budget: int, *, has_bar: bool
) -> None:
    items = rank(found)

    packed = pack(items, limit=limit, token_budget=budget, has_bar=has_bar)

    places = {key: place for place, key in enumerate(items.keys)}
    for keys in (packed_keys(packed), handle_keys(packed)):
        assert [places[key] for key in keys] == sorted({places[key] for key in keys})
    assert not {*packed_keys(packed)} & {*handle_keys(packed)}
    conversations = [item.conversation for item in packed.handles]
    assert len(set(conversations)) == len(conversations)


@promise("bounded")
@given(found=rows, limit=limits, budget=budgets, has_bar=bars)
def test_what_is_left_out_is_counted_or_named(
    found: list[Row], limit: int, budget: int, *, has_bar: bool
) -> None:
    items = rank(found)

    packed = pack(items, limit=limit, token_budget=budget, has_bar=has_bar)

    left_out = len(items) - len(packed.items) - len(packed.alike) - packed.weaker
    assert (packed.cut_by is not None) == bool(packed.handles) == (left_out > 0)
    assert has_bar or packed.weaker == 0


@given(rows, limits, budgets)
def test_without_a_bar_everything_comes_that_the_bounds_admit(
    found: list[Row], limit: int, budget: int
) -> None:
    items = rank(found)

    packed = pack(items, limit=limit, token_budget=budget, has_bar=False)

    if len(packed.items) < limit:
        left = budget - sum(item.tokens for item in packed.items)
        kept = {item.key for item in (*packed.items, *packed.alike)}
        assert all(item.tokens > left for item in items if item.key not in kept)


@given(rows, limits, budgets)
def test_the_bar_rises_with_what_is_packed_and_more_for_another_conversation(
    found: list[Row], limit: int, budget: int
) -> None:
    items = rank(found)

    packed = pack(items, limit=limit, token_budget=budget, has_bar=True)

    tokens = 0
    sources = set[int]()
    for place, item in enumerate(packed.items):
        is_new = bool(place) and item.conversation not in sources
        bar = bar_after(tokens=tokens, is_new=is_new)
        assert item.order >= items[0].order * bar * (1 - 1e-12)
        tokens += item.tokens
        sources.add(item.conversation)


@given(found=rows, limit=limits, budget=budgets, has_bar=bars)
def test_packing_the_same_gives_the_same(
    found: list[Row], limit: int, budget: int, *, has_bar: bool
) -> None:
    items = rank(found)

    once, again = (pack(items, limit=limit, token_budget=budget, has_bar=has_bar) for _ in range(2))

    assert once == again


@given(found=rows, limit=limits, budget=budgets, has_bar=bars)
def test_the_best_comes_whenever_it_fits(
    found: list[Row], limit: int, budget: int, *, has_bar: bool
) -> None:
    items = rank(found)

    packed = pack(items, limit=limit, token_budget=budget, has_bar=has_bar)

    if items and items[0].tokens <= budget:
        assert packed.items[0] == items[0]


def test_the_first_messages_need_less_than_half_of_the_best() -> None:
    same = ranking((1, 1.0), (1, BAR_SHARE + 0.01), (1, BAR_SHARE - 0.01))

    packed = pack(same, limit=10, token_budget=1000, has_bar=True)

    assert packed_keys(packed) == [1001, 1002]
    assert (packed.weaker, packed.cut_by, packed.handles) == (1, None, [])


def test_a_message_has_to_reach_more_after_a_long_answer_than_after_a_short_one() -> None:
    places = [(1, 1.0), (1, 0.6)]

    after = {
        tokens: pack(ranking(*places, tokens=tokens), limit=9, token_budget=9_000, has_bar=True)
        for tokens in (10, 1_000)
    }

    assert [len(packed.items) for packed in after.values()] == [2, 1]
    assert after[1_000].weaker == 1


@pytest.mark.parametrize(("conversation", "count"), [(1, 2), (2, 1)])
def test_the_first_message_of_another_conversation_needs_more(
    conversation: int, count: int
) -> None:
    known = bar_after(tokens=10, is_new=False)
    new = bar_after(tokens=10, is_new=True)
    order = (known + new) / 2

    packed = pack(
        ranking((1, 1.0), (conversation, order)), limit=9, token_budget=1000, has_bar=True
    )

    assert (len(packed.items), packed.weaker) == (count, 2 - count)


def test_a_conversation_that_is_named_needs_no_more_for_its_later_messages() -> None:
    below_new = (bar_after(tokens=20, is_new=True) + bar_after(tokens=20, is_new=False)) / 2
    items = ranking((1, 1.0), (2, 0.9), (3, below_new), (2, below_new))

    packed = pack(items, limit=9, token_budget=1000, has_bar=True)

    assert packed_keys(packed) == [1001, 2002, 2004]
    assert packed.weaker == 1


def test_a_bar_is_relative_to_the_best_however_low_that_is() -> None:
    shares = [1.0, 0.9, 0.6, 0.5, 0.3]
    counts = {
        pack(
            ranking(*((1, best * share) for share in shares)),
            limit=9,
            token_budget=1000,
            has_bar=True,
        ).weaker
        for best in (0.01, 0.4, 1.7)
    }

    assert counts == {1}


@promise("bounded")
@pytest.mark.parametrize(
    ("limit", "budget", "cut_by"),
    [
        (3, 1000, None),
        (2, 1000, "limit"),
        (9, 25, "token_budget"),
        (1, 25, "limit"),
        (2, 25, "limit"),
    ],
)
def test_the_bound_that_left_something_out_is_named(
    limit: int, budget: int, cut_by: CutBy | None
) -> None:
    packed = pack(
        ranking((1, 0.9), (2, 0.8), (3, 0.7)), limit=limit, token_budget=budget, has_bar=False
    )

    assert packed.cut_by == cut_by


def test_a_budget_that_left_something_out_is_named_though_the_limit_was_reached_after_it() -> None:
    long = Row(1, 1, message=0.9, characters=4000)
    short = Row(2, 1, message=0.1)

    packed = pack(rank([long, short]), limit=1, token_budget=100, has_bar=False)

    assert packed_keys(packed) == [2001]
    assert packed.cut_by == "token_budget"


def test_a_message_too_long_for_the_budget_leaves_room_for_smaller_ones_and_a_handle() -> None:
    long = Row(1, 1, message=0.9, characters=4000)
    short = Row(2, 1, message=0.1)

    packed = pack(rank([long, short]), limit=5, token_budget=100, has_bar=False)

    assert packed_keys(packed) == [2001]
    assert handle_keys(packed) == [1001]
    assert packed.cut_by == "token_budget"


def test_handles_are_of_the_best_left_out_one_for_each_conversation() -> None:
    items = ranking((1, 0.9), (2, 0.8), (2, 0.7), (1, 0.6), *((each, 0.5) for each in range(3, 20)))

    packed = pack(items, limit=1, token_budget=1000, has_bar=False)

    assert [item.conversation for item in packed.handles] == [2, 1, *range(3, HANDLES_MAX + 1)]
    assert handle_keys(packed)[:2] == [2002, 1004]


def test_messages_that_look_alike_take_neither_places_nor_tokens() -> None:
    repeats = [Row(1, place, message=0.5, cosine=0.6) for place in range(1, 10)]
    other = Row(2, 1, message=0.4, cosine=0.5)

    packed = pack(rank([*repeats, other]), limit=2, token_budget=20, has_bar=False)

    assert packed_keys(packed) == [repeats[0].key, other.key]
    assert [item.key for item in packed.alike] == [row.key for row in repeats[1:]]
    assert packed.cut_by is None


def test_more_of_them_than_are_read_are_left_out_as_others_are() -> None:
    repeats = [Row(1, place, message=0.5) for place in range(1, REPEATS_MAX + 3)]

    packed = pack(rank(repeats), limit=1, token_budget=100, has_bar=False)

    assert (len(packed.items), len(packed.alike), packed.cut_by) == (1, REPEATS_MAX, "limit")


def test_better_messages_leave_room_for_one_with_the_words_of_the_query() -> None:
    places = [(1, 1.0)] * 10

    packed = pack(
        ranking(*places, tokens=100, covering={9}), limit=20, token_budget=1000, has_bar=True
    )

    kept = [item.row for item in packed.items]
    assert kept == [*range(6), 9]
    assert sum(item.tokens for item in packed.items[:-1]) <= 1000 * (1 - COVERING_ROOM) - 100
    assert packed.cut_by == "token_budget"


def test_better_messages_leave_it_a_place_of_the_limit() -> None:
    places = [(1, 1.0)] * 10

    packed = pack(
        ranking(*places, tokens=10, covering={9}), limit=4, token_budget=1000, has_bar=True
    )

    assert [item.row for item in packed.items] == [0, 1, 2, 9]
    assert packed.cut_by == "limit"


@pytest.mark.parametrize("tokens", [100, 300])
def test_many_of_them_leave_others_their_room(tokens: int) -> None:
    places = [(1, 1.0)] * 10

    packed = pack(
        ranking(*places, tokens=tokens, covering={*range(4, 10)}),
        limit=20,
        token_budget=1000,
        has_bar=True,
    )

    assert [item.row for item in packed.items][:3] == [0, 1, 2]


def test_nothing_found_is_nothing_packed() -> None:
    packed = pack(rank([]), limit=5, token_budget=100, has_bar=True)

    assert packed == Packed(items=[], handles=[], weaker=0, cut_by=None, alike=[])


@given(rows)
def test_the_good_are_those_above_the_bar_before_anything_is_packed(found: list[Row]) -> None:
    items = rank(found)

    good = count_good(items)

    best = max((item.order for item in items), default=math.inf)
    assert all(item.order >= best * BAR_SHARE for item in items[:good])
    assert all(item.order < best * BAR_SHARE for item in items[good:])


def test_the_best_of_each_conversation_comes_in_order() -> None:
    items = ranking((1, 0.9), (1, 0.8), (2, 0.7), (3, 0.6))

    assert [item.key for item in items.best_of_each(2)] == [1001, 2003]


def test_a_message_with_the_words_of_the_query_needs_no_bar() -> None:
    weak = ranking((1, 1.0), (2, 0.2), (3, 0.1), covering={2})

    packed = pack(weak, limit=9, token_budget=1_000, has_bar=True)

    assert [item.conversation for item in packed.items] == [1, 3]
    assert packed.weaker == 1


@pytest.mark.parametrize(("count", "is_sign"), [(COVERING_MAX, True), (COVERING_MAX + 1, False)])
def test_words_that_many_messages_contain_are_no_sign(count: int, *, is_sign: bool) -> None:
    found = rank(Row(place, 1, message=0.5, coverage=1.0) for place in range(1, count + 1))

    assert found.covers == [is_sign] * count
