"""The token bucket of each key."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engram.errors import RateLimitedError
from engram.service.access.rate import RateLimiter
from tests.fakes import FakeClock
from tests.promises import promise

pytestmark = promise("rates")


def test_a_burst_of_two_seconds_is_allowed_and_then_refused() -> None:
    limiter = RateLimiter(5, FakeClock())

    for _ in range(10):
        limiter.take("key_a")

    with pytest.raises(RateLimitedError) as caught:
        limiter.take("key_a")
    assert caught.value.retry_after_s == pytest.approx(0.2)


def test_a_refused_key_is_served_again_after_the_time_it_was_told() -> None:
    clock = FakeClock()
    limiter = RateLimiter(1, clock)
    limiter.take("key_a")
    limiter.take("key_a")
    with pytest.raises(RateLimitedError) as caught:
        limiter.take("key_a")

    clock.advance(timedelta(seconds=caught.value.retry_after_s))

    state = limiter.take("key_a")
    assert state is not None
    assert (state.limit, state.remaining, state.reset_s) == (2, 0, 2)


def test_one_key_does_not_use_up_the_bucket_of_another() -> None:
    limiter = RateLimiter(1, FakeClock())
    limiter.take("key_a")
    limiter.take("key_a")

    state = limiter.take("key_b")

    assert state is not None
    assert state.remaining == 1


def test_a_rate_of_zero_limits_nothing() -> None:
    limiter = RateLimiter(0, FakeClock())

    assert [limiter.take("key_a") for _ in range(1000)] == [None] * 1000


def test_a_clock_that_goes_back_does_not_take_tokens_away() -> None:
    clock = FakeClock()
    limiter = RateLimiter(10, clock)
    limiter.take("key_a")

    clock.advance(timedelta(seconds=-60))

    state = limiter.take("key_a")
    assert state is not None
    assert state.remaining == 18
