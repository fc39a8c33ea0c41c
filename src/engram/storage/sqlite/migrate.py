"""Schema migrations of SQLite files, each in one transaction with its version.

The version is SQLite's `user_version`, which is part of the transaction. A process that finds a
pending migration takes the write lock and checks again, so that two never apply the same one.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Literal

from engram.storage.migrations import Migration, read_migrations, refuse_newer

FileKind = Literal["control", "organization"]


def load_migrations(kind: FileKind) -> tuple[Migration, ...]:
    """Return the migrations of a kind of file, in order."""
    return read_migrations("engram.storage.sqlite", kind)


def migrate(connection: sqlite3.Connection, steps: Sequence[Migration]) -> None:
    """Apply pending migrations; if there are none, only read.

    Raises:
        StoreNewerError: the file has migrations that this program does not have.
    """
    for step in steps[_version(connection, steps) :]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _version(connection, steps) < step.version:
                run_script(connection, step.sql)
                connection.execute(f"PRAGMA user_version = {step.version}")
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run a script in the current transaction, which `executescript` would commit."""
    for statement in _statements(script):
        connection.execute(statement)


def _version(connection: sqlite3.Connection, steps: Sequence[Migration]) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
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
