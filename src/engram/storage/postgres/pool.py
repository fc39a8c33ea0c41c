"""The connections of one process to its database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg_pool import ConnectionPool

from engram import limits
from engram.storage.postgres.connection import set_up
from engram.storage.postgres.failures import is_lost

Driver: TypeAlias = psycopg.Connection[Any]
T = TypeVar("T")

_OPTIONS: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": 10,
    "application_name": "engram",
}
_ATTEMPTS = 3


class Pool:
    """Connections that are opened as they are needed, and replaced when they are lost."""

    def __init__(self, url: str) -> None:
        self._pool: ConnectionPool[Driver] = ConnectionPool(
            url,
            kwargs=_OPTIONS,
            min_size=1,
            max_size=limits.READER_THREADS_MAX + limits.WRITER_THREADS_MAX,
            timeout=limits.STORE_BUSY_S,
            configure=set_up,
            open=False,
            name="engram",
        )

    def open(self) -> None:
        """Begin to connect."""
        self._pool.open()

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def begin(self, start: Callable[[Driver], T]) -> tuple[Driver, T]:
        """Return a connection and what `start` returned when it began a transaction in it.

        A connection may have been lost while it was idle. Nothing has happened in it then, so
        another one is tried.
        """
        for attempts_left in reversed(range(_ATTEMPTS)):
            driver = self._pool.getconn()
            try:
                return driver, start(driver)
            except BaseException as exc:
                self.give_back(driver)
                if not (isinstance(exc, psycopg.Error) and is_lost(exc) and attempts_left):
                    raise
            self._pool.check()
        raise AssertionError("the last attempt returns or raises")

    def give_back(self, driver: Driver) -> None:
        """Take a connection back; a transaction that is open in it is rolled back."""
        if (
            not driver.closed
            and driver.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
        ):
            _roll_back(driver)
        self._pool.putconn(driver)


def connect(url: str) -> Driver:
    """Return a connection with the rights of the user in `url`, for migrations."""
    return psycopg.connect(url, **_OPTIONS)


def _roll_back(driver: Driver) -> None:
    try:
        driver.rollback()
    except psycopg.Error:
        # Closing rolls back as well, and the pool opens another.
        driver.close()
