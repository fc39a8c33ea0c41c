"""Write one SQLite file from one thread, the work of many callers to a commit.

The sync of a commit costs far more than a small write, so everything that queued up during one
commit shares the next. Nobody is answered before the commit that holds his work.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from engram import limits
from engram.storage.handoff import Ticket, deliver
from engram.storage.sqlite.connection import begin_write, close_writer
from engram.storage.sqlite.failures import release_cursors, translated_failures

_LONG_S = 0.01
_PAUSE_MAX_S = 0.002


@dataclass(frozen=True, slots=True)
class Write:
    """A piece of work and who waits for it."""

    work: Callable[[sqlite3.Connection], Any]
    ticket: Ticket[Any]


class GroupCommitWriter:
    """A thread that commits queued work in batches until it is told to stop."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        check: Callable[[sqlite3.Connection], None],
        name: str,
    ) -> None:
        self._connect = connect
        self._check = check
        self._connection: sqlite3.Connection | None = None
        self._queue: SimpleQueue[Write | None] = SimpleQueue()
        # A daemon: work that nobody was told about may die with the process.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, write: Write) -> None:
        """Queue work; its ticket is settled when it is durable or has failed."""
        self._queue.put(write)

    def stop(self) -> None:
        """Let the thread end after what was submitted so far."""
        self._queue.put(None)

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        is_stopping = False
        while not is_stopping:
            batch, is_stopping = self._next_batch()
            began = time.monotonic()
            self._commit([write for write in batch if not write.ticket.is_abandoned])
            deliver([write.ticket for write in batch])
            _let_others_in(held_s=time.monotonic() - began)
        self._disconnect()

    def _next_batch(self) -> tuple[list[Write], bool]:
        """Wait for work, take what else is queued, and say whether to stop after it."""
        batch: list[Write] = []
        item = self._queue.get()
        while item is not None:
            batch.append(item)
            if len(batch) == limits.WRITES_PER_COMMIT_MAX:
                return batch, False
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _commit(self, batch: list[Write]) -> None:
        """Do the batch in one transaction; when that fails, every piece of it has failed."""
        if not batch:
            return
        try:
            with translated_failures():
                self._transact(batch)
        except Exception as exc:  # noqa: BLE001 - it is the waiters', and the thread lives on
            for write in batch:
                write.ticket.fail(exc)
            # Closing rolls back, and leaves no doubt about the connection's state.
            self._disconnect()

    def _transact(self, batch: list[Write]) -> None:
        if self._connection is None:
            self._connection = self._connect()
        begin_write(self._connection)
        self._check(self._connection)
        for write in batch:
            _run_in_savepoint(self._connection, write)
        self._connection.execute("COMMIT")

    def _disconnect(self) -> None:
        if self._connection is not None:
            close_writer(self._connection)
            self._connection = None


def _let_others_in(*, held_s: float) -> None:
    """Pause after a long transaction, for a tenth of it at most.

    Other processes look for the lock every millisecond; without a pause they would have to hit
    the moment between two transactions of a process that has more work queued.
    """
    if held_s > _LONG_S:
        time.sleep(min(held_s / 10, _PAUSE_MAX_S))


def _run_in_savepoint(connection: sqlite3.Connection, write: Write) -> None:
    """Do one piece of work; its failure undoes that piece alone.

    Raises:
        EngramError: SQLite gave up the whole transaction, as it may when the disk is full.
    """
    connection.execute("SAVEPOINT work")
    try:
        with translated_failures():
            write.ticket.succeed(write.work(connection))
    except Exception as exc:
        if not connection.in_transaction:
            raise
        release_cursors(exc)
        connection.execute("ROLLBACK TO work")
        write.ticket.fail(exc)
    connection.execute("RELEASE work")
