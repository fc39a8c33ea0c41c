"""Read SQLite databases of other programs: never written, never created, one row at a time."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from engram.sources.values import SourceError

Row = dict[str, Any]


@contextmanager
def open_database(path: Path) -> Generator[sqlite3.Connection]:
    """Open a database to be read; one that another program holds locked is copied first.

    Raises:
        SourceError: it is no database, is damaged, or lacks what the block asks for.
        FileNotFoundError: there is no such file.
    """
    path.stat()
    with tempfile.TemporaryDirectory(prefix="engram-import-") as place:
        try:
            with closing(_connect(path, copies_to=Path(place))) as connection:
                connection.row_factory = _as_row
                connection.text_factory = _as_text
                yield connection
        except sqlite3.Error as exc:
            raise SourceError(f"cannot be read as a database: {exc}") from exc


def _connect(path: Path, *, copies_to: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=2)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # Locked, or a write-ahead log that cannot be read beside its writer.
        connection.close()
        copy = copies_to / "copy.db"
        shutil.copyfile(path, copy)
        log = path.with_name(f"{path.name}-wal")
        if log.exists():
            shutil.copyfile(log, copies_to / "copy.db-wal")
        return sqlite3.connect(copy)
    return connection


def _as_row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, values, strict=True)}


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Return True if the database has a table."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,))
    return found.fetchone() is not None


def rows_of(connection: sqlite3.Connection, table: str, *, order: str = "rowid") -> Iterator[Row]:
    """Yield the rows of a table with all columns it has, none if there is no such table."""
    if has_table(connection, table):
        # Both names are written in this package.
        yield from connection.execute(f"SELECT * FROM {table} ORDER BY {order}")  # noqa: S608
