"""The `Database` of an organisation, or of the control tables: reads, replicas and group commits."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from time import monotonic, sleep
from typing import TypeVar

import psycopg

from engram import limits
from engram.errors import StorageError, StoreUnavailableError
from engram.storage.bookkeeping.audit import Announce
from engram.storage.group_commit import Write, commit_together
from engram.storage.postgres import connection as postgres
from engram.storage.postgres.connection import PostgresConnection
from engram.storage.postgres.pool import Pool, PooledTransaction
from engram.storage.postgres.transactions import Begun, BehindError, OrganizationScope, Scope
from engram.storage.rows.database import Connection
from engram.storage.threads import Ticket, WorkerThreads

T = TypeVar("T")

logger = logging.getLogger(__name__)

REST_S = 5.0
"""How long a replica that cannot be used is left alone."""

LAG_S = 5.0
"""A replica that lags for longer is logged."""

_STILL_HELD = (
    "PostgreSQL keeps deleted rows in its files until VACUUM has removed them and their pages are used again,"
    " and in its write-ahead log, replicas and base backups as long as these are kept"
)
_RETRY_S = 0.02
_IN_DOUBT = "the database was lost while it stored this, which may be done or not"


class PostgresDatabase:
    """The `Database` of a scope; an organisation is read from the replica when that can answer."""

    def __init__(
        self,
        scope: Scope,
        *,
        pool: Pool,
        readers: WorkerThreads,
        writers: WorkerThreads,
        announce: Announce | None = None,
        replica: Replica | None = None,
    ) -> None:
        self._scope = scope
        self._announce = announce
        self._pool = pool
        self._replica = replica
        self._readers = readers
        self._writes = WriteQueue(pool, writers, scope)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._readers.run(partial(self._read, work))

    async def write(self, work: Callable[[Connection], T]) -> T:
        ticket: Ticket[T] = Ticket()
        self._writes.submit(Write(work, ticket, self._announce))
        return await ticket.future

    async def rewrite(self) -> tuple[str, ...]:
        return ()

    @property
    def files(self) -> tuple[str, ...]:
        return ()

    @property
    def still_held(self) -> tuple[str, ...]:
        return (_STILL_HELD,)

    def _read(self, work: Callable[[Connection], T]) -> T:
        with postgres.translated_failures():
            if self._replica is not None and isinstance(self._scope, OrganizationScope):
                with suppress(UnusableError):
                    return self._replica.read(self._scope, work)
            return self._read_primary(work)

    def _read_primary(self, work: Callable[[Connection], T]) -> T:
        transaction, _ = self._pool.begin(self._scope.begin_read)
        try:
            return _read_in(transaction, work)
        finally:
            self._pool.give_back(transaction, has_read=True)


class UnusableError(Exception):
    """The replica cannot answer; the primary can."""


class Replica:
    """A copy of the database that may lag, and answers only what is recent enough.

    Every write of an organisation raises its revision. A replica may answer when its snapshot has the
    revision that the primary had at most `staleness_s` seconds ago, and every one that this process
    has written or seen. So neither the way of replication nor the clocks of servers matter.
    """

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
            found = self._read(partial(scope.begin_read_of, revision=revision), work)
        except BehindError as exc:
            self._health.note_lag(self._now())
            raise UnusableError from exc
        except psycopg.Error as exc:
            # A replica also cancels reads of rows that its primary has removed.
            if postgres.is_lost(exc):
                self._leave_alone(exc)
            raise UnusableError from exc
        self._health.note_use()
        return found

    def _read(
        self,
        begin: Callable[[PooledTransaction], None],
        work: Callable[[PostgresConnection], T],
    ) -> T:
        transaction, _ = self._pool.begin(begin)
        try:
            return _read_in(transaction, work)
        finally:
            self._pool.give_back(transaction, has_read=True)

    def _needed_revision(self, scope: OrganizationScope) -> int:
        """Return the revision the replica must have; ask the primary if that is not known."""
        asking_at = self._now()
        if asking_at - scope.seen.newest_at >= self._staleness_s:
            transaction, _ = self._primary.begin(scope.begin_read)
            try:
                scope.seen.note(transaction.revision, newest_at=asking_at)
            finally:
                self._primary.give_back(transaction, has_read=True)
        return scope.seen.revision

    def _leave_alone(self, error: psycopg.Error) -> None:
        self._rests_until = self._now() + REST_S
        self._health.note_loss(error)


class _Health:
    """Logs a loss of the replica once, until it is used again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_logged = False
        self._lags_since: float | None = None

    def note_loss(self, error: psycopg.Error) -> None:
        self._warn("the replica cannot be used; the primary answers: %s", error)

    def note_lag(self, now: float) -> None:
        if self._lags_since is None:
            self._lags_since = now
        elif now - self._lags_since >= LAG_S:
            self._warn("the replica lags behind; the primary answers")

    def note_use(self) -> None:
        self._lags_since = None
        if self._is_logged:
            with self._lock:
                self._is_logged = False
            logger.info("the replica answers again")

    def _warn(self, message: str, *details: object) -> None:
        with self._lock:
            was_logged, self._is_logged = self._is_logged, True
        if not was_logged:
            logger.warning(message, *details)


