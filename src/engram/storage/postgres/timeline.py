"""Notice that another server has taken over, or an older state of this one was restored."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import psycopg

from engram.storage.postgres.pool import Driver
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/timeline.sql")

logger = logging.getLogger(__name__)


class TimelineWatch:
    """Calls `forget` when the history of the database has branched off.

    Without synchronous replication the new one may lack what this process has seen, and give the
    numbers of rows that are lost to others.
    """

    def __init__(self, forget: Callable[[], None]) -> None:
        self._forget = forget
        self._lock = threading.Lock()
        self._timeline: str | None = None

    def look(self, driver: Driver) -> None:
        """Look at a connection before it is used."""
        timeline = _timeline_of(driver)
        with self._lock:
            known, self._timeline = self._timeline, timeline
        if known not in (None, timeline):
            logger.warning("another server has taken over the database")
            self._forget()


def _timeline_of(driver: Driver) -> str | None:
    try:
        row = driver.execute(_SQL["timeline"].encode()).fetchone()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported):
        # Not every service lets its users ask.
        return None
    return None if row is None else row[0]
