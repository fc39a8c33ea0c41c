"""SQLite files: durable and concurrent connections, errors of the driver, and files that survive power loss."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from engram import limits
from engram.errors import (
    InvalidRequestError,
    StorageError,
    StoreBusyError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
)

_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700
_RETRY_S = 0.001
_STATEMENTS_KEPT = 256

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

_BY_ERRNO: dict[int | None, type[StorageError]] = {
    errno.EACCES: StoreReadOnlyError,
    errno.EPERM: StoreReadOnlyError,
    errno.EROFS: StoreReadOnlyError,
    errno.ENOSPC: StoreFullError,
    errno.EDQUOT: StoreFullError,
    errno.EFBIG: StoreFullError,
}


@contextmanager
def translated_failures() -> Generator[None]:
    """Translate errors, with the original as their cause."""
    try:
        yield
    except sqlite3.Error as exc:
        raise _translate_sqlite(exc) from exc
    except OSError as exc:
        kind = _BY_ERRNO.get(exc.errno, StorageError)
        raise kind from exc
    except UnicodeEncodeError as exc:
        # Raised by the driver for a value; drafts are validated before, but any text may be an id.
        raise InvalidRequestError("a lone surrogate is part of no text that is stored") from exc


def primary_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary result code; None for an error of the Python module itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _translate_sqlite(error: sqlite3.Error) -> StorageError:
    code = primary_code(error)
    if code is None:
        return StorageError()
    if error.sqlite_errorcode in _PROBABLY_FULL:
        return StoreFullError("the disk is full or cannot be written; nothing was stored")
    return _BY_PRIMARY_CODE.get(code, StorageError)()


class WatchingConnection(sqlite3.Connection):
    """A connection that remembers the `data_version` of its last read."""

    version_seen: int | None = None


def create_file(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is one."""
    path.touch(mode=_FILE_MODE, exist_ok=True)


def open_writer(path: Path) -> sqlite3.Connection:
    """Return a connection to an existing file that may write."""
    connection = _connect(path)
    try:
        # SQLite refuses a contended switch at once instead of waiting for its busy timeout.
        _execute_when_free(connection, "PRAGMA journal_mode = WAL")
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def begin_write(connection: sqlite3.Connection) -> None:
    """Begin a transaction that holds the file's write lock.

    SQLite's own busy handler backs off to ten attempts a second; a process could then wait for
    seconds while others that write without pause take the lock in turn.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    _execute_when_free(connection, "BEGIN IMMEDIATE")


def open_reader(path: Path) -> sqlite3.Connection:
    """Return a connection to an existing file that refuses to write."""
    return refuse_writes(open_writer(path))


def refuse_writes(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Turn a connection into one for readers."""
    connection.execute("PRAGMA query_only = ON")
    return connection


def close_writer(connection: sqlite3.Connection) -> None:
    """Close a connection that wrote, and let SQLite refresh its statistics if it is free."""
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA optimize")
    except sqlite3.Error:
        # Statistics are optional: the process that holds the file will refresh them.
        connection.close()
    else:
        connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    # mode=rw, never rwc: a file that another process deleted must not come back empty.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=limits.STORE_BUSY_S,
        isolation_level=None,
        # Several threads use a connection, one at a time.
        check_same_thread=False,
        cached_statements=_STATEMENTS_KEPT,
        factory=WatchingConnection,
    )


def _execute_when_free(connection: sqlite3.Connection, statement: str) -> None:
    """Run a statement, retrying while other processes hold the lock."""
    deadline = time.monotonic() + limits.STORE_BUSY_S
    while True:
        try:
            connection.execute(statement).fetchone()
        except sqlite3.OperationalError as exc:
            if primary_code(exc) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def make_directory(path: Path) -> None:
    """Create a directory only its owner may enter, with its parents, unless it exists."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
    _sync_directory(path.parent)


def unlink_database(path: Path) -> None:
    """Remove a database file and its log, as far as they exist."""
    # The database first: without it no process recovers from the log.
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows has no handle for this, and journals directories itself.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
