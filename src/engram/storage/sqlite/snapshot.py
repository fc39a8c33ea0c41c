"""All files of a store at one instant, read while others go on writing.

The write locks of the control file and of every organisation's file are taken, so that for a moment
nobody commits: that is the instant. In each file a statement has begun to read by then, which keeps the
snapshot when the lock is released. So writers wait for the locks alone, and not for any copying.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from engram import limits
from engram.clock import Clock
from engram.errors import ConflictError, OpenFilesError, StoreBusyError, StoreReplacedError
from engram.model.backup import FileState
from engram.model.ids import OrganizationId
from engram.storage.migrations import refuse_newer
from engram.storage.private import sync_directory
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.connection import (
    create_file,
    primary_code,
    translated_failures,
)
from engram.storage.sqlite.descriptors import files_max
from engram.storage.sqlite.file import MARKED_SINCE
from engram.storage.sqlite.history import History, Mark, Position, mark_of
from engram.storage.sqlite.migrate import FileKind, load_migrations
from engram.storage.sqlite.organization_files import CONTROL_NAME

_SQL = load_queries("sqlite/snapshot.sql")
_COUNTED = ("conversations", "messages", "memories", "documents", "content_bytes")
_RETRY_S = 0.001
_PAGES_AT_ONCE = 1_024


class HeldFile:
    """A file of the store as it is at the instant."""

    def __init__(self, path: Path, *, kind: FileKind, name: str) -> None:
        self.name = name
        self._path = path
        self._kind: FileKind = kind
        # Read before the file, as always: a mark is never ahead of it.
        self._record = Mark(mark_of(path)).read()
        self._connection = _connect(path)
        self._reading: sqlite3.Cursor | None = None
        """The statement that holds the snapshot."""
        # Opens the log and its index, which takes far longer than a lock.
        self._connection.execute(_SQL["get_schema"]).fetchall()
        # Who holds the locks of other files does not wait here.
        self._connection.execute("PRAGMA busy_timeout = 0")

    def try_lock(self) -> bool:
        """Take the write lock and begin to read; return False while another process writes."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as exc:
            if primary_code(exc) != sqlite3.SQLITE_BUSY:
                raise
            return False
        self._reading = self._connection.execute(_SQL["get_schema"])
        return True

    def unlock(self) -> None:
        """Release the write lock, and keep the snapshot."""
        # SQLite keeps the read lock of a transaction that ends while a statement still reads.
        self._connection.execute("COMMIT")

    def release(self) -> None:
        """Release the lock and the snapshot."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None
        self._connection.rollback()

    def list_organizations(self) -> list[OrganizationId]:
        """Return the organisations whose files are there, from the control file."""
        return [OrganizationId(each) for (each,) in self._connection.execute(_SQL["list_files"])]

    def inspect(self) -> FileState:
        """Return the state of the file.

        Raises:
            StoreReplacedError: the file is not the one that was written here, or older.
            StoreNewerError: a newer Engram has written it.
        """
        with translated_failures():
            (version,) = self._connection.execute(_SQL["get_version"]).fetchone()
            (schema,) = self._connection.execute(_SQL["get_schema"]).fetchone()
            refuse_newer(version, load_migrations(self._kind))
            position = self._read_position(version)
            return FileState(
                version=version,
                schema=schema,
                file_id=position and position.file_id.hex(),
                commits=position.commits if position else 0,
                appended=position.appended if position else 0,
                chain=position.chain.hex() if position else "",
                counts=self._count(version),
            )

    def copy(self, target: Path) -> None:
        """Write the file to a path where there is none yet, as SQLite's own backup does."""
        with translated_failures():
            create_file(target)
            with closing(sqlite3.connect(target, isolation_level=None)) as copied:
                # A copy that is cut short is made again, so nothing has to be undone or synced.
                copied.execute("PRAGMA synchronous = OFF")
                self._connection.backup(copied, pages=_PAGES_AT_ONCE, progress=_let_signals_in)

    def close(self) -> None:
        """Let go of the file."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None
        self._connection.close()

    def _read_position(self, version: int) -> Position | None:
        if version < MARKED_SINCE[self._kind]:
            return None
        row = self._connection.execute(_SQL["get_position"]).fetchone()
        position = None if row is None or row[0] is None else Position(*row)
        return History(self._path).compare(position, self._record)

    def _count(self, version: int) -> dict[str, int]:
        if self._kind == "control" or version < len(load_migrations(self._kind)):
            return {}
        (number,) = self._connection.execute(_SQL["get_number"]).fetchone()
        row = self._connection.execute(_SQL["get_counts"], {"organization_id": number}).fetchone()
        return {} if row is None else dict(zip(_COUNTED, row, strict=True))


@dataclass(frozen=True, slots=True)
class HeldStore:
    """The files of a store at one instant, the control file first."""

    instant: datetime
    files: Sequence[HeldFile]


@contextmanager
def hold_store(directory: Path, *, clock: Clock) -> Generator[HeldStore]:
    """Yield all files of a directory at one instant.

    Raises:
        ConflictError: there is no store in the directory.
        StoreBusyError: a writer held its lock all the time.
        OpenFilesError: this process may not have so many files open.
        StoreReplacedError: a file is missing.
    """
    if not (directory / CONTROL_NAME).exists():
        raise ConflictError(f"there is no store in {directory}")
    holding = _Holding(directory)
    try:
        with translated_failures():
            instant = holding.hold(clock)
        yield HeldStore(instant, holding.files)
    finally:
        holding.close()


class _Holding:
    """Takes the locks of all files, again and again until it has them at the same time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._control: HeldFile | None = None
        self._organizations: dict[OrganizationId, HeldFile] = {}

    @property
    def files(self) -> list[HeldFile]:
        """Return the files, the control file first."""
        control = [] if self._control is None else [self._control]
        return [*control, *self._organizations.values()]

    def hold(self, clock: Clock) -> datetime:
        """Return the instant at which all locks were held."""
        control = self._control = HeldFile(
            self._directory / CONTROL_NAME, kind="control", name=CONTROL_NAME
        )
        self._follow(control.list_organizations())
        for _ in range(limits.BACKUP_LOCK_ATTEMPTS):
            deadline = time.monotonic() + limits.BACKUP_LOCK_S
            if self._lock_all(control, deadline=deadline):
                instant = clock.now()
                for file in self.files:
                    file.unlock()
                return instant
            for file in self.files:
                file.release()
            time.sleep(limits.BACKUP_LOCK_S / 2)
        raise StoreBusyError("the files of the store could not be locked together: try again")

    def close(self) -> None:
        """Let go of all files."""
        for file in self.files:
            file.close()

    def _lock_all(self, control: HeldFile, *, deadline: float) -> bool:
        # The control file first: while it is locked no organisation comes or goes.
        if not _lock(control, deadline=deadline):
            return False
        self._follow(control.list_organizations())
        return all(_lock(file, deadline=deadline) for file in self._organizations.values())

    def _follow(self, organization_ids: Sequence[OrganizationId]) -> None:
        """Open the files of organisations that are new, and close those of deleted ones."""
        for gone in self._organizations.keys() - set(organization_ids):
            self._organizations.pop(gone).close()
        _make_room(files=1 + len(organization_ids))
        for each in organization_ids:
            if each not in self._organizations:
                self._organizations[each] = _open_organization(self._directory, each)


