"""The circuit breaker: it opens, probes, closes, and never stays open for want of a probe."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engram.embedding.retry import CircuitBreaker
from engram.errors import EmbedderUnavailableError, InvalidVectorError
from engram.limits import BREAKER_FAILURES_MAX, BREAKER_OPEN_S, BREAKER_OPEN_S_MAX
from tests.fakes import FakeClock


def call(breaker: CircuitBreaker, error: Exception | None = None) -> None:
    with breaker.attempt():
        if error is not None:
            raise error


def fail(breaker: CircuitBreaker, *, times: int) -> None:
    for _ in range(times):
        with pytest.raises(EmbedderUnavailableError):
            call(breaker, EmbedderUnavailableError())


def is_open(breaker: CircuitBreaker) -> bool:
    try:
        call(breaker)
    except EmbedderUnavailableError:
        return True
    return False


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def breaker(clock: FakeClock) -> CircuitBreaker:
    return CircuitBreaker(clock)


def test_it_opens_after_enough_failures_in_a_row(breaker: CircuitBreaker) -> None:
    fail(breaker, times=BREAKER_FAILURES_MAX - 1)
    call(breaker)
    fail(breaker, times=BREAKER_FAILURES_MAX - 1)
    assert not is_open(breaker)

    fail(breaker, times=BREAKER_FAILURES_MAX)

    assert is_open(breaker)


def test_it_is_open_until_it_may_be_probed(breaker: CircuitBreaker, clock: FakeClock) -> None:
    assert not breaker.is_open
    fail(breaker, times=BREAKER_FAILURES_MAX)
    assert breaker.is_open

    clock.advance(timedelta(seconds=BREAKER_OPEN_S))

    assert not breaker.is_open


def test_the_error_tells_when_to_retry(breaker: CircuitBreaker) -> None:
    fail(breaker, times=BREAKER_FAILURES_MAX)

    with pytest.raises(EmbedderUnavailableError) as caught:
        call(breaker)
    assert caught.value.retry_after_s == BREAKER_OPEN_S


def test_each_failed_probe_doubles_the_wait_up_to_a_bound(
    breaker: CircuitBreaker, clock: FakeClock
) -> None:
    fail(breaker, times=BREAKER_FAILURES_MAX)
    waits = [BREAKER_OPEN_S * 2**doublings for doublings in range(10)]

    for wait_s in waits:
        clock.advance(timedelta(seconds=min(wait_s, BREAKER_OPEN_S_MAX)) - timedelta(seconds=1))
        assert is_open(breaker)
        clock.advance(timedelta(seconds=1))
        fail(breaker, times=1)

    clock.advance(timedelta(seconds=BREAKER_OPEN_S_MAX))
    assert not is_open(breaker)


def test_only_one_probe_runs_at_a_time(breaker: CircuitBreaker, clock: FakeClock) -> None:
    fail(breaker, times=BREAKER_FAILURES_MAX)
    clock.advance(timedelta(seconds=BREAKER_OPEN_S))

    with breaker.attempt():
        assert is_open(breaker)

    assert not is_open(breaker)


@pytest.mark.parametrize("error", [InvalidVectorError(), RuntimeError(), KeyboardInterrupt()])
def test_a_probe_that_neither_succeeds_nor_fails_frees_its_slot(
    breaker: CircuitBreaker, clock: FakeClock, error: Exception
) -> None:
    fail(breaker, times=BREAKER_FAILURES_MAX)
    clock.advance(timedelta(seconds=BREAKER_OPEN_S))

    with pytest.raises(type(error)):
        call(breaker, error)

    assert not is_open(breaker)


def test_a_success_resets_the_wait(breaker: CircuitBreaker, clock: FakeClock) -> None:
    fail(breaker, times=BREAKER_FAILURES_MAX)
    clock.advance(timedelta(seconds=BREAKER_OPEN_S))
    fail(breaker, times=1)
    clock.advance(timedelta(seconds=2 * BREAKER_OPEN_S))
    call(breaker)

    fail(breaker, times=BREAKER_FAILURES_MAX)
    clock.advance(timedelta(seconds=BREAKER_OPEN_S))

    assert not is_open(breaker)
