"""The store of a directory: the control file, and a file for each organisation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Hashable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock

from engram import limits
from engram.clock import Clock, IdSource
from engram.errors import StorageError
from engram.model.changes import Change
from engram.model.ids import OrganizationId
from engram.storage.bookkeeping.audit import Announce
from engram.storage.control.store import ControlStore
from engram.storage.organization import OrganizationStore
from engram.storage.private import make_private
from engram.storage.rows.database import Connection
from engram.storage.sqlite.connection import WatchingConnection, make_directory, translated_failures
from engram.storage.sqlite.file import SqliteFile
from engram.storage.sqlite.organization_files import OrganizationFiles
from engram.storage.sqlite.word_index import Fts5WordIndex
from engram.storage.store import OpenOrganizations
from engram.storage.tenant import Tenant
from engram.storage.threads import WorkerThreads
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
    ) -> None:
        """Use a directory; `announce` is called with the audit rows that this process has stored."""
        self._folder = directory / "orgs"
        self._clock = clock
        self._ids = ids
        self._threads = WorkerThreads(limits.READER_THREADS_MAX)
        self._control_file = SqliteFile(
            directory / "engram.db", kind="control", threads=self._threads, announce=announce
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
        await self._control_file.open(create=True)
        await self._remove_leftovers()
        self._is_open = True

    async def organization(self, organization_id: OrganizationId) -> OrganizationStore:
        return (await self._organizations.get(organization_id)).store

    def announce(self, organization_id: OrganizationId) -> None:
        """Do nothing: processes that share a directory have no notifications."""

    async def changes(self) -> AsyncGenerator[Change]:
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

    async def _open_organization(self, organization_id: OrganizationId) -> _OpenOrganization:
        file, owner = await self._files.open(organization_id)
        tenant = Tenant(
            number=owner.number,
            id=owner.id,
            database=file,
            words=Fts5WordIndex(),
            clock=self._clock,
            ids=self._ids,
        )
        store = OrganizationStore(tenant, vectors=self._vectors, revision_of=Revision().seen_by)
        try:
            await store.prepare()
        except BaseException:
            self._threads.start(file.rest)
            raise
        return _OpenOrganization(file, store, self._threads)


def _make_folder(folder: Path) -> None:
    with translated_failures():
        make_private(folder.parent)
        make_directory(folder)
