"""Windows: arithmetic on sequences alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.text.windows import (
    window,
    window_count,
    window_gains,
    window_numbers_holding,
    windows_holding,
)
from tests.promises import promise

pytestmark = promise("chunks")

lengths = st.integers(0, 40)


def members(last: int) -> list[range]:
    """Return the sequences of every window of a conversation."""
    spans = [window(number, last_sequence=last) for number in range(window_count(last))]
    return [range(span.start, span.end + 1) for span in spans]


@given(last=lengths)
def test_every_message_is_in_a_window_and_no_window_is_a_part_of_another(last: int) -> None:
    windows = members(last)

    assert {sequence for each in windows for sequence in each} == set(range(1, last + 1))
    assert all(len(each) == 5 for each in windows[:-1])
    assert len({each.stop for each in windows}) == len(windows)


@given(last=lengths, sequence=st.integers(1, 45))
def test_the_windows_of_a_message_are_those_that_hold_it(last: int, sequence: int) -> None:
    holding = [number for number, each in enumerate(members(last)) if sequence in each]

    assert windows_holding(sequence, last_sequence=last) == len(holding)
    if sequence <= last:
        assert list(window_numbers_holding(sequence, last_sequence=last)) == holding


@given(before=lengths, after=lengths)
def test_gains_are_what_longer_or_shorter_conversations_have_more(before: int, after: int) -> None:
    gains = window_gains(before, after)

    for sequence in range(1, 45):
        more = sum(sequence in each for each in members(after))
        fewer = sum(sequence in each for each in members(before))
        assert gains.get(sequence, 0) == more - fewer
    assert 0 not in gains.values()
    assert len([place for place in gains if place <= min(before, after)]) <= 2
