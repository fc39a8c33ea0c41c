"""The pool of connections, and transactions that wait for the server only where an answer is read.

Statements are sent one by one as they come, in the pipeline mode of the protocol. Who reads an answer
waits for all that was sent before. What nobody reads is heard of with the next answer, or with that of the
commit: a statement that fails has all later ones skipped, the commit too. No transaction leaves
anything behind in a session, so a pooler may give every one of them another server connection.
"""

from __future__ import annotations

import selectors
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from engram.errors import StorageError
from engram.storage.postgres.connection import (
    Check,
    Driver,
    PostgresConnection,
    Send,
    adapt,
    connect,
    is_lost,
    texts_of,
    transaction_settings,
)
from engram.storage.rows.database import Cursor, RemoteConnection

T = TypeVar("T")

_IDLE_S = 300.0
"""How long an unused connection is kept."""


_LEFT_S = 1.0
"""How long the answers that are left are waited for when a connection is closed."""


class Line:
    """A connection in pipeline mode, from its opening to its end."""

    def __init__(
        self, driver: Driver, settings: Mapping[str, str], *, is_pooled: bool = False
    ) -> None:
        self.driver = driver
        self._is_pooled = is_pooled
        self.settings = settings
        """What every transaction is given."""
        self._mode = driver.pipeline()
        self._pipeline = self._mode.__enter__()

    def wait(self) -> None:
        """Return when the server has done all that was sent.

        Raises:
            psycopg.Error: a statement failed, and those after it were skipped.
        """
        self._send_rest()
        self._pipeline.sync()

    def _send_rest(self) -> None:
        """Send what the socket has not taken yet: the driver sends it only as far as there is room at once.

        Waiting for an answer before that would be waiting for ever.
        """
        connection = self.driver.pgconn
        if self.driver.closed or not connection.flush():
            return
        with selectors.DefaultSelector() as selector:
            selector.register(self.driver, selectors.EVENT_READ | selectors.EVENT_WRITE)
            while connection.flush():
                # A server whose answers nobody takes does not read either.
                if any(events & selectors.EVENT_READ for _, events in selector.select()):
                    connection.consume_input()

    def settle(self) -> None:
        """Hear the answers that are left, whatever they say."""
        while self._pipeline.result_queue:
            try:
                self.wait()
            except psycopg.Error:
                if self.driver.broken:
                    raise

    def forget_prepared(self) -> None:
        """Prepare statements anew: those that were to be prepared after a failure have been skipped."""
        # The driver does so by itself after a rollback, and not after one to a savepoint.
        self.driver._prepared.clear()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] as said

    def end_reading(self) -> None:
        """Commit what has only read, and leave the answer to the next user of the connection.

        A pooler may give the session to another client as soon as the server has committed, and with it
        what was sent already of the next transaction: there the answer is waited for.
        """
        # With a rollback the driver would drop all prepared statements of the connection.
        self.driver.execute(b"COMMIT", prepare=False)
        if self._is_pooled:
            self.wait()
            return
        self.driver.pgconn.pipeline_sync()
        self._pipeline.result_queue.append(None)

    def roll_back(self) -> None:
        """Undo a transaction that is open, if there is one."""
        self.settle()
        if self.driver.info.transaction_status != TransactionStatus.IDLE:
            self.driver.rollback()

    def hang_up(self) -> None:
        """Close the connection after the answers that are left: a server takes unread ones for a loss."""
        if self._pipeline.result_queue and not self.driver.closed:
            with selectors.DefaultSelector() as selector, suppress(psycopg.Error):
                selector.register(self.driver, selectors.EVENT_READ)
                selector.select(_LEFT_S)
                self.driver.pgconn.consume_input()
        self.close()

    def close(self) -> None:
        """Close the connection, which rolls back."""
        self.driver.close()
        # The driver says that it cannot leave the mode of a connection that is closed.
        with suppress(psycopg.Error):
            self._mode.__exit__(None, None, None)


class Answer:
    """The result of a statement, for which the first who reads it waits."""

    __slots__ = ("_cursor", "_transaction", "send")

    def __init__(self, transaction: PooledTransaction, send: Send) -> None:
        self._transaction = transaction
        self.send = send
        self._cursor: psycopg.Cursor[Any]

    def send_to(self, line: Line) -> None:
        """Send the statement, once or again."""
        self._cursor = self.send(line.driver)

    @property
    def rowcount(self) -> int:
        return self._heard().rowcount

    @property
    def status(self) -> str | None:
        """What the statement has done."""
        return self._heard().statusmessage

    def fetchone(self) -> Any:
        return self._heard().fetchone()

    def fetchall(self) -> list[Any]:
        return self._heard().fetchall()

    def __iter__(self) -> Iterator[Any]:
        yield from self._heard()

    def _heard(self) -> psycopg.Cursor[Any]:
        if self._cursor.pgresult is None:
            self._transaction.wait()
        return self._cursor


