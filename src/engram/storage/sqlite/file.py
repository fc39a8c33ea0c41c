"""One SQLite file: a writer thread that groups commits, and a pool of read connections."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Any, NamedTuple, TypeVar

from engram import limits
from engram.errors import (
    EngramError,
    NotFoundError,
    StorageError,
    StoreCorruptError,
    StoreMovedError,
    StoreReplacedError,
    release_frames,
)
from engram.model.ids import OrganizationId
from engram.storage.bookkeeping.audit import Announce
from engram.storage.bookkeeping.chain import gather_hashes
from engram.storage.group_commit import Write, commit_together
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.connection import (
    WatchingConnection,
    begin_write,
    close_writer,
    create_file,
    open_anywhere,
    open_reader,
    open_writer,
    primary_code,
    refuse_writes,
    translated_failures,
    wait_ourselves,
)
from engram.storage.sqlite.copies import remove_copies
from engram.storage.sqlite.descriptors import OPEN_CONNECTIONS
from engram.storage.sqlite.history import (
    History,
    OpenMark,
    Position,
    find_fault,
    first_position,
)
from engram.storage.sqlite.migrate import FileKind, load_migrations, migrate, version_of
from engram.storage.sqlite.rewriting import write_anew
from engram.storage.threads import Inbox, Scheduler, ThreadTicket, Ticket, WorkerThreads

_SQL = load_queries("sqlite/file.sql")
MARKED_SINCE: dict[FileKind, int] = {"control": 7, "organization": 16}
"""The first version of each schema that has a mark."""
_LONG_S = 0.01
"""A transaction of this time makes the writer pause."""
_PAUSE_MAX_S = 0.002

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class Meta(NamedTuple):
    """The one row in which a file says what it is."""

    file_id: bytes | None
    commits: int
    appended: int
    chain: bytes
    number: int | None = None
    """Of the organisation; None in the control file."""
    public_id: str | None = None
    is_deleted: int = 0
    moved_to: str | None = None
    """The address of the database that an organisation was moved to."""

    @property
    def position(self) -> Position | None:
        """How far its history has come; None before it has begun."""
        if self.file_id is None:
            return None
        return Position(self.file_id, self.commits, self.appended, self.chain)

    def refuse_moved(self) -> None:
        """Refuse to write what was moved.

        Raises:
            StoreMovedError: it was.
        """
        if self.moved_to is not None:
            raise StoreMovedError(self.moved_to)


def read_meta(connection: sqlite3.Connection, kind: FileKind) -> Meta | None:
    """Return what a file says of itself; None before it says anything."""
    row = connection.execute(_SQL[kind]).fetchone()
    return None if row is None else Meta(*row)


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
        parameters = {"organization_id": self.number, "public_id": self.id}
        connection.execute(_SQL["claim_file"], parameters)

    def check(self, meta: Meta | None) -> None:
        """Refuse a file that is deleted or belongs to another.

        Raises:
            NotFoundError: the organisation has been deleted.
            StoreCorruptError: the file names another owner.
        """
        if meta is None or (meta.number, meta.public_id) != (self.number, self.id):
            raise StoreCorruptError(
                "the file belongs to another organisation: restore a backup (`engram restore`)"
            )
        if meta.is_deleted:
            raise self.gone()

    def mark_deleted(self, connection: sqlite3.Connection) -> None:
        """Have every process refuse the file from now on."""
        connection.execute(_SQL["mark_deleted"], {"organization_id": self.number})

    def seal(self, connection: sqlite3.Connection, *, moved_to: str | None) -> None:
        """Have every process refuse to write, and name the database that replaces the file.

        None for `moved_to` lifts the seal.
        """
        values = {"organization_id": self.number, "moved_to": moved_to}
        connection.execute(_SQL["seal"], values)

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
        history: History | None = None,
        despite_seal: bool = False,
    ) -> None:
        """Use a file; `history` is what this process knows of it, if it was open before.

        With `despite_seal` it is also written after its organisation was moved.
        """
        self.path = path
        self._history = history or History(path)
        self._despite_seal = despite_seal
        self.accepted: str | None = None
        """What was wrong with the file when it was opened and accepted nevertheless."""
        self._announce = announce
        self.owner = owner
        self.is_gone = False
        """Whether the file was seen to be deleted."""
        self._kind: FileKind = kind
        self._is_control = kind == "control"
        """Whether its writer has a connection beside all others, which wait for it, and gives way to none."""
        self._threads = threads
        self._lock = threading.Lock()
        self._writer: GroupCommitWriter | None = None
        self._newest: Meta | None = None
        """The newest row that was checked."""
        self._idle_readers: deque[WatchingConnection] = deque()
        self._is_resting = True
        self._is_closed = False

    async def open(self, *, create: bool, accept: bool = False) -> None:
        """Create the file if `create`, migrate its schema, and check its owner and its history.

        With `accept` a file that contradicts its mark, or is sealed, begins a new history.

        Raises:
            NotFoundError: the file is missing, or its organisation was deleted.
            StoreReplacedError: the file is not the one that was written here, or older.
            StoreNewerError, StoreReadOnlyError, StoreCorruptError, StorageError: unusable.
        """
        await self._threads.run(partial(self._prepare, create=create, accept=accept))

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

    def write_from_thread(self, work: Work[T]) -> T:
        """Do what `write` does for a thread, which waits for it; not for one that writes to the same file."""
        ticket: ThreadTicket[T] = ThreadTicket(self._threads.scheduler)
        self._submit(Write(work, ticket, self._announce))
        return ticket.wait()

    @property
    def files(self) -> tuple[str, ...]:
        """The name of the file."""
        return (self.path.name,)

    @property
    def still_held(self) -> tuple[str, ...]:
        """Nothing: a file that was written anew has no deleted rows."""
        return ()

    async def rewrite(self) -> tuple[str, ...]:
        """Write the file anew, so that its free space has nothing of what was deleted.

        Copies that upgrades kept would still have it, and are removed. Returns the names of all of them.

        Raises:
            NotFoundError: the file's organisation was deleted.
            StoreBusyError: others hold the file all the time.
        """
        return await self._threads.run(self._rewrite)

    def _rewrite(self) -> tuple[str, ...]:
        with translated_failures(), closing(self._connect(open_writer)) as connection:
            self._check_write(connection)
            write_anew(connection, scheduler=self._threads.scheduler)
        versions = [step.version for step in load_migrations(self._kind)]
        copies = remove_copies(self.path, versions=versions)
        return (*self.files, *(copy.name for copy in copies))

    def rest(self) -> None:
        """Finish accepted work and close idle connections; blocks.

        The file can still be used, but keeps no connection open between uses.
        """
        with self._lock:
            self._is_resting = True
        writer = self._drop_idle()
        if writer is not None:
            writer.join()
        OPEN_CONNECTIONS.forget(self)

    def give_way(self) -> None:
        """Close idle connections without waiting, because others need their file descriptors."""
        self._drop_idle(and_writer=not self._is_control)

    def _drop_idle(self, *, and_writer: bool = True) -> GroupCommitWriter | None:
        """Close idle readers and stop the writer, which is returned, after what it was given."""
        writer = None
        with self._lock:
            if and_writer:
                writer, self._writer = self._writer, None
            readers = [*self._idle_readers]
            self._idle_readers.clear()
        if writer is not None:
            writer.stop()
        for reader in readers:
            reader.close()
        return writer

    async def close(self) -> None:
        """Accept nothing more, finish what was accepted, and release the file."""
        with self._lock:
            self._is_closed = True
        await self._threads.run(self.rest)

    def _prepare(self, *, create: bool, accept: bool) -> None:
        with translated_failures():
            # Read before the file, as always: a mark is never ahead of it.
            record = self._history.mark.read()
            if create:
                create_file(self.path)
            connection = self._connect(open_anywhere)
            try:
                if not accept:
                    self._refuse_emptied(connection, record, is_new=create)
                migrate(connection, load_migrations(self._kind), path=self.path)
                self._begin_history(connection, accept=accept)
                record = self._history.mark.read()
                meta = self._check(connection, seen=None)
                self._history.compare(meta.position, record)
                refuse_writes(connection)
            except BaseException:
                connection.close()
                raise
        self._is_resting = False
        self._give_back(connection)

    def _refuse_emptied(
        self, connection: sqlite3.Connection, record: Position | None, *, is_new: bool
    ) -> None:
        """Refuse an empty file in the place of another, and a file from before its mark."""
        version = version_of(connection)
        if record is not None and record.commits and version < MARKED_SINCE[self._kind]:
            self._history.compare(None, record)
        if not version and not is_new:
            raise self._history.refused("is empty")

    def _begin_history(self, connection: sqlite3.Connection, *, accept: bool) -> None:
        """Give a file an owner, an id and a mark unless it has them; with `accept`, new ones."""
        meta = read_meta(connection, self._kind)
        if meta is not None and meta.position is not None and not accept:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            if self.owner is not None:
                self.owner.claim(connection)
            begun = self._first_position(connection, accept=accept)
            if begun is not None:
                self._history.mark.create(begun)
                connection.execute(_SQL["put_position"], begun._asdict())
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    def _first_position(self, connection: sqlite3.Connection, *, accept: bool) -> Position | None:
        """Return where the history of a file begins; None if it has begun, and is to go on."""
        meta, record = read_meta(connection, self._kind), self._history.mark.read()
        if self.owner is not None:
            self.owner.check(meta)
        position = None if meta is None else meta.position
        if position is None and (record is None or not record.commits):
            # A process that died between the two has left a mark.
            return record or first_position()
        fault = find_fault(position, record)
        if not accept or (fault is None and (meta is None or meta.moved_to is None)):
            return None
        if self.owner is not None:
            self.owner.seal(connection, moved_to=None)
        self.accepted = fault or "was sealed by a move"
        return first_position(after=(position, record))

    def _check(self, connection: WatchingConnection, *, seen: Position | None) -> Meta:
        """Return what the file says of itself, if it is the one in its place that was `seen` before.

        Raises:
            NotFoundError: its organisation was deleted.
            StoreCorruptError: it belongs to another, or is not the one that was seen.
        """
        row = connection.execute(_SQL[self._kind]).fetchone()
        newest = self._newest
        # Most transactions find what the last one did.
        if newest is None or row != newest:
            newest = self._check_row(row, seen=seen)
        self._history.check_place(connection)
        return newest

    def _check_row(self, row: tuple[Any, ...] | None, *, seen: Position | None) -> Meta:
        meta = None if row is None else Meta(*row)
        if self.owner is not None:
            self._check_owner(self.owner, meta)
        if meta is None:
            raise StoreCorruptError
        position = meta.position
        self._history.check(position, seen=seen)
        if position == self._history.seen:
            self._newest = meta
        return meta

    def _check_owner(self, owner: FileOwner, meta: Meta | None) -> None:
        try:
            owner.check(meta)
        except NotFoundError:
            self.is_gone = True
            raise

    def _check_write(self, connection: WatchingConnection) -> Position | None:
        """Return the position before a write, if the file may be written."""
        meta = self._check(connection, seen=self._history.seen)
        if not self._despite_seal:
            meta.refuse_moved()
        return meta.position

    def _connect(self, opener: Callable[..., WatchingConnection]) -> WatchingConnection:
        try:
            return self._history.connect(partial(opener, scheduler=self._threads.scheduler))
        except sqlite3.OperationalError as exc:
            if primary_code(exc) != sqlite3.SQLITE_CANTOPEN or self.path.exists():
                raise
            self.is_gone = True
            raise self._missing() from exc

    def _missing(self) -> EngramError:
        if self.owner is None:
            return StoreReplacedError(
                f"the file {self.path.name} is missing: restore a backup (`engram restore`)"
            )
        return self.owner.gone()

    def _submit(self, write: Write) -> None:
        with self._lock:
            self._refuse_if_closed()
            writer = self._writer or self._start_writer()
            writer.submit(write)
            if self._is_resting:
                writer.stop()
                return
            is_new, self._writer = writer is not self._writer, writer
        if is_new:
            OPEN_CONNECTIONS.note_idle(self)

    def _start_writer(self) -> GroupCommitWriter:
        opener = partial(open_writer, is_counted=not self._is_control)
        connect = partial(self._connect, opener)
        scheduler = self._threads.scheduler
        session = _SqliteSession(
            connect, check=self._check_write, history=self._history, scheduler=scheduler
        )
        name = f"engram-writer-{self.path.stem}"
        return GroupCommitWriter(session, name=name, scheduler=scheduler)

    def _read(self, work: Work[Any]) -> Any:
        with translated_failures():
            connection = self._borrow()
            seen = self._history.seen
            try:
                connection.execute("BEGIN")
                self._check(connection, seen=seen)
                return work(connection)
            except Exception as exc:
                # A cursor that is not read to its end keeps the connection at an old snapshot.
                release_frames(exc)
                raise
            finally:
                connection.rollback()
                self._give_back(connection)

    def _borrow(self) -> WatchingConnection:
        with self._lock:
            if self._idle_readers:
                return self._idle_readers.pop()
        return self._connect(open_reader)

    def _give_back(self, connection: WatchingConnection) -> None:
        with self._lock:
            is_kept = not (
                self._is_resting
                or len(self._idle_readers) >= limits.IDLE_READERS_MAX
                or getattr(connection, "is_immutable", False)
            )
            if is_kept:
                self._idle_readers.append(connection)
        if is_kept:
            OPEN_CONNECTIONS.note_idle(self)
        else:
            connection.close()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise StorageError("the store has been closed")


class GroupCommitWriter:
    """A thread that commits queued writes in batches until it is stopped."""

    def __init__(self, session: _SqliteSession, *, name: str, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._session = session
        self._queue: Inbox[Write | None] = scheduler.inbox()
        self._thread = scheduler.start(self._run, name=name)

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
            began = self._scheduler.monotonic()
            commit_together(batch, self._session)
            batch.clear()  # or the texts of the last write would stay in memory until the next
            _let_others_in(self._scheduler, held_s=self._scheduler.monotonic() - began)
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


def _let_others_in(scheduler: Scheduler, *, held_s: float) -> None:
    """Pause after a long transaction, for a tenth of its time at most.

    Other processes try the lock every millisecond. Without a pause they would have to hit the
    instant between two transactions of a process that has more writes queued.
    """
    if held_s > _LONG_S:
        scheduler.sleep(min(held_s / 10, _PAUSE_MAX_S))


class _SqliteSession:
    """The `WriteSession` of a writer thread; its connection is opened by the first write."""

    def __init__(
        self,
        connect: Callable[[], WatchingConnection],
        *,
        check: Callable[[WatchingConnection], Position | None],
        history: History,
        scheduler: Scheduler,
    ) -> None:
        self._scheduler = scheduler
        self._connect = connect
        self._check = check
        self._history = history
        self._connection: WatchingConnection | None = None
        self._mark: OpenMark | None = None
        self._position: Position
        """Before the transaction."""
        self._changes = 0
        """Rows that the connection had changed before the transaction."""
        self._appended: list[bytes] = []
        """Hashes of what the transaction has appended."""
        self._appended_now: list[bytes] = []
        """Those of the present write."""
        self._is_alone = True
        """Whether the transaction has one write, which needs no savepoint: all is undone with it."""
        self._is_undone = False
        """Whether that was done, and nothing is left to commit."""

    def translated_failures(self) -> AbstractContextManager[None]:
        return translated_failures()

    def begin(self, *, works: int) -> sqlite3.Connection:
        self._is_alone, self._is_undone = works == 1, False
        if self._connection is None:
            self._connection = wait_ourselves(self._connect())
        # Before anything is written: a commit that cannot be recorded shall not happen.
        self._mark = self._history.mark.open()
        begin_write(self._connection, scheduler=self._scheduler)
        position = self._check(self._connection)
        record = None if self._mark is None else self._mark.read()
        self._position = self._history.compare(position, record)
        self._changes = self._connection.total_changes
        self._appended = []
        return self._connection

    def mark(self) -> None:
        self._appended_now = gather_hashes()
        if not self._is_alone:
            self._opened.execute("SAVEPOINT work")

    def flush(self) -> None:
        """Do nothing: statements have been run when they return."""

    def undo(self, error: Exception) -> None:
        self._appended_now.clear()
        # SQLite may roll back the whole transaction, for example when the disk is full.
        if not self._opened.in_transaction:
            raise error
        # A cursor that is not read to its end keeps the connection at an old snapshot.
        release_frames(error)
        self._opened.execute("ROLLBACK" if self._is_alone else "ROLLBACK TO work")
        self._is_undone = self._is_alone

    def keep(self) -> None:
        self._appended += self._appended_now
        if not self._is_alone:
            self._opened.execute("RELEASE work")

    def commit(self) -> None:
        connection = self._opened
        if self._is_undone:
            pass  # the transaction has ended
        elif not connection.in_transaction:
            # Whatever follows would be a transaction of its own.
            raise StorageError("the transaction ended before its commit; nothing was stored")
        elif connection.total_changes == self._changes:
            connection.execute("COMMIT")
        else:
            self._commit_changes(connection, self._position.after(self._appended))
        self._close_mark()

    def _commit_changes(self, connection: WatchingConnection, position: Position) -> None:
        connection.execute(_SQL["put_position"], position._asdict())
        connection.execute("COMMIT")
        # Afterwards: what was in its place then has the commit.
        self._history.check_place(connection)
        if self._mark is not None:
            self._mark.put(position)

    def abandon(self) -> None:
        # Closing rolls back, whatever state the connection is in.
        self.close()

    def close(self) -> None:
        """Release the file, if it is open."""
        self._close_mark()
        if self._connection is not None:
            close_writer(self._connection)
            self._connection = None

    def _close_mark(self) -> None:
        if self._mark is not None:
            self._mark.close()
            self._mark = None

    @property
    def _opened(self) -> WatchingConnection:
        assert self._connection is not None  # noqa: S101 - a transaction has begun
        return self._connection
