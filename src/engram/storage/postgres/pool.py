"""The connections of one process to its database."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import psycopg

from engram.storage.postgres.connection import set_up
from engram.storage.postgres.failures import is_lost

Driver: TypeAlias = psycopg.Connection[Any]
T = TypeVar("T")

_IDLE_S = 300.0
"""How long a connection is kept that nobody uses."""


class Pool:
    """Connections that are opened by who needs one, and kept for the next.

    There are never more of them than threads that use them. Nothing is tried in the background:
    while the database is away, who asks learns so at once, and the first who asks after its return
    is served.
    """

    def __init__(
        self,
        address: str,
        *,
        look: Callable[[Driver], None] | None = None,
        statement_s: float = 0.0,
    ) -> None:
        """Keep connections to `address`, as `complete` has it; `look` is shown each new one.

        A statement may take `statement_s` seconds; 0 is without limit.
        """
        self._address = address
        self._statement_s = statement_s
        self._look = look
        self._lock = threading.Lock()
        self._idle: deque[tuple[float, Driver]] = deque()
        self._is_closed = False

    def close(self) -> None:
        """Close every connection; those in use are closed when they are given back."""
        self._is_closed = True
        self._drop_idle()

    def begin(self, start: Callable[[Driver], T]) -> tuple[Driver, T]:
        """Return a connection and what `start` returned when it began a transaction in it.

        A connection may have been lost while it was idle. Nothing has happened in it then, so a
        new one is tried.
        """
        idle = self._take_idle()
        if idle is not None:
            try:
                return idle, self._start(idle, start)
            except psycopg.Error as exc:
                if not is_lost(exc):
                    raise
            # The others are of the same server.
            self._drop_idle()
        driver = self._open()
        return driver, self._start(driver, start)

    def give_back(self, driver: Driver) -> None:
        """Take a connection back; a transaction that is open in it is rolled back."""
        if not driver.closed and not _is_at_rest(driver):
            _roll_back(driver)
        expired = list[Driver]()
        with self._lock:
            if driver.closed or self._is_closed:
                expired.append(driver)
            else:
                self._idle.append((monotonic(), driver))
            while self._idle and self._idle[0][0] < monotonic() - _IDLE_S:
                expired.append(self._idle.popleft()[1])
        _close(expired)

    def _start(self, driver: Driver, start: Callable[[Driver], T]) -> T:
        try:
            return start(driver)
        except BaseException as exc:
            if isinstance(exc, psycopg.Error) and is_lost(exc):
                driver.close()
            else:
                self.give_back(driver)
            raise

    def _open(self) -> Driver:
        driver = connect(self._address)
        try:
            set_up(driver, statement_s=self._statement_s)
            if self._look is not None:
                self._look(driver)
        except BaseException:
            driver.close()
            raise
        return driver

    def _take_idle(self) -> Driver | None:
        with self._lock:
            return self._idle.pop()[1] if self._idle else None

    def _drop_idle(self) -> None:
        with self._lock:
            idle = [driver for _, driver in self._idle]
            self._idle.clear()
        _close(idle)


def connect(address: str) -> Driver:
    """Return a connection with the rights of the user in `address`."""
    return psycopg.connect(address, autocommit=True)


def _is_at_rest(driver: Driver) -> bool:
    return driver.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _roll_back(driver: Driver) -> None:
    try:
        driver.rollback()
    except psycopg.Error:
        # Closing rolls back as well, and another is opened.
        driver.close()


def _close(drivers: list[Driver]) -> None:
    for driver in drivers:
        driver.close()
