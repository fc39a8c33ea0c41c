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
    StoreMovedError,
    StoreReadOnlyError,
    StoreReplacedError,
)
from engram.model.ids import OrganizationId
from engram.storage.bookkeeping.audit import Announce
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.connection import MARK_SUFFIX, translated_failures, unlink_database
from engram.storage.sqlite.copies import copied_file, remove_copies
from engram.storage.sqlite.due import note_all
from engram.storage.sqlite.file import FileOwner, SqliteFile
from engram.storage.sqlite.history import History, mark_of
from engram.storage.sqlite.migrate import load_migrations
from engram.storage.threads import WorkerThreads

logger = logging.getLogger(__name__)

CONTROL_NAME = "engram.db"
"""The control file, in the directory of the store."""

_SQL = load_queries("sqlite/organization_files.sql")
_SUFFIXES = ("db", "db-wal", "db-shm", MARK_SUFFIX.removeprefix("."))


class FileEntry(NamedTuple):
    """An organisation's file as recorded in the control file."""

    owner: FileOwner
    exists: bool
    """Whether it has been created, so that its absence would be a loss."""
    moved_to: str | None = None
    """The address that the organisation was moved to."""


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
        self._histories: dict[OrganizationId, History] = {}
        """Of every file that this process has opened; small, and kept while files are closed."""

    async def open(
        self, organization_id: OrganizationId, *, accept: bool = False
    ) -> tuple[SqliteFile, FileOwner]:
        """Return an organisation's file and owner; the file is created if it never existed.

        With `accept` a file that contradicts its mark is taken as it is.

        Raises:
            NotFoundError: there is no such organisation, or it was deleted just now.
            StoreCorruptError: its file is missing, replaced, damaged or another's.
        """
        owner, exists, moved_to = await self.find(organization_id)
        if moved_to is not None and accept:
            await self._control.write(
                partial(seal_organization, organization_id=owner.id, moved_to=None)
            )
        elif moved_to is not None and not exists:
            raise StoreMovedError(moved_to)
        file = self._at(owner)
        try:
            await file.open(create=not exists, accept=accept)
        except NotFoundError as exc:
            await self.find(organization_id)
            raise StoreReplacedError(
                f"the file of the organisation '{organization_id}' is missing: restore a backup (`engram restore`)"
            ) from exc
        if not exists and not await self._record(owner):
            # The organisation was deleted or moved in the meantime.
            await file.close()
            await self._remove(owner)
            raise StoreMovedError((await self.find(organization_id)).moved_to or "")
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
            return FileEntry(FileOwner(row[0], organization_id), bool(row[1]), moved_to=row[2])

        return await self._control.read(work)

    def begin(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Record that a file is to be removed, in the transaction that removes its organisation."""
        connection.execute(_SQL["plan_removal"], {"organization_id": organization_id})

    async def finish(self) -> None:
        """Remove the files of deleted organisations, also those that a crash left behind."""
        for owner in await self._control.read(_list_removals):
            await self._remove(owner)
            await self._control.write(partial(_finish_removal, owner=owner))

    async def find_unnamed(self) -> list[str]:
        """Return what is wrong with files that no organisation, removal or move accounts for."""
        paths = await self._threads.run(lambda: sorted(self._folder.iterdir()))
        named = await self._control.read(_list_named)
        unnamed = [path for path in paths if not _belongs_to(path.name, named)]
        # Some may have been removed with their organisations meanwhile.
        left = await self._threads.run(lambda: [path for path in unnamed if path.exists()])
        return [f"{path.parent.name}/{path.name} belongs to no organisation" for path in left]

    async def _record(self, owner: FileOwner) -> bool:
        """Record that a file was created; return False if its organisation is gone by now."""

        def work(connection: Connection) -> bool:
            values = {"organization_id": owner.id}
            is_recorded = connection.execute(_SQL["record_file"], values).rowcount == 1
            if is_recorded:
                note_all(connection, owner.id)
            return is_recorded

        return await self._control.write(work)

    async def _remove(self, owner: FileOwner) -> None:
        """Mark a file as deleted for every process that has it open, then unlink it."""
        file = self._at(owner, despite_seal=True)
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
        self._histories.pop(owner.id, None)

    def _at(self, owner: FileOwner, *, despite_seal: bool = False) -> SqliteFile:
        path = self._folder / f"{owner.id}.db"
        return SqliteFile(
            path,
            kind="organization",
            threads=self._threads,
            owner=owner,
            announce=self._announce,
            history=self._histories.setdefault(owner.id, History(path)),
            despite_seal=despite_seal,
        )


def is_unused(directory: Path) -> bool:
    """Return True if nothing was ever stored in a directory, so that a control file may be created."""
    if mark_of(directory / CONTROL_NAME).exists():
        return False
    return not any(path.stat().st_size for path in (directory / "orgs").glob("*.db"))


def check_control(connection: Connection) -> list[str]:
    """Return what SQLite finds wrong with the control file."""
    lines = [line for (line,) in connection.execute(_SQL["integrity"]) if line != "ok"]
    lines += [
        f"a row of {table} refers to one that is missing"
        for table, *_ in connection.execute(_SQL["foreign_keys"])
    ]
    return [f"{CONTROL_NAME}: {line}" for line in lines]


def seal_organization(
    connection: Connection, organization_id: OrganizationId, *, moved_to: str | None
) -> None:
    """Record in the control file where an organisation was moved to; None if it is here again."""
    values = {"organization_id": organization_id, "moved_to": moved_to}
    connection.execute(_SQL["seal"], values)
    if moved_to is None:
        note_all(connection, organization_id)


def _list_named(connection: Connection) -> frozenset[str]:
    return frozenset(name for (name,) in connection.execute(_SQL["list_named"]))


def _belongs_to(file_name: str, named: frozenset[str]) -> bool:
    """Return True if a file is one of those that an organisation has."""
    stem, _, suffix = file_name.rpartition(".")
    return (stem in named and suffix in _SUFFIXES) or copied_file(file_name) in named


def _list_removals(connection: Connection) -> list[FileOwner]:
    return [FileOwner(*row) for row in connection.execute(_SQL["list_removals"])]


def _finish_removal(connection: Connection, *, owner: FileOwner) -> None:
    connection.execute(_SQL["finish_removal"], {"organization_id": owner.id})


def _unlink(path: Path) -> None:
    with translated_failures():
        unlink_database(path)
        remove_copies(path, versions=[step.version for step in load_migrations("organization")])
