"""A circuit breaker: a service that keeps failing is left alone, and found again when it is back."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta

from engram.clock import Clock
from engram.errors import EmbedderUnavailableError
from engram.limits import BREAKER_FAILURES_MAX, BREAKER_OPEN_S, BREAKER_OPEN_S_MAX


class CircuitBreaker:
    """Lets calls through until several in a row have failed, then one probe at a time.

    A probe that neither succeeds nor fails, because it was cancelled, gives its place back: the
    circuit can never stay open for want of a probe.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._open_s = float(BREAKER_OPEN_S)
        self._open_until: datetime | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Return whether the service is being left alone."""
        return self._open_until is not None and self._clock.now() < self._open_until

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Run the block as one call: it fails by raising EmbedderUnavailableError.

        Raises:
            EmbedderUnavailableError: the service is being left alone.
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
                "the embedding service keeps failing and is left alone for a while",
                retry_after_s=max(wait_s, 1.0),
            )
        self._probing = True

    def _record_success(self) -> None:
        self._failures = 0
        self._open_s = float(BREAKER_OPEN_S)
        self._open_until = None

    def _record_failure(self) -> None:
        self._failures += 1
        if self._failures < BREAKER_FAILURES_MAX:
            return
        self._open_until = self._clock.now() + timedelta(seconds=self._open_s)
        self._open_s = min(2 * self._open_s, float(BREAKER_OPEN_S_MAX))
