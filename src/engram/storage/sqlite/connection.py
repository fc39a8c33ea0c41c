"""SQLite files: durable and concurrent connections, and errors of the driver."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from engram import limits
from engram.errors import (
    InvalidRequestError,
    OpenFilesError,
    StorageError,
    StoreBusyError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
)
from engram.storage.private import FILE_MODE, sync_directory
from engram.storage.sqlite.descriptors import (
    OPEN_CONNECTIONS,
    are_used_up,
    lack_of_descriptors,
)
from engram.storage.threads import SYSTEM_SCHEDULER, Scheduler

MARK_SUFFIX = ".mark"
"""Of the file beside a database file that repeats how far its history has come."""
_RETRY_S = 0.001
_STATEMENTS_KEPT = 256
_UNWRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
"""What SQLite says of a file whose log it cannot create."""
_BY_EFFECTIVE_IDS = os.access in os.supports_effective_ids

_PRAGMAS = (
    # An acknowledged write survives power loss: FULL syncs the log at every commit.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8192",
    # A failing disk under a mapped page kills the process with a signal; a read reports it.
    "PRAGMA mmap_size = 0",
    # A long transaction leaves a long log; give its space back at the next checkpoint.
    "PRAGMA journal_size_limit = 67108864",
    # Bounds the time of the ANALYZE that `PRAGMA optimize` may run.
    "PRAGMA analysis_limit = 400",
)

_BY_PRIMARY_CODE: dict[int, type[StorageError]] = {
    sqlite3.SQLITE_BUSY: StoreBusyError,
    sqlite3.SQLITE_LOCKED: StoreBusyError,
    # The WAL's shared memory stayed contended through all of SQLite's own retries.
    sqlite3.SQLITE_PROTOCOL: StoreBusyError,
    sqlite3.SQLITE_FULL: StoreFullError,
    sqlite3.SQLITE_READONLY: StoreReadOnlyError,
    sqlite3.SQLITE_CANTOPEN: StoreReadOnlyError,
    sqlite3.SQLITE_PERM: StoreReadOnlyError,
    sqlite3.SQLITE_CORRUPT: StoreCorruptError,
    sqlite3.SQLITE_NOTADB: StoreCorruptError,
}

# SQLite reports FULL for ENOSPC alone; an exceeded disk quota or file size limit, and shared memory
# that cannot grow, are reported as one of these, and so is a failing disk.
_PROBABLY_FULL = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)

# Opening a file, its log or its shared memory without a free descriptor fails with one of these.
_WITHOUT_DESCRIPTOR = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR)

_BY_ERRNO: dict[int | None, type[StorageError]] = {
    errno.EACCES: StoreReadOnlyError,
    errno.EPERM: StoreReadOnlyError,
    errno.EROFS: StoreReadOnlyError,
    errno.ENOSPC: StoreFullError,
    errno.EDQUOT: StoreFullError,
    errno.EFBIG: StoreFullError,
    errno.EMFILE: OpenFilesError,
    errno.ENFILE: OpenFilesError,
}


@contextmanager
def translated_failures() -> Generator[None]:
    """Translate errors, with the original as their cause."""
    try:
        yield
    except sqlite3.Error as exc:
        raise _translate_sqlite(exc) from exc
    except MemoryError as exc:
        # The driver's answer to SQLITE_NOMEM, among others.
        raise StorageError("there is not enough memory; nothing was stored") from exc
    except OSError as exc:
        kind = _BY_ERRNO.get(exc.errno, StorageError)
        raise kind from exc
    except UnicodeEncodeError as exc:
        # Raised by the driver for a value; drafts are validated before, but any text may be an id.
        raise InvalidRequestError("a lone surrogate is part of no text that is stored") from exc
    except UnicodeDecodeError as exc:
        # Raised by the driver for a message of SQLite that quotes damaged bytes.
        raise StoreCorruptError from exc


def primary_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary result code; None for an error of the Python module itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _translate_sqlite(error: sqlite3.Error) -> StorageError:
    code = primary_code(error)
    if code is None:
        # The only failure of the Python module itself that says something of the file.
        is_damaged = str(error).startswith("Could not decode to UTF-8")
        return StoreCorruptError() if is_damaged else StorageError()
    if error.sqlite_errorcode in _PROBABLY_FULL:
        return StoreFullError("the disk is full or cannot be written; nothing was stored")
    return _BY_PRIMARY_CODE.get(code, StorageError)()


class WatchingConnection(sqlite3.Connection):
    """A connection that is counted, and remembers the `data_version` of its last read."""

    version_seen: int | None = None
    is_immutable: bool = False
    """Whether the file was opened as one that nobody changes, which has to be found out anew each time."""
    is_counted = True
    before_close: Callable[[], None] | None = None
    """Called once, before the connection is closed."""

    def close(self) -> None:
        """Close the connection; idempotent."""
        before_close, self.before_close = self.before_close, None
        if before_close is not None:
            before_close()
        super().close()
        if self.is_counted:
            self.is_counted = False
            OPEN_CONNECTIONS.release()


def create_file(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is one."""
    if not path.exists():  # on a read-only medium even a touch is refused
        path.touch(mode=FILE_MODE, exist_ok=True)


