"""Long work in a thread pauses for short requests of other organisations, and is never starved."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from engram import limits, yielding
from engram.yielding import (
    ALLOWANCE_S_MAX,
    PAUSE_RATIO,
    PAUSE_S,
    SHORT_REQUEST_S,
    WORK_S,
    offload,
    serving,
    without_pauses,
)
from tests.fakes import Time
from tests.promises import promise


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    fake = Time()
    monkeypatch.setattr(yielding, "time", fake)
    return fake


def in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@promise("fair")
def test_work_pauses_while_the_request_of_another_is_short(time: Time) -> None:
    def work() -> None:
        with serving("org_other"), serving("org_own"):
            time.work(WORK_S)
            time.work(SHORT_REQUEST_S)

    in_a_thread(work)

    assert time.slept_s == pytest.approx(SHORT_REQUEST_S, abs=2 * WORK_S)


def test_work_does_not_pause_for_its_own_organisation(time: Time) -> None:
    def work() -> None:
        with serving("org_own"), serving("org_own"):
            time.work(WORK_S)

    in_a_thread(work)

    assert time.slept_s == 0


def test_work_does_not_pause_for_a_request_that_is_answered(time: Time) -> None:
    def work() -> None:
        with serving("org_other"):
            pass
        time.work(WORK_S)

    in_a_thread(work)

    assert time.slept_s == 0


@promise("fair")
def test_work_is_not_starved_by_requests_without_end(time: Time) -> None:
    rounds = 1_000

    def work() -> None:
        for _ in range(rounds):
            with serving("org_other"), serving("org_own"):
                time.work(WORK_S)

    in_a_thread(work)

    # A pause may end one step late.
    at_most = ALLOWANCE_S_MAX + rounds * (PAUSE_RATIO * WORK_S + PAUSE_S)
    assert 0 < time.slept_s <= at_most


def test_work_that_holds_up_its_organisation_does_not_pause(time: Time) -> None:
    def work() -> None:
        with serving("org_other"), serving("org_own"):
            with without_pauses():
                time.work(2 * WORK_S)
            assert time.slept_s == 0
            time.work(2 * WORK_S)

    in_a_thread(work)

    assert time.slept_s > 0


def test_the_event_loop_is_never_paused(time: Time) -> None:
    with serving("org_other"), serving("org_own"):
        time.work(WORK_S)

    assert time.slept_s == 0


async def test_work_whose_caller_was_cancelled_ends_where_it_yields() -> None:
    has_begun, has_ended = threading.Event(), threading.Event()

    def work() -> None:
        try:
            has_begun.set()
            while True:
                yielding.yield_to_others()
        finally:
            has_ended.set()

    waiting = asyncio.create_task(offload(work, characters=limits.LONG_TEXT_CHARACTERS + 1))
    await asyncio.to_thread(has_begun.wait, 30)

    waiting.cancel()

    assert await asyncio.to_thread(has_ended.wait, 30)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    after = await offload(lambda: "next", characters=limits.LONG_TEXT_CHARACTERS + 1)
    assert after == "next"
