"""Make a backup: copy the files that have changed since the last one, then write the manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shutil import rmtree
from typing import Protocol

from engram import __version__
from engram.backup.catalog import make_id, object_path, read_catalog, write_manifest
from engram.backup.destination import OBJECTS, Destination
from engram.backup.sealing import parse_recipients, seal
from engram.errors import BackupUnavailableError, ConflictError
from engram.model.backup import FileState, Manifest, StoredFile
from engram.storage.private import create_private, make_directory

STAGING = "backup-staging"
"""The directory in that of the store for copies that are being compressed."""

Advance = Callable[[int], None]
"""Called with the number of files that are done."""


class HeldFile(Protocol):
    """A file of a store at the instant of a backup."""

    @property
    def name(self) -> str:
        """Return its path below the directory of the store."""
        ...

    def inspect(self) -> FileState:
        """Return what identifies its content."""
        ...

    def copy(self, target: Path) -> None:
        """Write its content to a path where nothing is yet."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class HeldStore(Protocol):
    """All files of a store at one instant, the control file first."""

    @property
    def instant(self) -> datetime:
        """Return the instant."""
        ...

    @property
    def files(self) -> Sequence[HeldFile]:
        """Return the files."""
        ...


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that was made, and how much of it is new."""

    manifest: Manifest
    copied: int
    """Files; the others were as in the backup before."""
    copied_bytes: int
    """Stored for them."""


@contextmanager
def staging_in(home: Path) -> Generator[Path]:
    """Yield an empty directory for copies, and empty it in the end; one backup of a store is made at a time.

    Raises:
        ConflictError: another process makes one.
        BackupUnavailableError: the directory cannot be created.
    """
    staging = home / STAGING
    try:
        make_directory(staging)
        with create_private(staging / "lock") as lock:
            if not _try_lock(lock.fileno()):
                raise ConflictError("another process makes a backup of this store")
            _empty(staging)
            try:
                yield staging
            finally:
                _empty(staging)
    except OSError as exc:
        raise BackupUnavailableError(f"{staging} cannot be used: {exc.strerror}") from exc


def create_backup(
    store: HeldStore,
    destination: Destination,
    *,
    staging: Path,
    recipients: Sequence[str] = (),
    full: bool = False,
    advance: Advance,
) -> Made:
    """Make a backup of the files that a store has; with `full` all of them are copied again.

    Raises:
        ConflictError: the destination has backups of another store, or later ones.
        BackupUnavailableError: the destination cannot be used.
    """
    newest = read_catalog(destination).newest
    control, *others = store.files
    state = control.inspect()
    _refuse_other(newest, state, store.instant, place=destination.place)
    destination.prepare()
    reusable = {} if full else _reusable(destination, newest, recipients)
    maker = _Maker(destination, staging, recipients, reusable)
    files = list[StoredFile]()
    for held in (control, *others):
        files.append(maker.store(held))
        held.close()  # its log may be checkpointed again
        advance(1)
    manifest = Manifest(
        backup_id=make_id(store.instant),
        instant=store.instant,
        store_id=state.file_id or "",
        engram=__version__,
        recipients=tuple(recipients),
        files=tuple(files),
        counts=_total(files),
    )
    write_manifest(destination, manifest)
    return Made(manifest, maker.copied, maker.copied_bytes)


class _Maker:
    """Stores files that are not stored yet."""

    def __init__(
        self,
        destination: Destination,
        staging: Path,
        recipients: Sequence[str],
        reusable: Mapping[str, StoredFile],
    ) -> None:
        self._destination = destination
        self._staging = staging
        self._recipients = parse_recipients(recipients)
        self._reusable = reusable
        self.copied = 0
        self.copied_bytes = 0

    def store(self, held: HeldFile) -> StoredFile:
        """Return a file whose object is durable."""
        state = held.inspect()
        before = self._reusable.get(held.name)
        if before is not None and before.state == state:
            return before
        plain = self._staging / "plain.db"
        sealed_path = self._destination.partial(self._staging) / "object"
        held.copy(plain)
        sealed = seal(plain, sealed_path, recipients=self._recipients)
        plain.unlink()
        stored = StoredFile(
            name=held.name,
            bytes=sealed.bytes,
            sha256=sealed.sha256,
            object=sealed.object,
            stored_bytes=sealed.stored_bytes,
            state=state,
        )
        self._destination.place_object(sealed_path, object_path(stored))
        self.copied += 1
        self.copied_bytes += sealed.stored_bytes
        return stored


def _reusable(
    destination: Destination, newest: Manifest | None, recipients: Sequence[str]
) -> dict[str, StoredFile]:
    """Return the files of the last backup whose objects are still there, for the same readers."""
    if newest is None or newest.recipients != tuple(recipients):
        return {}
    present = {item.name: item.bytes for item in destination.list_items(OBJECTS)}
    return {
        file.name: file
        for file in newest.files
        if present.get(object_path(file)) == file.stored_bytes
    }


def _refuse_other(
    newest: Manifest | None, state: FileState, instant: datetime, *, place: str
) -> None:
    if newest is None:
        return
    if newest.store_id != (state.file_id or ""):
        raise ConflictError(
            f"{place} has backups of another store, or of this one before `engram doctor --accept`:"
            " choose another destination"
        )
    if newest.instant >= instant:
        raise ConflictError(
            f"{place} has a backup of a later time ({newest.backup_id}): check the clock"
        )


def _total(files: Sequence[StoredFile]) -> dict[str, int]:
    total = Counter[str]()
    for file in files:
        total.update(file.state.counts)
    return dict(total)


def _try_lock(descriptor: int) -> bool:
    try:
        import fcntl  # noqa: PLC0415 not on Windows
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _empty(staging: Path) -> None:
    """Remove what is left of a copy; the lock stays, as another process may wait for it."""
    for path in staging.iterdir():
        if path.is_dir():
            rmtree(path)
        elif path.name != "lock":
            path.unlink()
