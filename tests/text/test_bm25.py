"""BM25: scores stay below their upper bound, and rarer words weigh more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.text import bm25

counts = st.integers(0, 10**9)


@given(texts=counts, holding=counts)
def test_a_rarer_word_weighs_more_and_none_weighs_nothing(texts: int, holding: int) -> None:
    texts, holding = max(texts, holding) + 1, min(texts, holding)

    rarer = bm25.weight(texts=texts, holding=holding)
    commoner = bm25.weight(texts=texts, holding=holding + 1)

    assert rarer >= commoner > 0


@given(
    occurrences=st.integers(1, 10**6),
    more=st.integers(0, 10**6),
    average=st.floats(0.5, 10**6),
)
def test_a_word_is_worth_less_than_its_bound(occurrences: int, more: int, average: float) -> None:
    worth = bm25.worth(occurrences=occurrences, length=occurrences + more, length_average=average)

    assert 0 < worth <= bm25.WORTH_MAX


def test_a_word_once_in_a_text_of_average_length_is_worth_one() -> None:
    assert bm25.worth(occurrences=1, length=20, length_average=20) == 1.0


def test_the_bound_counts_repeats_of_the_query() -> None:
    assert bm25.bound([(2, 1.5), (1, 0.5)]) == 3.5 * bm25.WORTH_MAX