class PooledTransaction(PostgresConnection, RemoteConnection):
    """A transaction on a connection of the pool."""

    def __init__(self, line: Line, *, replace: Callable[[], Line] | None = None) -> None:
        """Use a connection; `replace` returns another, if this one may have been lost while it was idle."""
        super().__init__(line.driver)
        self._line = line
        self._replace = replace
        self._sent: list[Answer] = []
        """What was sent before the first answer; if there never is one, nothing has happened."""
        self._ahead: list[tuple[str, Mapping[str, Any], Cursor]] = []
        """Statements whose answers will be asked for."""
        self._begun: tuple[Cursor, Check] | None = None
        """The answer to the beginning, until it is checked."""
        self._is_unheard = False
        self._failure: Exception | None = None
        self._is_refused = False

    @property
    def revision(self) -> int:
        self._hear_of_beginning()
        return self._revision

    def begin(self, statements: str, values: Mapping[str, Any], check: Check) -> None:
        """Begin a transaction; whoever waits first is told what `check` raises."""
        first, *rest = texts_of(statements)
        self._ask_first(first, values)
        self._ask(partial(_set_locally, settings=self._line.settings))
        *_, last = [self._ask_first(text, values) for text in rest]
        self._begun = last, check

    def execute(self, statement: str, values: Mapping[str, Any] | Sequence[Any] = (), /) -> Cursor:
        for place, (asked, given, answer) in enumerate(self._ahead):
            if asked == statement and given == values:
                del self._ahead[place]
                return answer
        return super().execute(statement, values)

    def ask_ahead(
        self,
        statement: str,
        values: Mapping[str, Any],
        /,
        *,
        instead_of: Sequence[tuple[str, Mapping[str, Any]]] = (),
    ) -> None:
        answer = super().execute(statement, values)
        self._ahead += [(*each, answer) for each in instead_of or [(statement, values)]]

    def run_together(self, statements: str, values: Mapping[str, Any], /) -> tuple[Any, ...] | None:
        *_, last = [self._ask_first(text, values) for text in texts_of(statements)]
        return last.fetchone()

    def wait(self) -> None:
        """Return when the server has done all that was sent.

        Raises:
            psycopg.Error: a statement failed, now or before; the transaction can only be undone.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self._hear()
            self._check_beginning()
        except Exception as exc:
            self._failure = exc
            raise

    def commit(self) -> None:
        """Commit, and return when that is durable."""
        self._hear_of_beginning()
        if self._ask(partial(_run, text=b"COMMIT")).status != "COMMIT":
            raise StorageError("the transaction had failed before")

    def mark(self) -> None:
        """Set a savepoint."""
        self._ahead.clear()
        self._ask(partial(_run, text=b"SAVEPOINT work"))

    def keep(self) -> None:
        """Release the savepoint."""
        self._ask(partial(_run, text=b"RELEASE work"))

    def undo(self) -> None:
        """Roll back to the savepoint; raise if the transaction cannot go on."""
        if self._is_refused and self._failure is not None:
            raise self._failure
        self._line.settle()
        if self._failure is not None:
            self._failure = None
            self._line.forget_prepared()
        self._ask(partial(_run, text=b"ROLLBACK TO work"))

    def end(self, *, has_read: bool) -> Line:
        """End the transaction if it is open; return its connection."""
        line = self._line
        is_heard = not self._is_unheard and self._failure is None
        try:
            if has_read and is_heard:
                line.end_reading()
            else:
                line.roll_back()
        except psycopg.Error:
            # Closing rolls back as well, and another is opened.
            line.close()
        self._failure = None
        return line

    def _ask(self, send: Send) -> Answer:
        if self._failure is not None:
            raise self._failure
        answer = Answer(self, send)
        self._is_unheard = True
        if self._replace is not None:
            self._sent.append(answer)
        try:
            answer.send_to(self._line)
        except psycopg.Error as exc:
            self._failure = exc
            self._begin_again(exc)
            self._failure = None
        return answer

    def _hear(self) -> None:
        try:
            self._line.wait()
        except psycopg.Error as exc:
            self._begin_again(exc)
            self._line.wait()
        self._replace = None
        self._sent.clear()
        self._is_unheard = False

    def _begin_again(self, error: psycopg.Error) -> None:
        """Send everything to another connection if this one was lost before its first answer, else raise."""
        if self._replace is None or not is_lost(error):
            raise error
        self._line.close()
        self._line, self._replace = self._replace(), None
        for answer in self._sent:
            answer.send_to(self._line)

    def _hear_of_beginning(self) -> None:
        if self._begun is not None:
            self.wait()

    def _check_beginning(self) -> None:
        if self._begun is None:
            return
        answer, check = self._begun
        self._begun = None
        try:
            self._revision = check(answer.fetchone())
        except Exception:
            self._is_refused = True
            raise


_SETTINGS = b"""
SELECT set_config('role', %(role)s, true), set_config('search_path', %(search_path)s, true),
    set_config('lock_timeout', %(lock_timeout)s, true),
    set_config('statement_timeout', %(statement_timeout)s, true),
    set_config('idle_in_transaction_session_timeout', %(idle_in_transaction_session_timeout)s, true)
