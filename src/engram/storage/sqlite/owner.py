"""The organisation a file belongs to, as the file itself says it.

Every transaction asks. Deleting an organisation marks its file before unlinking it, so a process
that still holds the file open reads and commits nothing after the mark.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from engram.errors import NotFoundError, StoreCorruptError
from engram.model.ids import OrganizationId
from engram.storage.rows.queries import load_queries

_SQL = load_queries("sqlite/owner.sql")


@dataclass(frozen=True, slots=True)
class FileOwner:
    """An organisation: its number in every row of its file, and its public id."""

    number: int
    id: OrganizationId

    def claim(self, connection: sqlite3.Connection) -> None:
        """Write the owner into a file that has none; another process may do the same."""
        if connection.execute(_SQL["get_owner"]).fetchone() is None:
            parameters = {"organization_id": self.number, "public_id": self.id}
            connection.execute(_SQL["claim_file"], parameters)

    def check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is deleted or belongs to another.

        Raises:
            NotFoundError: the organisation has been deleted.
            StoreCorruptError: the file names another owner.
        """
        row = connection.execute(_SQL["get_owner"]).fetchone()
        if row is None or row[:2] != (self.number, self.id):
            raise StoreCorruptError("an organisation's file stands in another one's place")
        if row[2]:
            raise self.gone()

    def mark_deleted(self, connection: sqlite3.Connection) -> None:
        """End all use of the file, in every process."""
        connection.execute(_SQL["mark_deleted"], {"organization_id": self.number})

    def gone(self) -> NotFoundError:
        """Return what to raise when the organisation or its file is no more."""
        return NotFoundError("organization", self.id)
