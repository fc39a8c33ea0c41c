"""Write a file anew, so that nothing of what was deleted is left in its free space, indexes or log.

SQLite zeroes what a transaction deletes, but pages that were split before keep copies of rows that moved on, and
a word index keeps deleted words until its parts are merged.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from engram import limits
from engram.errors import StoreBusyError
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.connection import begin_write, primary_code
from engram.storage.threads import Scheduler

_SQL = load_queries("sqlite/rewriting.sql")
_RETRY_S = 0.01


def write_anew(connection: sqlite3.Connection, *, scheduler: Scheduler) -> None:
    """Merge the word indexes in short transactions, then write the whole file anew and empty its log.

    Readers go on meanwhile; writers wait while the file is written.

    Raises:
        StoreBusyError: others keep the log in use.
    """
    # A copy of the file in memory would be as large as the file.
    connection.execute("PRAGMA temp_store = FILE")
    for (index,) in connection.execute(_SQL["word_indexes"]).fetchall():
        _merge(connection, index, scheduler)
    if connection.execute(_SQL["samples"]).fetchone() is not None:
        connection.execute(_SQL["forget_samples"])
    deadline = scheduler.monotonic() + limits.REWRITE_S
    _until_free(connection, "write_anew", scheduler, deadline=deadline)
    while True:
        row = _until_free(connection, "move_log", scheduler, deadline=deadline)
        if row is None or row[0] == 0:
            return
        _wait(scheduler, deadline)


def _merge(connection: sqlite3.Connection, index: str, scheduler: Scheduler) -> None:
    """Merge all parts of a word index to one, in which words that were deleted are not."""
    statement = _SQL["merge"].format(index=index)
    pages = -limits.MERGED_PAGES  # The first call, a negative one, has all parts take part.
    while True:
        begin_write(connection, scheduler=scheduler)
        before = connection.total_changes
        connection.execute(statement, {"pages": pages})
        connection.execute("COMMIT")
        # As SQLite documents it: a merge that had nothing to do changes less than two rows.
        if connection.total_changes - before < 2:
            return
        pages = limits.MERGED_PAGES


def _until_free(
    connection: sqlite3.Connection, name: str, scheduler: Scheduler, *, deadline: float
) -> Any:
    """Run a statement, retrying while others hold the file; return its first row."""
    while True:
        try:
            return connection.execute(_SQL[name]).fetchone()
        except sqlite3.OperationalError as exc:
            if primary_code(exc) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
        _wait(scheduler, deadline)


def _wait(scheduler: Scheduler, deadline: float) -> None:
    if scheduler.monotonic() > deadline:
        raise StoreBusyError("others keep the file in use; it will be written anew later")
    scheduler.sleep(_RETRY_S)
