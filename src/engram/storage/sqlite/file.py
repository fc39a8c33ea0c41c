"""One SQLite file: a writer thread that groups commits, and a pool of read connections."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from engram import limits
from engram.errors import (
    EngramError,
    NotFoundError,
    StorageError,
    StoreCorruptError,
    release_frames,
)
from engram.model.ids import OrganizationId
from engram.storage.bookkeeping.audit import Announce
from engram.storage.group_commit import Write, commit_together
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.connection import (
    begin_write,
    close_writer,
    create_file,
    open_reader,
    open_writer,
    primary_code,
    refuse_writes,
    translated_failures,
)
from engram.storage.sqlite.migrate import FileKind, load_migrations, migrate
from engram.storage.threads import Ticket, WorkerThreads

_SQL = load_queries("sqlite/file.sql")
_LONG_S = 0.01
"""A transaction of this time makes the writer pause."""
_PAUSE_MAX_S = 0.002

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


@dataclass(frozen=True, slots=True)
class FileOwner:
    """The organisation that a file belongs to: its number in every row, and its public id.

    Every transaction checks it. Deleting an organisation marks its file before unlinking it, so a
    process that still has the file open reads and commits nothing after the mark.
    """

    number: int
    id: OrganizationId

    def claim(self, connection: sqlite3.Connection) -> None:
        """Write the owner into a file that has none; another process may do the same."""
        if connection.execute(_SQL["get_owner"]).fetchone() is None:
            parameters = {"organization_id": self.number, "public_id": self.id}
            connection.execute(_SQL["claim_file"], parameters)

    def check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is deleted or belongs to another.

        Raises:
            NotFoundError: the organisation has been deleted.
            StoreCorruptError: the file names another owner.
        """
        row = connection.execute(_SQL["get_owner"]).fetchone()
        if row is None or row[:2] != (self.number, self.id):
            raise StoreCorruptError("the file belongs to another organisation: restore a backup")
        if row[2]:
            raise self.gone()

    def mark_deleted(self, connection: sqlite3.Connection) -> None:
        """Have every process refuse the file from now on."""
        connection.execute(_SQL["mark_deleted"], {"organization_id": self.number})

    def gone(self) -> NotFoundError:
        """Return the error for an organisation or file that was deleted."""
        return NotFoundError("organization", self.id)


