"""Schema migrations of SQLite files, each in one transaction with its version.

The version is SQLite's `user_version`, which is part of the transaction. A process that finds a
pending migration takes the write lock and checks again, so that two never apply the same one. After
an interruption the next process goes on with the first one that is not applied.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from engram.storage.migrations import Migration, read_migrations, refuse_newer
from engram.storage.sqlite.copies import keep_copy

logger = logging.getLogger(__name__)

FileKind = Literal["control", "organization"]


def load_migrations(kind: FileKind) -> tuple[Migration, ...]:
    """Return the migrations of a kind of file, in order."""
    return read_migrations("engram.storage.sqlite", kind)


def migrate(
    connection: sqlite3.Connection, steps: Sequence[Migration], *, path: Path | None = None
) -> None:
    """Apply pending migrations; if there are none, only read.

    If one of them rewrites a table, the file at `path` is copied before the first.

    Raises:
        StoreNewerError: the file has migrations that this program does not have.
        StoreFullError: there is no room for the copy.
    """
    pending = steps[_version(connection, steps) :]
    is_copied = not any(step.rewrites for step in pending)
    for step in pending:
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection, steps)
            if version < step.version:
                if path is not None and not is_copied and _is_in_use(connection):
                    _keep_copy(path, version=version)
                is_copied = True
                run_script(connection, step.sql)
                connection.execute(f"PRAGMA user_version = {step.version}")
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise


def _is_in_use(connection: sqlite3.Connection) -> bool:
    """Return True if anything was stored in a file; another process may just be creating it."""
    named = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('organization', 'conversation')"
    ).fetchall()
    return any(connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone() for (name,) in named)  # noqa: S608 names of ours


def _keep_copy(path: Path, *, version: int) -> None:
    copy = keep_copy(path, version=version)
    logger.warning(
        "%s is upgraded from schema %d; as it was it stays in %s, until `engram upgrade --remove-copies`",
        path.name,
        version,
        copy.name,
    )


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run a script in the current transaction, which `executescript` would commit."""
    for statement in _statements(script):
        connection.execute(statement)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the number of applied migrations."""
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _version(connection: sqlite3.Connection, steps: Sequence[Migration]) -> int:
    version = version_of(connection)
    refuse_newer(version, steps)
    return version


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for piece in re.split(r"(?<=;)", script):
        statement += piece
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    # A closing comment, which SQLite accepts.
    yield statement
