"""Write one SQLite file from one thread, the work of many callers to a commit."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue

from engram import limits
from engram.storage.group_commit import Write, commit_together
from engram.storage.sqlite.connection import begin_write, close_writer
from engram.storage.sqlite.failures import release_cursors, translated_failures

_LONG_S = 0.01
_PAUSE_MAX_S = 0.002


class GroupCommitWriter:
    """A thread that commits queued work in batches until it is told to stop."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        check: Callable[[sqlite3.Connection], None],
        name: str,
    ) -> None:
        self._session = _SqliteSession(connect, check=check)
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
            commit_together(batch, self._session)
            batch.clear()  # or the texts of the last write would stay until there is another
            _let_others_in(held_s=time.monotonic() - began)
        self._session.close()

    def _next_batch(self) -> tuple[list[Write], bool]:
        """Wait for work, take what else is queued, and return True to stop after it."""
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


def _let_others_in(*, held_s: float) -> None:
    """Pause after a long transaction, for a tenth of it at most.

    Other processes look for the lock every millisecond; without a pause they would have to hit
    the moment between two transactions of a process that has more work queued.
    """
    if held_s > _LONG_S:
        time.sleep(min(held_s / 10, _PAUSE_MAX_S))


class _SqliteSession:
    """The connection of one writer thread, opened when it is needed."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        check: Callable[[sqlite3.Connection], None],
    ) -> None:
        self._connect = connect
        self._check = check
        self._connection: sqlite3.Connection | None = None

    def translated_failures(self) -> AbstractContextManager[None]:
        return translated_failures()

    def begin(self, *, works: int) -> sqlite3.Connection:
        del works
        if self._connection is None:
            self._connection = self._connect()
        begin_write(self._connection)
        self._check(self._connection)
        return self._connection

    def mark(self) -> None:
        self._opened.execute("SAVEPOINT work")

    def undo(self, error: Exception) -> None:
        # SQLite may give up the whole transaction, as when the disk is full.
        if not self._opened.in_transaction:
            raise error
        release_cursors(error)
        self._opened.execute("ROLLBACK TO work")

    def keep(self) -> None:
        self._opened.execute("RELEASE work")

    def commit(self) -> None:
        self._opened.execute("COMMIT")

    def abandon(self) -> None:
        # Closing rolls back, and leaves no doubt about the connection's state.
        self.close()

    def close(self) -> None:
        """Release the file, if it is open."""
        if self._connection is not None:
            close_writer(self._connection)
            self._connection = None

    @property
    def _opened(self) -> sqlite3.Connection:
        assert self._connection is not None  # noqa: S101 - a transaction has begun
        return self._connection
