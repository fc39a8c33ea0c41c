"""When to try again: growing waits with jitter, or as long as the service asks for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from engram.limits import REMOTE_BACKOFF_S_MAX

FIRST_BACKOFF_S = 0.5

Sleep = Callable[[float], Awaitable[None]]


class Backoff:
    """The waits between the attempts of one call."""

    def __init__(
        self,
        *,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sleep = sleep
        self._chance = chance

    async def wait(self, attempt: int, *, asked_s: float | None) -> None:
        """Wait after failed attempt number `attempt`, counted from zero."""
        await self._sleep(self.delay_s(attempt, asked_s=asked_s))

    def delay_s(self, attempt: int, *, asked_s: float | None) -> float:
        """Return how long to wait: what was asked for, and at least half of the growing wait."""
        grown = FIRST_BACKOFF_S * 2**attempt
        # Jitter keeps processes that failed together from coming back together.
        jittered = grown * (0.5 + 0.5 * self._chance())
        return min(max(jittered, asked_s or 0.0), float(REMOTE_BACKOFF_S_MAX))


def parse_retry_after(value: str | None, *, now: datetime) -> float | None:
    """Return the seconds a `Retry-After` header asks for, in either of its forms."""
    if value is None:
        return None
    if value.isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max((moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds(), 0.0)
