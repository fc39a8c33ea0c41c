"""Write in one scope, the work of many callers to a commit, from whichever thread is free."""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import AbstractContextManager
from functools import partial
from time import monotonic, sleep

import psycopg

from engram import limits
from engram.errors import StorageError, StoreUnavailableError
from engram.storage.group_commit import Write, commit_together
from engram.storage.postgres.connection import PostgresConnection
from engram.storage.postgres.failures import is_lost, translated_failures
from engram.storage.postgres.pool import Driver, Pool
from engram.storage.postgres.transactions import Begun, Scope
from engram.storage.threads import WorkerThreads

_LOOK_S = 0.02
_IN_DOUBT = "the database was lost while it stored this, which may be done or not"


def was_committed(pool: Pool, scope: Scope, begun: Begun) -> bool:
    """Ask the database, or the one that takes over from it, for as long as callers can wait.

    Raises:
        StoreUnavailableError: it does not say, so the work may be done or not.
    """
    deadline = monotonic() + limits.STORE_DOUBT_S
    while True:
        try:
            outcome = _ask(pool, scope, begun)
        except psycopg.Error as exc:
            if not is_lost(exc) or monotonic() > deadline:
                raise StoreUnavailableError(_IN_DOUBT) from exc
            sleep(_LOOK_S)
        else:
            break
    if outcome is None:
        raise StoreUnavailableError(_IN_DOUBT)
    return outcome


def _ask(pool: Pool, scope: Scope, begun: Begun) -> bool | None:
    driver, outcome = pool.begin(partial(scope.find_write, begun=begun))
    try:
        # What a server has after a crash need not be on its standbys yet. The question took a
        # lock, which makes this commit wait for them as that of a write does.
        driver.execute(b"COMMIT")
    finally:
        pool.give_back(driver)
    return outcome


logger = logging.getLogger(__name__)


class WriteQueue:
    """Work that waits to be done in a scope; one thread at a time does it."""

    def __init__(self, pool: Pool, threads: WorkerThreads, scope: Scope) -> None:
        self._pool = pool
        self._threads = threads
        self._scope = scope
        self._lock = threading.Lock()
        self._waiting: deque[Write] = deque()
        self._is_served = False

    def submit(self, write: Write) -> None:
        """Queue work; its ticket is settled when it is durable or has failed.

        Raises:
            StorageError: the store has been closed.
        """
        with self._lock:
            if not self._is_served:
                self._threads.start(self._serve)
                self._is_served = True
            self._waiting.append(write)

    def _serve(self) -> None:
        while batch := self._next_batch():
            commit_together(batch, _PostgresSession(self._pool, self._scope))
            if self._let_others_in():
                return

    def _next_batch(self) -> list[Write]:
        with self._lock:
            count = min(len(self._waiting), limits.WRITES_PER_COMMIT_MAX)
            self._is_served = count > 0
            return [self._waiting.popleft() for _ in range(count)]

    def _let_others_in(self) -> bool:
        """Go on behind the work of other organisations, unless the threads are about to end."""
        try:
            self._threads.start(self._serve)
        except StorageError:
            return False
        return True


class _PostgresSession:
    """One transaction on a connection of the pool."""

    def __init__(self, pool: Pool, scope: Scope) -> None:
        self._pool = pool
        self._scope = scope
        self._driver: Driver | None = None
        self._begun: Begun
        self._is_alone = True

    def translated_failures(self) -> AbstractContextManager[None]:
        return translated_failures()

    def begin(self, *, works: int) -> PostgresConnection:
        self._driver, self._begun = self._pool.begin(self._scope.begin_write)
        # A piece of work that is alone is undone with its transaction.
        self._is_alone = works == 1
        return self._begun.connection

    def mark(self) -> None:
        if not self._is_alone:
            self._execute(b"SAVEPOINT work")

    def undo(self, error: Exception) -> None:
        if self._is_alone:
            raise error
        self._execute(b"ROLLBACK TO work")

    def keep(self) -> None:
        if not self._is_alone:
            self._execute(b"RELEASE work")

    def commit(self) -> None:
        committing_at = monotonic()
        try:
            status = self._execute(b"COMMIT")
        except psycopg.Error as exc:
            if not is_lost(exc) or not was_committed(self._pool, self._scope, self._begun):
                raise
            logger.info("a commit was proved after its connection was lost")
        else:
            if status != "COMMIT":
                raise StorageError("the transaction had failed before")
        self._scope.note_write(self._begun, at=committing_at)
        self.abandon()

    def abandon(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            self._pool.give_back(driver)

    def _execute(self, statement: bytes) -> str | None:
        if self._driver is None:
            raise StorageError("there is no transaction")
        return self._driver.execute(statement).statusmessage
