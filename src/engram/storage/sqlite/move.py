"""A directory of SQLite files as the source or the target of a move."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from engram.clock import Clock, IdSource
from engram.errors import (
    ConflictError,
    StoreCorruptError,
    StoreReadOnlyError,
)
from engram.model.ids import OrganizationId
from engram.storage.migrations import refuse_newer
from engram.storage.private import make_directory
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.connection import translated_failures
from engram.storage.sqlite.file import FileOwner, SqliteFile, read_meta
from engram.storage.sqlite.history import History, Mark, Position, mark_of
from engram.storage.sqlite.migrate import FileKind, load_migrations
from engram.storage.sqlite.organization_files import CONTROL_NAME, is_unused, seal_organization
from engram.storage.sqlite.word_index import Fts5WordIndex
from engram.storage.tenant import Tenant
from engram.storage.threads import WorkerThreads

T = TypeVar("T")

_SQL = load_queries("sqlite/move.sql")
_THREADS = 2
_BUSY_S = 5.0


class ReadOnlyFile:
    """A file that is only read: its schema is checked, and not migrated."""

    def __init__(self, path: Path, *, kind: FileKind, owner: FileOwner | None = None) -> None:
        self._path = path
        self._kind: FileKind = kind
        self._owner = owner

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` returns for one snapshot of the file."""
        return await asyncio.to_thread(self._read, work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Raise StoreReadOnlyError."""
        del work
        raise StoreReadOnlyError

    async def rewrite(self) -> tuple[str, ...]:
        """Raise StoreReadOnlyError."""
        raise StoreReadOnlyError

    @property
    def files(self) -> tuple[str, ...]:
        """The name of the file."""
        return (self._path.name,)

    @property
    def still_held(self) -> tuple[str, ...]:
        """Nothing: nothing is deleted here."""
        return ()

    def _read(self, work: Callable[[Connection], T]) -> T:
        with translated_failures():
            connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=ro",
                uri=True,
                timeout=_BUSY_S,
                isolation_level=None,
            )
            try:
                record = Mark(mark_of(self._path)).read()
                connection.execute("BEGIN")
                self._check(connection, record)
                return work(connection)
            finally:
                connection.close()

    def _check(self, connection: sqlite3.Connection, record: Position | None) -> None:
        steps = load_migrations(self._kind)
        (version,) = connection.execute(_SQL["get_version"]).fetchone()
        refuse_newer(version, steps)
        if version < len(steps):
            raise ConflictError(
                f"{self._path.name} was written by an older Engram: run `engram upgrade` first"
            )
        meta = read_meta(connection, self._kind)
        if self._owner is not None:
            self._owner.check(meta)
        History(self._path).compare(meta and meta.position, record)


class SqliteSource:
    """The `Source` of a directory."""

    can_seal = True

    def __init__(self, directory: Path) -> None:
        self._folder = directory / "orgs"
        self._threads = WorkerThreads(_THREADS)
        self._control_path = directory / CONTROL_NAME
        self._control = ReadOnlyFile(self._control_path, kind="control")

    @property
    def control(self) -> ReadOnlyFile:
        return self._control

    async def open(self) -> None:
        """Check that there is a store to move.

        Raises:
            ConflictError: there is no store in the directory.
        """
        if not self._control_path.exists():
            raise ConflictError(f"there is no store in {self._control_path.parent}")

    async def close(self) -> None:
        """Release the threads; no file is kept open."""
        await asyncio.to_thread(self._threads.stop)

    async def seal(
        self, number: int, organization_id: OrganizationId, *, moved_to: str | None
    ) -> None:
        control = SqliteFile(self._control_path, kind="control", threads=self._threads)
        sealing = partial(seal_organization, organization_id=organization_id, moved_to=moved_to)
        await self._write(control, sealing)
        path, owner = self._folder / f"{organization_id}.db", FileOwner(number, organization_id)
        if path.exists():
            file = SqliteFile(
                path,
                kind="organization",
                threads=self._threads,
                owner=owner,
                despite_seal=True,
            )
            await self._write(file, partial(owner.seal, moved_to=moved_to))

    async def _write(self, file: SqliteFile, work: Callable[[sqlite3.Connection], None]) -> None:
        await file.open(create=False)
        try:
            await file.write(work)
        finally:
            await file.close()

    @asynccontextmanager
    async def organization(
        self, number: int, organization_id: OrganizationId
    ) -> AsyncGenerator[ReadOnlyFile | None]:
        path = self._folder / f"{organization_id}.db"
        if path.exists():
            yield ReadOnlyFile(path, kind="organization", owner=FileOwner(number, organization_id))
        elif await self._control.read(partial(_has_file, organization_id=organization_id)):
            raise StoreCorruptError(f"the file of the organisation '{organization_id}' is missing")
        else:
            yield None


class SqliteTarget:
    """The `Target` of a directory."""

    def __init__(self, directory: Path, *, clock: Clock, ids: IdSource) -> None:
        self._folder = directory / "orgs"
        self._clock = clock
        self._ids = ids
        self._threads = WorkerThreads(_THREADS)
        self._control_path = directory / CONTROL_NAME
        self._control_file = SqliteFile(self._control_path, kind="control", threads=self._threads)
        self._control: SqliteFile | ReadOnlyFile = self._control_file

    @property
    def control(self) -> SqliteFile | ReadOnlyFile:
        return self._control

    @property
    def is_new(self) -> bool:
        return not self._control_path.exists()

    @property
    def is_sqlite(self) -> bool:
        return True

    async def open(self, *, only_look: bool = False) -> None:
        """Create or migrate the directory and its control file; with `only_look`, only read them."""
        if only_look:
            self._control = ReadOnlyFile(self._control_path, kind="control")
            return
        await self._threads.run(partial(_make_folder, self._folder))
        is_new = await self._threads.run(partial(is_unused, self._folder.parent))
        await self._control_file.open(create=is_new)

    async def close(self) -> None:
        """Finish pending work and close the files."""
        await self._control_file.close()
        await asyncio.to_thread(self._threads.stop)

    @asynccontextmanager
    async def organization(
        self, number: int, organization_id: OrganizationId
    ) -> AsyncGenerator[Tenant]:
        path = self._folder / f"{organization_id}.db"
        owner = FileOwner(number, organization_id)
        file = SqliteFile(path, kind="organization", threads=self._threads, owner=owner)
        await file.open(create=True)
        try:
            yield Tenant(
                number=number,
                id=organization_id,
                database=file,
                words=Fts5WordIndex(),
                clock=self._clock,
                ids=self._ids,
            )
        finally:
            await file.close()

    async def skip_numbers(self, tenant: Tenant, numbers: Mapping[str, int]) -> None:
        def work(connection: Connection) -> None:
            for table, number in numbers.items():
                values = {"table": table, "number": number}
                connection.execute(_SQL["begin_numbers"], values)
                connection.execute(_SQL["skip_numbers"], values)

        await tenant.database.write(work)


def _has_file(connection: Connection, *, organization_id: OrganizationId) -> bool:
    values = {"organization_id": organization_id}
    row = connection.execute(_SQL["has_file"], values).fetchone()
    return row is not None and bool(row[0])


def _make_folder(folder: Path) -> None:
    with translated_failures():
        make_directory(folder)
