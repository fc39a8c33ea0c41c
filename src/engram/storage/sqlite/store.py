"""The store of a directory: the control file, and a file for each organisation."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Lock

from engram import limits
from engram.clock import Clock, IdSource, to_microseconds
from engram.errors import StorageError, StoreCorruptError, StoreFullError, StoreMovedError
from engram.model.access import OPERATOR, AuditNote
from engram.model.ids import OrganizationId
from engram.model.status import DueWork, Finding, KeysChanged, WorkKind
from engram.storage.bookkeeping.audit import Announce
from engram.storage.control.store import ControlStore
from engram.storage.organization import OrganizationStore
from engram.storage.private import make_directory, make_private
from engram.storage.rows.database import Connection
from engram.storage.sqlite.connection import WatchingConnection, translated_failures
from engram.storage.sqlite.due import DueEntries, claim_due, note_all, note_everything
from engram.storage.sqlite.file import SqliteFile
from engram.storage.sqlite.organization_files import (
    CONTROL_NAME,
    OrganizationFiles,
    check_control,
    is_unused,
)
from engram.storage.sqlite.word_index import Fts5WordIndex
from engram.storage.store import OpenOrganizations
from engram.storage.tenant import Tenant
from engram.storage.threads import SYSTEM_SCHEDULER, Scheduler, WorkerThreads
from engram.storage.vectors.index import MatrixIndex
from engram.vectors.matrix_cache import MatrixCache


class Revision:
    """Counts the versions of one open file that its connections have seen."""

    def __init__(self) -> None:
        self._file = object()
        self._lock = Lock()
        self._number = 0

    def seen_by(self, connection: Connection) -> Hashable:
        """Return a value that changes whenever the content that a connection reads has changed."""
        if not isinstance(connection, WatchingConnection):
            raise TypeError("the connection is not a WatchingConnection")
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        with self._lock:
            if connection.version_seen != version:
                connection.version_seen = version
                self._number += 1
            return self._file, self._number


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _OpenOrganization:
    file: SqliteFile
    store: OrganizationStore
    threads: WorkerThreads

    @property
    def is_gone(self) -> bool:
        return self.file.is_gone

    def let_go(self) -> None:
        self.threads.start(self.file.rest)


class SqliteStore:
    """The `Store` of a directory."""

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock,
        ids: IdSource,
        vector_bytes_max: int = limits.VECTOR_BYTES_MAX,
        announce: Announce | None = None,
        scheduler: Scheduler = SYSTEM_SCHEDULER,
        accept: bool = False,
    ) -> None:
        """Use a directory; `announce` is called with the audit rows that this process has stored.

        With `accept` files that contradict their marks, and those of moved organisations, are taken
        as they are, which is audited.
        """
        self._accept = accept
        self._folder = directory / "orgs"
        self._clock = clock
        self._ids = ids
        self._threads = WorkerThreads(limits.READER_THREADS_MAX, scheduler=scheduler)
        self._control_file = SqliteFile(
            directory / CONTROL_NAME, kind="control", threads=self._threads, announce=announce
        )
        self._files = OrganizationFiles(
            self._folder,
            control=self._control_file,
            threads=self._threads,
            announce=announce,
        )
        self._control = ControlStore(self._control_file, clock=clock, ids=ids, removal=self._files)
        self._vectors = MatrixIndex(MatrixCache(bytes_max=vector_bytes_max))
        self._organizations = OpenOrganizations(self._open_organization)
        self._is_open = False
        self._is_closed = False

    @property
    def control(self) -> ControlStore:
        return self._control

    async def open(self) -> None:
        if self._is_open:
            return
        await self._threads.run(partial(_make_folder, self._folder))
        is_new = await self._threads.run(partial(is_unused, self._folder.parent))
        await self._control_file.open(create=is_new or self._accept, accept=self._accept)
        await self._note_accepted(self._control_file, OrganizationId(""), note_everything)
        await self._remove_leftovers()
        self._is_open = True

    async def organization(self, organization_id: OrganizationId) -> OrganizationStore:
        return (await self._organizations.get(organization_id)).store

    async def check(self, *, by_writing: bool) -> None:
        await self._threads.run(partial(_check_room, self._control_file.path))
        await self._control.ping()
        if by_writing:
            await self._control_file.write(_rewrite_version)

    async def claim_due(
        self, kinds: Sequence[WorkKind], *, lease: timedelta, limit: int
    ) -> Sequence[DueWork]:
        now = to_microseconds(self._clock.now())
        return await claim_due(self._control_file, kinds, now=now, lease=lease, limit=limit)

    async def changes(self) -> AsyncGenerator[KeysChanged]:
        for change in ():
            yield change

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for organization in self._organizations.take_all():
            await organization.file.close()
        await self._control_file.close()
        await asyncio.to_thread(self._threads.stop)

    async def _remove_leftovers(self) -> None:
        """Finish deletions that a crash interrupted; if that fails, the store opens nevertheless."""
        try:
            await self._files.finish()
        except StorageError:
            logger.warning("files of deleted organisations are still there", exc_info=True)

    async def list_homes_away(self) -> Sequence[str]:
        return ()  # all is in one directory

    async def check_files(self) -> Sequence[Finding]:
        faults = [*await self._control_file.read(check_control), *await self._files.find_unnamed()]
        return [
            Finding(organization_id=None, check="files", message=fault, repairable=False)
            for fault in faults
        ]

    async def _note_accepted(
        self,
        file: SqliteFile,
        organization_id: OrganizationId,
        note_due: Callable[[Connection], None],
    ) -> None:
        """Audit that a file was accepted, and have its work looked for: the list of it is of other files."""
        if file.accepted is not None:
            await self._control_file.write(note_due)
            note = AuditNote(
                organization_id=organization_id,
                at=self._clock.now(),
                actor=OPERATOR,
                action="accept_file",
                subject=file.path.name,
                details={"fault": file.accepted},
            )
            await self._control.record_audit([note])

    async def _open_organization(self, organization_id: OrganizationId) -> _OpenOrganization:
        file, owner = await self._files.open(organization_id, accept=self._accept)
        note_due = partial(note_all, organization_id=organization_id)
        await self._note_accepted(file, organization_id, note_due)
        tenant = Tenant(
            number=owner.number,
            id=owner.id,
            database=file,
            words=Fts5WordIndex(),
            clock=self._clock,
            ids=self._ids,
            due_list=DueEntries(self._control_file, owner.id),
        )
        store = OrganizationStore(tenant, vectors=self._vectors, revision_of=Revision().seen_by)
        try:
            # An organisation that was moved is not changed any more, and is read as it is.
            with suppress(StoreMovedError):
                await store.prepare()
        except BaseException:
            self._threads.start(file.rest)
            raise
        return _OpenOrganization(file, store, self._threads)


def _make_folder(folder: Path) -> None:
    with translated_failures():
        make_private(folder.parent)
        make_directory(folder)


def _check_room(path: Path) -> None:
    """Refuse a directory that is gone, or whose disk is full.

    A write alone would not show it: it may go to the old file, or fit into the log as it is.
    """
    with translated_failures():
        if not path.exists():
            raise StoreCorruptError(
                f"the file {path.name} is missing: restore a backup (`engram restore`)"
            )
        if shutil.disk_usage(path.parent).free < limits.FREE_BYTES_MIN:
            raise StoreFullError("the disk is full; nothing can be stored")


def _rewrite_version(connection: Connection) -> None:
    """Write a page without a change."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version}")