def open_writer(
    path: Path, *, scheduler: Scheduler = SYSTEM_SCHEDULER, is_counted: bool = True
) -> WatchingConnection:
    """Return a connection to an existing file that may write; wait for a file descriptor if need be.

    One that is not counted waits for no other connection of this process.

    Raises:
        OpenFilesError: this process has none left.
    """
    deadline = scheduler.monotonic() + limits.STORE_BUSY_S
    were_left = False
    while True:
        try:
            return _open(path, scheduler, is_counted=is_counted)
        except sqlite3.OperationalError as exc:
            are_left = not are_used_up()
            # A descriptor may have been closed since; who fails twice with some left has another cause.
            if primary_code(exc) not in _WITHOUT_DESCRIPTOR or (were_left and are_left):
                raise
            were_left = are_left
            if scheduler.monotonic() > deadline:
                raise lack_of_descriptors() from exc
        OPEN_CONNECTIONS.ask_idle()
        scheduler.sleep(limits.FILE_RETRY_S)


def _open(path: Path, scheduler: Scheduler, *, is_counted: bool) -> WatchingConnection:
    connection = _connect(path, is_counted=is_counted)
    try:
        # SQLite refuses a contended switch at once instead of waiting for its busy timeout.
        _execute_when_free(connection, "PRAGMA journal_mode = WAL", scheduler)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def wait_ourselves(connection: WatchingConnection) -> WatchingConnection:
    """Turn SQLite's own waiting off, for a connection that writes by `begin_write`.

    Its busy handler backs off to ten attempts a second; a process could then wait for seconds while
    others that write without pause take the lock in turn.
    """
    connection.execute("PRAGMA busy_timeout = 0").fetchone()
    return connection


def begin_write(connection: sqlite3.Connection, *, scheduler: Scheduler) -> None:
    """Begin a transaction that holds the file's write lock."""
    _execute_when_free(connection, "BEGIN IMMEDIATE", scheduler)


def open_reader(path: Path, *, scheduler: Scheduler = SYSTEM_SCHEDULER) -> WatchingConnection:
    """Return a connection to an existing file that refuses to write."""
    return refuse_writes(open_anywhere(path, scheduler=scheduler))


def open_anywhere(path: Path, *, scheduler: Scheduler = SYSTEM_SCHEDULER) -> WatchingConnection:
    """Return a connection that may write, or on a read-only medium one that reads.

    SQLite reads a file with a log there only if the index of the log is there as well, and a file
    without a log only if it is told that nobody changes it. It is told so after a look for a log,
    because it would not see what is in one.

    Raises:
        StoreReadOnlyError: there is a log without its index.
    """
    try:
        return open_writer(path, scheduler=scheduler)
    except sqlite3.OperationalError as exc:
        if primary_code(exc) not in _UNWRITABLE or not _is_unwritable(path):
            raise
        if _has_log(path):
            raise StoreReadOnlyError(
                f"{path.name} was not closed, and what it lacks is in its log, which cannot be read where"
                " nothing can be written: copy the store to a place that can be written"
            ) from exc
    connection = _connect(path, "mode=ro&immutable=1")
    connection.is_immutable = True
    return connection


def open_unchanged(path: Path) -> WatchingConnection:
    """Return a connection that leaves the file and its directory as they are, unless it has a log.

    A log is read through its index, which SQLite makes if it is missing.
    """
    return _connect(path, "mode=ro" if _has_log(path) else "mode=ro&immutable=1")


def _is_unwritable(path: Path) -> bool:
    """Return True if a file is here, in a directory where this process can make none."""
    return path.exists() and not os.access(path.parent, os.W_OK, effective_ids=_BY_EFFECTIVE_IDS)


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def refuse_writes(connection: WatchingConnection) -> WatchingConnection:
    """Turn a connection into one for readers."""
    connection.execute("PRAGMA query_only = ON")
    return connection


def close_writer(connection: sqlite3.Connection) -> None:
    """Close a connection that wrote, and let SQLite refresh its statistics if it is free."""
    # Statistics are optional: the process that holds the file will refresh them.
    with closing(connection), suppress(sqlite3.Error, MemoryError):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA optimize")


def _connect(path: Path, mode: str = "mode=rw", *, is_counted: bool = True) -> WatchingConnection:
    if is_counted:
        OPEN_CONNECTIONS.acquire()
    try:
        # mode=rw, never rwc: a file that another process deleted must not come back empty.
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?{mode}",
            uri=True,
            timeout=limits.STORE_BUSY_S,
            isolation_level=None,
            # Several threads use a connection, one at a time.
            check_same_thread=False,
            cached_statements=_STATEMENTS_KEPT,
            factory=WatchingConnection,
        )
    except BaseException:
        if is_counted:
            OPEN_CONNECTIONS.release()
        raise
    connection.is_counted = is_counted
    return connection


def _execute_when_free(
    connection: sqlite3.Connection, statement: str, scheduler: Scheduler
) -> None:
    """Run a statement, retrying while other processes hold the lock."""
    deadline = scheduler.monotonic() + limits.STORE_BUSY_S
    while True:
        try:
            connection.execute(statement).fetchone()
        except sqlite3.OperationalError as exc:
            if primary_code(exc) != sqlite3.SQLITE_BUSY or scheduler.monotonic() > deadline:
                raise
            scheduler.sleep(_RETRY_S)
        else:
            return


def unlink_database(path: Path) -> None:
    """Remove a database file, its log and its mark, as far as they exist."""
    # The database first: without it no process recovers from the log.
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", path.stem + MARK_SUFFIX):
        path.with_name(name).unlink(missing_ok=True)
    sync_directory(path.parent)
