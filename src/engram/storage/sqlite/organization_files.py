"""Open and remove the files of organisations, in step with the control file and other processes."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from engram.errors import (
    NotFoundError,
    StorageError,
    StoreBusyError,
    StoreCorruptError,
    StoreReadOnlyError,
)
from engram.model.ids import OrganizationId
from engram.storage.bookkeeping.audited import Announce
from engram.storage.rows.database import Connection
from engram.storage.sqlite.catalog import CatalogEntry, FileCatalog
from engram.storage.sqlite.directory import unlink_database
from engram.storage.sqlite.failures import translated_failures
from engram.storage.sqlite.file import SqliteFile
from engram.storage.sqlite.owner import FileOwner
from engram.storage.threads import WorkerThreads

logger = logging.getLogger(__name__)


class OrganizationFiles:
    """The folder with one file for each organisation."""

    def __init__(
        self,
        folder: Path,
        *,
        catalog: FileCatalog,
        threads: WorkerThreads,
        announce: Announce | None = None,
    ) -> None:
        self._folder = folder
        self._announce = announce
        self._catalog = catalog
        self._threads = threads

    async def open(self, organization_id: OrganizationId) -> tuple[SqliteFile, FileOwner]:
        """Return an organisation's file and number, created when it never existed.

        Raises:
            NotFoundError: there is no such organisation, or it was deleted just now.
            StoreCorruptError: its file is missing, damaged or another's.
        """
        entry = await self._catalog.find(organization_id)
        file = self._at(entry.owner)
        try:
            await file.open(create=not entry.exists)
        except NotFoundError as exc:
            await self._explain_missing(entry, exc)
        if not entry.exists:
            await self._record(file, entry.owner)
        return file, entry.owner

    def begin(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Note that an organisation's file is to be removed, in the transaction that removes it."""
        self._catalog.plan_removal(connection, organization_id)

    async def finish(self) -> None:
        """Remove every file whose organisation was deleted, also those a crash left behind."""
        for owner in await self._catalog.list_removals():
            await self._remove(owner)
            await self._catalog.finish_removal(owner)

    async def _record(self, file: SqliteFile, owner: FileOwner) -> None:
        """Note a new file; one whose organisation was deleted in the meantime goes again."""
        if not await self._catalog.record_file(owner):
            await file.close()
            await self._remove(owner)
            raise owner.gone()

    async def _explain_missing(self, entry: CatalogEntry, error: NotFoundError) -> None:
        await self._catalog.find(entry.owner.id)
        raise StoreCorruptError(
            f"the file of the organisation '{entry.owner.id}' is missing: restore a backup"
        ) from error

    async def _remove(self, owner: FileOwner) -> None:
        """Mark a file as deleted for everyone who has it open, then unlink it."""
        file = self._at(owner)
        try:
            await file.write(owner.mark_deleted)
        except NotFoundError:
            logger.debug("the file of %s was marked or unlinked before", owner.id)
        except (StoreBusyError, StoreReadOnlyError):
            raise
        except StorageError:
            # Damaged, unfinished or on a full disk: nobody stores anything in it any more.
            logger.warning("could not mark the file of %s as deleted", owner.id, exc_info=True)
        await self._threads.run(partial(_unlink, file.path))

    def _at(self, owner: FileOwner) -> SqliteFile:
        path = self._folder / f"{owner.id}.db"
        return SqliteFile(
            path,
            kind="organization",
            threads=self._threads,
            owner=owner,
            announce=self._announce,
        )


def _unlink(path: Path) -> None:
    with translated_failures():
        unlink_database(path)
