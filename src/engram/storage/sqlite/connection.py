"""Open connections to a store's SQLite files, each set up for durability and for company."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from engram import limits
from engram.storage.sqlite.failures import primary_code

_FILE_MODE = 0o600
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


class WatchingConnection(sqlite3.Connection):
    """A connection that knows which version of the file it looked at last."""

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

    SQLite's own waiting slows down to ten looks a second, and then a process can wait for seconds
    while others that write without pause pass the lock to and fro between them.
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
        # Statistics are a courtesy: whoever holds the file now will refresh them later.
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
        # A connection walks from thread to thread, but is in the hands of one at a time.
        check_same_thread=False,
        cached_statements=_STATEMENTS_KEPT,
        factory=WatchingConnection,
    )


def _execute_when_free(connection: sqlite3.Connection, statement: str) -> None:
    """Run a statement, trying again for as long as other processes are in its way."""
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
