"""Small real classes in place of time and chance."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta

from engram.clock import NANOID_LENGTH
from engram.yielding import yield_to_others

SOME_DAY = datetime(2026, 5, 8, 12, 0, tzinfo=UTC)


class FakeClock:
    """A clock that moves when it is told to."""

    def __init__(self, now: datetime = SOME_DAY) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def advance(self, step: timedelta) -> None:
        """Move the clock by `step`."""
        self._now += step


class SequentialIds:
    """Identifiers that count upwards."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers):0{NANOID_LENGTH}}"


class Time:
    """Time that passes only when somebody sleeps or works; stands for the module of that name."""

    def __init__(self) -> None:
        self.now = time.monotonic()  # threads may have looked at the real one before
        self.slept_s = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept_s += seconds

    def work(self, seconds: float) -> None:
        """Work for so long, then look whether others wait."""
        self.now += seconds
        yield_to_others()
