"""The files of organisations: created, opened and removed in step with the control file.

The control file records which files have been created, so that a missing one is a loss and not a
new organisation, and which are still to be removed, so that a crash leaves none behind.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import NamedTuple

from engram.errors import (
    NotFoundError,
    StorageError,
    StoreBusyError,
    StoreCorruptError,
    StoreReadOnlyError,
)
from engram.model.ids import OrganizationId
from engram.storage.bookkeeping.audit import Announce
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.connection import translated_failures, unlink_database
from engram.storage.sqlite.file import FileOwner, SqliteFile
from engram.storage.threads import WorkerThreads

logger = logging.getLogger(__name__)

_SQL = load_queries("sqlite/organization_files.sql")


class FileEntry(NamedTuple):
    """An organisation's file as recorded in the control file."""

    owner: FileOwner
    exists: bool
    """Whether it has been created, so that its absence would be a loss."""


class OrganizationFiles:
    """The folder with one file for each organisation."""

    def __init__(
        self,
        folder: Path,
        *,
        control: SqliteFile,
        threads: WorkerThreads,
        announce: Announce | None = None,
    ) -> None:
        self._folder = folder
        self._announce = announce
        self._control = control
        self._threads = threads

    async def open(self, organization_id: OrganizationId) -> tuple[SqliteFile, FileOwner]:
        """Return an organisation's file and owner; the file is created if it never existed.

        Raises:
            NotFoundError: there is no such organisation, or it was deleted just now.
            StoreCorruptError: its file is missing, damaged or another's.
        """
        owner, exists = await self.find(organization_id)
        file = self._at(owner)
        try:
            await file.open(create=not exists)
        except NotFoundError as exc:
            await self.find(organization_id)
            raise StoreCorruptError(
                f"the file of the organisation '{organization_id}' is missing: restore a backup"
            ) from exc
        if not exists and not await self._record(owner):
            # The organisation was deleted in the meantime.
            await file.close()
            await self._remove(owner)
            raise owner.gone()
        return file, owner

    async def find(self, organization_id: OrganizationId) -> FileEntry:
        """Return the entry of an organisation's file.

        Raises:
            NotFoundError: there is no such organisation.
        """

        def work(connection: Connection) -> FileEntry:
            values = {"organization_id": organization_id}
            row = connection.execute(_SQL["get_file"], values).fetchone()
            if row is None:
                raise NotFoundError("organization", organization_id)
            return FileEntry(FileOwner(row[0], organization_id), exists=bool(row[1]))

        return await self._control.read(work)

    def begin(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Record that a file is to be removed, in the transaction that removes its organisation."""
        connection.execute(_SQL["plan_removal"], {"organization_id": organization_id})

    async def finish(self) -> None:
        """Remove the files of deleted organisations, also those that a crash left behind."""
        for owner in await self._control.read(_list_removals):
            await self._remove(owner)
            await self._control.write(partial(_finish_removal, owner=owner))

    async def _record(self, owner: FileOwner) -> bool:
        """Record that a file was created; return False if its organisation is gone by now."""

        def work(connection: Connection) -> bool:
            values = {"organization_id": owner.id}
            return connection.execute(_SQL["record_file"], values).rowcount == 1

        return await self._control.write(work)

    async def _remove(self, owner: FileOwner) -> None:
        """Mark a file as deleted for every process that has it open, then unlink it."""
        file = self._at(owner)
        try:
            await file.write(owner.mark_deleted)
        except NotFoundError:
            logger.debug("the file of %s was marked or unlinked before", owner.id)
        except (StoreBusyError, StoreReadOnlyError):
            raise
        except StorageError:
            # Damaged, incomplete or on a full disk: nobody can store anything in it.
            logger.warning("could not mark the file of %s as deleted", owner.id, exc_info=True)
        await self._threads.run(partial(_unlink, file.path))

    def _at(self, owner: FileOwner) -> SqliteFile:
        return SqliteFile(
            self._folder / f"{owner.id}.db",
            kind="organization",
            threads=self._threads,
            owner=owner,
            announce=self._announce,
        )


def _list_removals(connection: Connection) -> list[FileOwner]:
    return [FileOwner(*row) for row in connection.execute(_SQL["list_removals"])]


def _finish_removal(connection: Connection, *, owner: FileOwner) -> None:
    connection.execute(_SQL["finish_removal"], {"organization_id": owner.id})


def _unlink(path: Path) -> None:
    with translated_failures():
        unlink_database(path)