class WriteQueue:
    """Writes that wait for their turn in a scope; one thread at a time commits them in groups."""

    def __init__(self, pool: Pool, threads: WorkerThreads, scope: Scope) -> None:
        self._pool = pool
        self._threads = threads
        self._scope = scope
        self._lock = threading.Lock()
        self._waiting: deque[Write] = deque()
        self._is_served = False

    def submit(self, write: Write) -> None:
        """Queue a write; its ticket is settled when it is durable or has failed.

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
            commit_together(batch, _WriteSession(self._pool, self._scope))
            if self._let_others_in():
                return

    def _next_batch(self) -> list[Write]:
        with self._lock:
            count = min(len(self._waiting), limits.WRITES_PER_COMMIT_MAX)
            self._is_served = count > 0
            return [self._waiting.popleft() for _ in range(count)]

    def _let_others_in(self) -> bool:
        """Queue behind the work of other organisations, unless the threads are about to end."""
        try:
            self._threads.start(self._serve)
        except StorageError:
            return False
        return True


class _WriteSession:
    """The `WriteSession` of one transaction on a connection of the pool."""

    def __init__(self, pool: Pool, scope: Scope) -> None:
        self._pool = pool
        self._scope = scope
        self._transaction: PooledTransaction | None = None
        self._begun: Begun
        self._is_alone = True

    def translated_failures(self) -> AbstractContextManager[None]:
        return postgres.translated_failures()

    def begin(self, *, works: int) -> PostgresConnection:
        self._transaction, self._begun = self._pool.begin(self._scope.begin_write)
        # A single piece of work needs no savepoint: it is undone with its transaction.
        self._is_alone = works == 1
        return self._transaction

    def mark(self) -> None:
        if not self._is_alone:
            self._open.mark()

    def flush(self) -> None:
        # What fails in a single piece of work is heard of with the answer to the commit.
        if not self._is_alone:
            self._open.wait()

    def undo(self, error: Exception) -> None:
        if self._is_alone:
            raise error
        self._open.undo()

    def keep(self) -> None:
        if not self._is_alone:
            self._open.keep()

    def commit(self) -> None:
        committing_at = monotonic()
        try:
            self._open.commit()
        except psycopg.Error as exc:
            if not postgres.is_lost(exc) or not was_committed(self._pool, self._scope, self._begun):
                raise
            logger.info("a commit was proved after its connection was lost")
        self._scope.note_write(self._begun, at=committing_at)
        self.abandon()

    def abandon(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            self._pool.give_back(transaction)

    @property
    def _open(self) -> PooledTransaction:
        if self._transaction is None:
            raise StorageError("there is no transaction")
        return self._transaction


def _read_in(transaction: PooledTransaction, work: Callable[[PostgresConnection], T]) -> T:
    """Return what `work` makes of a transaction that has begun, whether it reads an answer or not."""
    found = work(transaction)
    _ = transaction.revision
    return found


def was_committed(pool: Pool, scope: Scope, begun: Begun) -> bool:
    """Ask the database, or its successor, whether a transaction was committed.

    Raises:
        StoreUnavailableError: it does not say in time, so the write may be done or not.
    """
    deadline = monotonic() + limits.STORE_DOUBT_S
    while True:
        try:
            outcome = _find_write(pool, scope, begun)
        except psycopg.Error as exc:
            if not postgres.is_lost(exc) or monotonic() > deadline:
                raise StoreUnavailableError(_IN_DOUBT) from exc
            sleep(_RETRY_S)
        else:
            break
    if outcome is None:
        raise StoreUnavailableError(_IN_DOUBT)
    return outcome


def _find_write(pool: Pool, scope: Scope, begun: Begun) -> bool | None:
    transaction, outcome = pool.begin(partial(scope.find_write, begun=begun))
    try:
        # After a crash a server may have what its standbys lack. The query took a row lock, so this
        # COMMIT waits for the standbys as that of a write does.
        transaction.commit()
    finally:
        pool.give_back(transaction)
    return outcome
