"""Spans around matches: merged, in order, within a budget."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engram.model.document import Match, Span
from engram.model.ids import MemoryId
from engram.search.spans import Windows, cut_span, fit_spans, span_of, windows_around
from engram.text.tokens import count_tokens
from tests.promises import promise

pytestmark = promise("spans")

MEMORY = MemoryId("mem_1")
TEXTS = st.text(alphabet="ab\né€😀", min_size=1, max_size=120)


def match_at(
    text: str, start: int, end: int, *, score: float | None = None, place: int = -1
) -> Match:
    start_byte = len(text[:start].encode())
    return Match(
        start=start,
        end=end,
        start_byte=start_byte,
        end_byte=start_byte + len(text[start:end].encode()),
        score=score,
        place=place,
    )


def spans_in(text: str, matches: list[Match], *, window_chars: int) -> list[Span]:
    spans: list[Span] = []
    for window in windows_around(matches, window_chars=window_chars):
        start, end = window.wanted_bytes
        spans.append(span_of(window, text.encode()[start:end], memory_id=MEMORY))
    return spans


@st.composite
def texts_with_matches(draw: st.DrawFn) -> tuple[str, list[Match]]:
    text = draw(TEXTS)
    places = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))
    ranges = draw(st.lists(places.map(sorted), min_size=1, max_size=8))
    scores = st.none() | st.floats(0, 1)
    return text, [match_at(text, start, end, score=draw(scores)) for start, end in ranges]


@given(texts_with_matches(), st.integers(1, 60))
def test_spans_hold_every_match_and_half_a_window_on_each_side(
    made: tuple[str, list[Match]], window: int
) -> None:
    text, matches = made

    spans = spans_in(text, matches, window_chars=window)

    covered = {place for span in spans for place in range(span.start, span.end)}
    wanted = {
        place
        for match in matches
        for place in range(match.start - window // 2, match.end + window - window // 2)
        if 0 <= place < len(text)
    }
    assert wanted == covered
    assert sorted(match.start for match in matches) == sorted(
        match.start for span in spans for match in span.matches
    )


@given(texts_with_matches(), st.integers(1, 60))
def test_spans_are_apart_in_order_and_say_where_they_are(
    made: tuple[str, list[Match]], window: int
) -> None:
    text, matches = made

    spans = spans_in(text, matches, window_chars=window)

    for span in spans:
        assert text[span.start : span.end] == span.text
        assert text.encode()[span.start_byte : span.end_byte].decode() == span.text
    for earlier, later in pairwise(spans):
        assert earlier.end < later.start


@promise("bounded")
@given(texts_with_matches(), st.integers(1, 60), st.integers(1, 150))
def test_a_budget_is_used_up_and_never_passed(
    made: tuple[str, list[Match]], window: int, budget: int
) -> None:
    text, matches = made
    spans = [span for span in spans_in(text, matches, window_chars=window) if span.text]
    total = sum(count_tokens(span.text) for span in spans)

    fitting, is_truncated = fit_spans(spans, token_budget=budget)

    assert sum(count_tokens(span.text) for span in fitting) <= budget
    assert is_truncated == (total > budget)
    assert all(span.text for span in fitting)
    assert sorted(span.start for span in fitting) == [span.start for span in fitting]
    for span in fitting:
        assert text.encode()[span.start_byte : span.end_byte].decode() == span.text
        assert text[span.start : span.end] == span.text


@given(texts_with_matches(), st.integers(1, 60), st.integers(1, 150))
def test_a_cut_span_shows_its_focus(
    made: tuple[str, list[Match]], window: int, budget: int
) -> None:
    text, matches = made
    for span in spans_in(text, matches, window_chars=window):
        cut = cut_span(span, budget)

        assert count_tokens(cut.text) <= budget
        assert cut.is_cut == (count_tokens(span.text) > budget)
        assert span.start <= cut.start <= cut.end <= span.end
        assert cut.start <= span.focus.start <= cut.end
        if not cut.is_cut or len(cut.text) >= span.focus.end - span.focus.start:
            assert span.focus.end <= cut.end


def test_what_a_filter_found_comes_before_what_is_near_to_the_question() -> None:
    text = "x " * 500
    near = match_at(text, 100, 110, score=0.9, place=1)
    nearer = match_at(text, 300, 310, score=0.95, place=0)
    found = match_at(text, 900, 910)
    spans = spans_in(text, [found, nearer, near], window_chars=10)

    fitting, is_truncated = fit_spans(spans, token_budget=22)

    assert is_truncated
    assert [(100, 104), (295, 315), (895, 915)] == [(span.start, span.end) for span in fitting]
    assert [True, False, False] == [span.is_cut for span in fitting]


def test_windows_know_the_least_they_hold() -> None:
    windows = Windows(window_chars=100)
    for start in (10, 500, 520):
        windows.add(match_at("x" * 1_000, start, start + 10))

    assert 2 == len(windows.all)
    assert 70 + (530 - 450) == windows.characters