class SqliteFile:
    """A database file that any number of event loops and processes use at once.

    Work is a function of a connection. It must not keep the connection, begin or end a
    transaction (`executescript` does), or return a cursor that is still to be read.
    """

    def __init__(
        self,
        path: Path,
        *,
        kind: FileKind,
        threads: WorkerThreads,
        owner: FileOwner | None = None,
        announce: Announce | None = None,
    ) -> None:
        self.path = path
        self._announce = announce
        self.owner = owner
        self.is_gone = False
        """Whether the file was seen to be deleted."""
        self._kind: FileKind = kind
        self._threads = threads
        self._lock = threading.Lock()
        self._writer: GroupCommitWriter | None = None
        self._idle_readers: deque[sqlite3.Connection] = deque()
        self._is_resting = True
        self._is_closed = False

    async def open(self, *, create: bool) -> None:
        """Create the file if `create`, migrate its schema and check its owner.

        Raises:
            NotFoundError: the file is missing, or its organisation was deleted.
            StoreNewerError, StoreReadOnlyError, StoreCorruptError, StorageError: unusable.
        """
        await self._threads.run(partial(self._prepare, create=create))

    async def read(self, work: Work[T]) -> T:
        """Return what `work` returns for one snapshot of the file.

        Raises:
            NotFoundError: the file's organisation was deleted, or `work` says so.
            StorageError: SQLite failed.
        """
        self._refuse_if_closed()
        return await self._threads.run(partial(self._read, work))

    async def write(self, work: Work[T]) -> T:
        """Return what `work` returns once its changes are durable; if it raises, it left none.

        A caller that is cancelled before its work began has it skipped, never done in part.

        Raises:
            NotFoundError: the file's organisation was deleted, or `work` says so.
            StorageError: SQLite failed, and nothing was stored.
        """
        ticket: Ticket[T] = Ticket()
        self._submit(Write(work, ticket, self._announce))
        return await ticket.future

    def rest(self) -> None:
        """Finish accepted work and close idle connections; blocks.

        The file can still be used, but keeps no connection open between uses.
        """
        with self._lock:
            self._is_resting = True
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.stop()
            writer.join()
        while self._idle_readers:
            self._idle_readers.pop().close()

    async def close(self) -> None:
        """Accept nothing more, finish what was accepted, and release the file."""
        with self._lock:
            self._is_closed = True
        await self._threads.run(self.rest)

    def _prepare(self, *, create: bool) -> None:
        with translated_failures():
            if create:
                create_file(self.path)
            connection = self._connect(open_writer)
            try:
                migrate(connection, load_migrations(self._kind))
                if self.owner is not None:
                    self.owner.claim(connection)
                self._check(connection)
                refuse_writes(connection)
            except BaseException:
                connection.close()
                raise
        self._is_resting = False
        self._give_back(connection)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse the file if it was deleted or belongs to another."""
        if self.owner is None:
            return
        try:
            self.owner.check(connection)
        except NotFoundError:
            self.is_gone = True
            raise

    def _connect(self, opener: Callable[[Path], sqlite3.Connection]) -> sqlite3.Connection:
        try:
            return opener(self.path)
        except sqlite3.OperationalError as exc:
            if primary_code(exc) != sqlite3.SQLITE_CANTOPEN or self.path.exists():
                raise
            self.is_gone = True
            raise self._missing() from exc

    def _missing(self) -> EngramError:
        if self.owner is None:
            return StoreCorruptError(f"the file {self.path.name} is missing: restore a backup")
        return self.owner.gone()

    def _submit(self, write: Write) -> None:
        with self._lock:
            self._refuse_if_closed()
            writer = self._writer or self._start_writer()
            writer.submit(write)
            if self._is_resting:
                writer.stop()
            else:
                self._writer = writer

    def _start_writer(self) -> GroupCommitWriter:
        connect = partial(self._connect, open_writer)
        return GroupCommitWriter(connect, check=self._check, name=f"engram-writer-{self.path.stem}")

    def _read(self, work: Work[Any]) -> Any:
        with translated_failures():
            connection = self._borrow()
            try:
                connection.execute("BEGIN")
                self._check(connection)
                return work(connection)
            except Exception as exc:
                # A cursor that is not read to its end keeps the connection at an old snapshot.
                release_frames(exc)
                raise
            finally:
                connection.rollback()
                self._give_back(connection)

    def _borrow(self) -> sqlite3.Connection:
        try:
            return self._idle_readers.pop()
        except IndexError:
            return self._connect(open_reader)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._is_resting and len(self._idle_readers) < limits.IDLE_READERS_MAX:
                self._idle_readers.append(connection)
                return
        connection.close()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise StorageError("the store has been closed")


class GroupCommitWriter:
    """A thread that commits queued writes in batches until it is stopped."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        check: Callable[[sqlite3.Connection], None],
        name: str,
    ) -> None:
        self._session = _SqliteSession(connect, check=check)
        self._queue: SimpleQueue[Write | None] = SimpleQueue()
        # A daemon: unanswered writes may be lost when the process ends.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, write: Write) -> None:
        """Queue a write; its ticket is settled when it is durable or has failed."""
        self._queue.put(write)

    def stop(self) -> None:
        """End the thread after the writes that were submitted so far."""
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
            batch.clear()  # or the texts of the last write would stay in memory until the next
            _let_others_in(held_s=time.monotonic() - began)
        self._session.close()

    def _next_batch(self) -> tuple[list[Write], bool]:
        """Wait for a write and take all that are queued; return True to stop after them."""
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
    """Pause after a long transaction, for a tenth of its time at most.

    Other processes try the lock every millisecond. Without a pause they would have to hit the
    instant between two transactions of a process that has more writes queued.
    """
    if held_s > _LONG_S:
        time.sleep(min(held_s / 10, _PAUSE_MAX_S))


class _SqliteSession:
    """The `WriteSession` of a writer thread; its connection is opened by the first write."""

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
        # SQLite may roll back the whole transaction, for example when the disk is full.
        if not self._opened.in_transaction:
            raise error
        # A cursor that is not read to its end keeps the connection at an old snapshot.
        release_frames(error)
        self._opened.execute("ROLLBACK TO work")

    def keep(self) -> None:
        self._opened.execute("RELEASE work")

    def commit(self) -> None:
        self._opened.execute("COMMIT")

    def abandon(self) -> None:
        # Closing rolls back, whatever state the connection is in.
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
