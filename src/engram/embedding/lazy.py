"""Loading at first use, once, by whichever thread comes first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from engram.clock import Clock
from engram.errors import EmbedderUnavailableError
from engram.limits import MODEL_RETRY_S

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is loaded when it is first asked for.

    A failure is repeated for a few seconds without another look at the files: a damaged model
    would otherwise be read and hashed for every message. After that it is tried again.
    """

    def __init__(self, load: Callable[[], T], clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._lock = threading.Lock()
        self._value: T | None = None
        self._failure: tuple[str, datetime] | None = None

    @property
    def value(self) -> T | None:
        """Return what is loaded already."""
        return self._value

    @property
    def has_failed(self) -> bool:
        """Say whether it could not be loaded the last time."""
        return self._value is None and self._failure is not None

    def get(self) -> T:
        """Return the value, loading it when nobody has.

        Raises:
            EmbedderUnavailableError: it cannot be loaded, or could not a moment ago.
        """
        if self._value is None:
            with self._lock:
                self._value = self._value or self._loaded()
        return self._value

    def _loaded(self) -> T:
        if self._failure is not None:
            reason, until = self._failure
            if self._clock.now() < until:
                raise EmbedderUnavailableError(reason)
        try:
            return self._load()
        except EmbedderUnavailableError as exc:
            self._failure = exc.message, self._clock.now() + timedelta(seconds=MODEL_RETRY_S)
            raise
