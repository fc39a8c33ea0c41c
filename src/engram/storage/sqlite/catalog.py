"""Know which organisation's file is which, which must exist, and which are still to be removed."""

from __future__ import annotations

from dataclasses import dataclass

from engram.errors import NotFoundError
from engram.model.ids import OrganizationId
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.file import SqliteFile
from engram.storage.sqlite.owner import FileOwner

_SQL = load_queries("sqlite/catalog.sql")


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """An organisation's file as the control file knows it."""

    owner: FileOwner
    exists: bool
    """Whether it has been created, so that its absence would be a loss."""


class FileCatalog:
    """The part of the control file that speaks of organisation files."""

    def __init__(self, control: SqliteFile) -> None:
        self._control = control

    async def find(self, organization_id: OrganizationId) -> CatalogEntry:
        """Return what is known of an organisation's file.

        Raises:
            NotFoundError: there is no such organisation.
        """

        def work(connection: Connection) -> CatalogEntry:
            parameters = {"organization_id": organization_id}
            row = connection.execute(_SQL["get_file"], parameters).fetchone()
            if row is None:
                raise NotFoundError("organization", organization_id)
            return CatalogEntry(FileOwner(row[0], organization_id), exists=bool(row[1]))

        return await self._control.read(work)

    async def record_file(self, owner: FileOwner) -> bool:
        """Note that a file has been created; False when its organisation is gone by now."""

        def work(connection: Connection) -> bool:
            parameters = {"organization_id": owner.id}
            return connection.execute(_SQL["record_file"], parameters).rowcount == 1

        return await self._control.write(work)

    def plan_removal(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Note in a transaction of the control file that a file is to be removed."""
        connection.execute(_SQL["plan_removal"], {"organization_id": organization_id})

    async def list_removals(self) -> list[FileOwner]:
        """Return the deleted organisations whose files are still to be removed."""

        def work(connection: Connection) -> list[FileOwner]:
            return [FileOwner(*row) for row in connection.execute(_SQL["list_removals"])]

        return await self._control.read(work)

    async def finish_removal(self, owner: FileOwner) -> None:
        """Forget a file that has been removed."""

        def work(connection: Connection) -> None:
            connection.execute(_SQL["finish_removal"], {"organization_id": owner.id})

        await self._control.write(work)