def _open_organization(directory: Path, organization_id: OrganizationId) -> HeldFile:
    name = f"orgs/{organization_id}.db"
    try:
        return HeldFile(directory / name, kind="organization", name=name)
    except sqlite3.OperationalError as exc:
        if (directory / name).exists():
            raise
        raise StoreReplacedError(
            f"the file of the organisation '{organization_id}' is missing: run `engram doctor`"
        ) from exc


def _lock(file: HeldFile, *, deadline: float) -> bool:
    while not file.try_lock():
        if time.monotonic() > deadline:
            return False
        time.sleep(_RETRY_S)
    return True


def _let_signals_in(_status: int, _remaining: int, _total: int) -> None:
    """Do nothing, in Python: a signal that ends the process is handled here."""


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=limits.STORE_BUSY_S,
        isolation_level=None,
        cached_statements=0,
    )


def _make_room(*, files: int) -> None:
    """Let this process have so many store files open.

    Raises:
        OpenFilesError: its limit is lower.
    """
    needed = limits.OPEN_FILES_RESERVED + files * limits.FILES_PER_CONNECTION
    if (files_max() or needed) >= needed:
        return
    import resource  # noqa: PLC0415 not on every system; without it there is no limit either

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < needed:
        raise OpenFilesError(
            f"a backup of {files - 1:,} organisations at one instant needs {needed:,} file descriptors,"
            f" and this process may have {hard:,}: raise the limit (`ulimit -Hn`, or LimitNOFILE of a service)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def put_mark(path: Path, state: FileState) -> None:
    """Write the mark of a restored file, as it was when the backup was made."""
    with translated_failures():
        if state.file_id is not None:
            chain, file_id = bytes.fromhex(state.chain), bytes.fromhex(state.file_id)
            Mark(mark_of(path)).create(Position(file_id, state.commits, state.appended, chain))
        sync_directory(path.parent)
