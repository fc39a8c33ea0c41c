"""A table for tests of the engine, which does not care what it stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from engram.model.ids import OrganizationId
from engram.storage.sqlite.file import SqliteFile

ORGANIZATION = OrganizationId("org_one")


def create_notes(connection: sqlite3.Connection) -> None:
    """Create the table."""
    connection.execute("CREATE TABLE IF NOT EXISTS note (text TEXT UNIQUE) STRICT")


def add(text: str) -> Callable[[sqlite3.Connection], str]:
    """Return work that stores `text` and returns it; a second time it fails."""

    def work(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO note (text) VALUES (?)", (text,))
        return text

    return work


async def texts(file: SqliteFile) -> list[str]:
    """Return what is stored, in order."""
    return await file.read(
        lambda connection: [
            text for (text,) in connection.execute("SELECT text FROM note ORDER BY text")
        ]
    )
