"""Texts are cut to token budgets in every script, and to no less than fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.text.excerpts import cut_tokens, fit, longest, quotable
from engram.text.quoting import quote
from engram.text.tokens import beginning, count_tokens
from tests.promises import promise
from tests.text.hostile import STORED

PIECES = st.sampled_from(
    ["word ", "12345", "\n  ", "机器学习", "été ", "-----", "e\u0301", "\x00", "👩\u200d👧"]
)
TEXTS = st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=60).map("".join))


@given(TEXTS, st.integers(0, 120))
def test_a_beginning_is_as_long_as_its_tokens_allow(text: str, most: int) -> None:
    end = beginning(text, most)

    assert count_tokens(text[:end]) <= most
    assert (end == len(text)) == (count_tokens(text) <= most)


@promise("bounded")
@given(TEXTS, st.integers(0, 120))
def test_a_cut_text_is_within_its_tokens(text: str, most: int) -> None:
    shown = cut_tokens(text, most)

    assert text.startswith(shown.text)
    assert count_tokens(shown.text) <= most
    assert shown.is_cut == (shown.text != text)


@promise("bounded")
@given(st.lists(TEXTS, max_size=8), st.integers(0, 200))
def test_texts_fit_their_budget_together(contents: list[str], budget: int) -> None:
    shown = fit(contents, token_budget=budget)

    assert len(shown) == len(contents)
    assert sum(count_tokens(part.text) for part in shown) <= budget
    assert all(map(str.startswith, contents, (part.text for part in shown)))
    assert [part.is_cut for part in shown] == [
        part.text != content for part, content in zip(shown, contents, strict=True)
    ]


@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_texts_that_fit_are_whole(contents: list[str]) -> None:
    shown = fit(contents, token_budget=sum(map(count_tokens, contents)))

    assert [part.text for part in shown] == contents


def test_short_texts_stay_whole_beside_long_ones_that_share_the_rest() -> None:
    shown = fit(["long " * 900, "short", "也很长" * 900], token_budget=101)

    assert [count_tokens(part.text) for part in shown] == [50, 1, 50]


@promise("bounded")
def test_four_hundred_ideograms_are_no_hundred_tokens() -> None:
    (shown,) = fit(["记忆" * 200], token_budget=100)

    assert shown.is_cut
    assert 120 < len(shown.text) < 150


@given(STORED, st.integers(2, 60))
def test_a_cut_quote_fits_and_is_as_long_as_it_can_be(content: str, most: int) -> None:
    shown = quotable(content, most)

    assert count_tokens(quote(content[:shown])) <= most
    if count_tokens(quote(content)) <= most:
        assert shown == len(content)


@given(st.lists(st.integers(0, 9), max_size=200), st.integers(0, 400))
def test_the_longest_part_that_fits_is_found_in_few_steps(costs: list[int], most: int) -> None:
    tried = list[int]()

    def cost(characters: int) -> int:
        tried.append(characters)
        return sum(costs[:characters])

    fitting = longest(len(costs), cost=cost, tokens_max=most)

    assert sum(costs[:fitting]) <= most
    nearly = sum(costs[:fitting]) >= 0.97 * most
    assert nearly or fitting == len(costs) or sum(costs[: fitting + 1]) > most
    assert len(tried) <= 40
