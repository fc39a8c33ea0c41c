"""One SQLite file: a writer thread that groups commits, and a pool of read connections."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from engram import limits
from engram.errors import EngramError, NotFoundError, StorageError, StoreCorruptError
from engram.storage.bookkeeping.audited import Announce
from engram.storage.group_commit import Write
from engram.storage.handoff import Ticket
from engram.storage.sqlite.connection import (
    create_file,
    open_reader,
    open_writer,
    refuse_writes,
)
from engram.storage.sqlite.failures import primary_code, release_cursors, translated_failures
from engram.storage.sqlite.migrate import FileKind, load_migrations, migrate
from engram.storage.sqlite.owner import FileOwner
from engram.storage.sqlite.writer import GroupCommitWriter
from engram.storage.threads import WorkerThreads

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


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
        """Create the file if `create`, bring its schema forward and check its owner.

        Raises:
            NotFoundError: the file is missing, or its organisation was deleted.
            StoreNewerError, StoreReadOnlyError, StoreCorruptError, StorageError: unusable.
        """
        await self._threads.run(partial(self._prepare, create=create))

    async def read(self, work: Work[T]) -> T:
        """Return what `work` makes of one snapshot of the file.

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
        """Finish accepted work and close every idle connection; blocks.

        A resting file still serves whoever holds it, but keeps nothing open in between.
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
        """Refuse the file unless it is still there and its owner's."""
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
                release_cursors(exc)
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
