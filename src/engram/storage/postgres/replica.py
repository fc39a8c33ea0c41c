"""Read from a copy of the database that may lag behind, and never what is older than allowed.

Every write of an organisation raises its revision. A replica may answer when its snapshot shows the
revision that the primary had at most `staleness_s` seconds ago, and every one that this process has
written or seen. So it does not matter how servers copy, nor what their clocks say.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TypeVar

import psycopg

from engram.storage.postgres.connection import PostgresConnection
from engram.storage.postgres.failures import is_lost
from engram.storage.postgres.pool import Driver, Pool
from engram.storage.postgres.transactions import BehindError, OrganizationScope

T = TypeVar("T")

logger = logging.getLogger(__name__)

REST_S = 5.0
"""How long a replica that cannot be used is left alone."""

LAG_S = 5.0
"""A replica that answers nothing for so long is told of."""


class UnusableError(Exception):
    """The replica cannot answer; the primary can."""


class Replica:
    """Connections to a replica, and whether it can be used."""

    def __init__(
        self,
        pool: Pool,
        *,
        primary: Pool,
        staleness_s: float,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._pool = pool
        self._primary = primary
        self._staleness_s = staleness_s
        self._now = now
        self._health = _Health()
        self._rests_until = 0.0

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def read(self, scope: OrganizationScope, work: Callable[[PostgresConnection], T]) -> T:
        """Return what `work` makes of one snapshot of the replica.

        Raises:
            UnusableError: it cannot be reached, or lags behind.
            NotFoundError: the organisation was deleted, or `work` says so.
        """
        if self._now() < self._rests_until:
            raise UnusableError
        revision = self._needed_revision(scope)
        try:
            driver, connection = self._pool.begin(partial(scope.begin_read_of, revision=revision))
        except BehindError as exc:
            self._health.note_lag(self._now())
            raise UnusableError from exc
        except psycopg.Error as exc:
            self._leave_alone(exc)
            raise UnusableError from exc
        self._health.note_use()
        scope.seen.note(connection.revision)
        return self._work(driver, connection, work)

    def _work(
        self,
        driver: Driver,
        connection: PostgresConnection,
        work: Callable[[PostgresConnection], T],
    ) -> T:
        try:
            return work(connection)
        except psycopg.Error as exc:
            # A replica also ends reads of rows that its primary has removed.
            if is_lost(exc):
                self._leave_alone(exc)
            raise UnusableError from exc
        finally:
            self._pool.give_back(driver)

    def _needed_revision(self, scope: OrganizationScope) -> int:
        """Return what the replica has to show; the primary is asked if this is not known."""
        asking_at = self._now()
        if asking_at - scope.seen.newest_at >= self._staleness_s:
            driver, revision = self._primary.begin(scope.current_revision)
            self._primary.give_back(driver)
            scope.seen.note(revision, newest_at=asking_at)
        return scope.seen.revision

    def _leave_alone(self, error: psycopg.Error) -> None:
        self._rests_until = self._now() + REST_S
        self._health.note_loss(error)


class _Health:
    """What was said in the log of a replica, so that it is said once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_told = False
        self._lags_since: float | None = None

    def note_loss(self, error: psycopg.Error) -> None:
        self._tell("the replica cannot be used; the primary answers: %s", error)

    def note_lag(self, now: float) -> None:
        if self._lags_since is None:
            self._lags_since = now
        elif now - self._lags_since >= LAG_S:
            self._tell("the replica lags behind; the primary answers")

    def note_use(self) -> None:
        self._lags_since = None
        if self._is_told:
            with self._lock:
                self._is_told = False
            logger.info("the replica answers again")

    def _tell(self, message: str, *details: object) -> None:
        with self._lock:
            was_told, self._is_told = self._is_told, True
        if not was_told:
            logger.warning(message, *details)