"""


def _set_locally(driver: Driver, *, settings: Mapping[str, str]) -> psycopg.Cursor[Any]:
    return driver.execute(_SETTINGS, settings)


def _run(driver: Driver, *, text: bytes) -> psycopg.Cursor[Any]:
    return driver.execute(text, prepare=False)


class Pool:
    """Connections that are opened on demand, and kept for the next user.

    There are never more than threads that use them. Nothing is retried in the background: while the
    database is away callers fail at once, and the first call after its return is served.
    """

    def __init__(
        self,
        address: str,
        *,
        look: Callable[[Driver], None] | None = None,
        statement_s: float = 0.0,
    ) -> None:
        """Connect to `address`, as `complete` returns it; `look` is called with each new connection.

        A statement may take `statement_s` seconds; 0 is without limit.
        """
        self._address = address
        self._statement_s = statement_s
        self._look = look
        self._lock = threading.Lock()
        self._idle: deque[tuple[float, Line]] = deque()
        self._is_closed = False

    def close(self) -> None:
        """Close every connection; those in use are closed when they are given back."""
        self._is_closed = True
        self._drop_idle()

    def begin(self, start: Callable[[PooledTransaction], T]) -> tuple[PooledTransaction, T]:
        """Return a transaction, and what `start` returned when it began it."""
        idle = self._take_idle()
        if idle is None:
            transaction = PooledTransaction(self._open())
        else:
            transaction = PooledTransaction(idle, replace=self._replace_lost)
        try:
            return transaction, start(transaction)
        except BaseException:
            self.give_back(transaction)
            raise

    def give_back(self, transaction: PooledTransaction, *, has_read: bool = False) -> None:
        """Take a connection back, and roll back the transaction if it is open.

        With `has_read` it is committed, and nobody waits for that.
        """
        line = transaction.end(has_read=has_read)
        expired = list[Line]()
        with self._lock:
            if self._is_closed or line.driver.closed:
                expired.append(line)
            else:
                self._idle.append((monotonic(), line))
            while self._idle and self._idle[0][0] < monotonic() - _IDLE_S:
                expired.append(self._idle.popleft()[1])
        _close(expired)

    def _open(self) -> Line:
        driver = connect(self._address)
        try:
            adapt(driver)
            is_pooled = _is_pooled(driver)
            if is_pooled:
                # Another session has not what was prepared in one.
                driver.prepare_threshold = None
            settings = transaction_settings(driver, statement_s=self._statement_s)
            if self._look is not None:
                self._look(driver)
            return Line(driver, settings, is_pooled=is_pooled)
        except BaseException:
            driver.close()
            raise

    def _replace_lost(self) -> Line:
        # The others are connections to the same server.
        self._drop_idle()
        return self._open()

    def _take_idle(self) -> Line | None:
        with self._lock:
            return self._idle.pop()[1] if self._idle else None

    def _drop_idle(self) -> None:
        with self._lock:
            idle = [line for _, line in self._idle]
            self._idle.clear()
        _close(idle)


def _is_pooled(driver: Driver) -> bool:
    """Return True if a pooler is in between, which names another session than the one that answers."""
    row = driver.execute(b"SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] != driver.info.backend_pid


def _close(lines: Iterable[Line]) -> None:
    for line in lines:
        line.hang_up()
