"""Calls to remote services: endpoint URLs, bounded responses, backoff and a circuit breaker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit, urlunsplit

from engram import limits
from engram.clock import Clock
from engram.errors import EmbedderUnavailableError, EngramError

FIRST_BACKOFF_S = 0.5

Sleep = Callable[[float], Awaitable[None]]


def endpoint_url(url: str, operation: str) -> str:
    """Return the URL of an operation; `url` may be a bare host, a base path or the full URL."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/") or "/v1"
    path = path if path.endswith(f"/{operation}") else f"{path}/{operation}"
    return urlunsplit(parts._replace(path=path))


async def read_bounded(
    chunks: AsyncIterable[bytes], *, bytes_max: int, too_large: EngramError
) -> bytes:
    """Return the body of a response.

    Raises:
        EngramError: `too_large`, if it is longer than `bytes_max`.
    """
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > bytes_max:
            raise too_large
    return bytes(body)


def parse_retry_after(value: str | None, *, now: datetime) -> float | None:
    """Return the seconds of a `Retry-After` header in either of its forms; None if invalid."""
    if value is None:
        return None
    if value.isdecimal():
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max((moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds(), 0.0)


class Backoff:
    """Exponential backoff with jitter that respects `Retry-After`."""

    def __init__(
        self,
        *,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sleep = sleep
        self._chance = chance

    async def wait(self, attempt: int, *, retry_after_s: float | None) -> None:
        """Wait after failed attempt number `attempt`, counted from zero."""
        await self._sleep(self.delay_s(attempt, retry_after_s=retry_after_s))

    def delay_s(self, attempt: int, *, retry_after_s: float | None) -> float:
        """Return the longer of the backoff and the service's own wish, within the bound."""
        grown = FIRST_BACKOFF_S * 2**attempt
        # Jitter keeps processes that failed together from retrying together.
        jittered = grown * (0.5 + 0.5 * self._chance())
        return min(max(jittered, retry_after_s or 0.0), float(limits.REMOTE_BACKOFF_S_MAX))


class CircuitBreaker:
    """Opens after several consecutive failures, then lets one probe through at a time.

    A probe that neither succeeds nor fails, because it was cancelled, frees its slot: the circuit
    cannot stay open for want of a probe.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._open_s = float(limits.BREAKER_OPEN_S)
        self._open_until: datetime | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Return True while calls are refused."""
        return self._open_until is not None and self._clock.now() < self._open_until

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Run the block as one call, which fails by raising EmbedderUnavailableError.

        Raises:
            EmbedderUnavailableError: the circuit is open.
        """
        self._enter()
        try:
            yield
        except EmbedderUnavailableError:
            self._record_failure()
            raise
        else:
            self._record_success()
        finally:
            self._probing = False

    def _enter(self) -> None:
        if self._open_until is None:
            return
        wait_s = (self._open_until - self._clock.now()).total_seconds()
        if wait_s > 0 or self._probing:
            raise EmbedderUnavailableError(
                "the embedding service keeps failing; calls to it are suspended for a while",
                retry_after_s=max(wait_s, 1.0),
            )
        self._probing = True

    def _record_success(self) -> None:
        self._failures = 0
        self._open_s = float(limits.BREAKER_OPEN_S)
        self._open_until = None

    def _record_failure(self) -> None:
        self._failures += 1
        if self._failures < limits.BREAKER_FAILURES_MAX:
            return
        self._open_until = self._clock.now() + timedelta(seconds=self._open_s)
        self._open_s = min(2 * self._open_s, float(limits.BREAKER_OPEN_S_MAX))
