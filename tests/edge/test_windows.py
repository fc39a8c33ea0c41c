"""The least rate of a transfer."""

from __future__ import annotations

from engram.http.connections import EdgeBounds
from engram.http.protocol import Window

BOUNDS = EdgeBounds(transfer_window_s=10, transfer_bytes_per_s_min=100)


def window() -> Window:
    made = Window(BOUNDS)
    made.restart(1_000.0)
    return made


def test_nothing_is_too_slow_before_a_window_has_passed() -> None:
    assert not window().is_too_slow(1_009.9)


def test_a_window_without_enough_bytes_is_too_slow() -> None:
    measured = window()
    measured.moved += 999

    assert measured.is_too_slow(1_010.0)


def test_a_burst_does_not_pay_for_a_later_pause() -> None:
    measured = window()
    measured.moved += 1_000_000

    assert not measured.is_too_slow(1_010.0)
    assert not measured.is_too_slow(1_019.9)
    assert measured.is_too_slow(1_020.0)
