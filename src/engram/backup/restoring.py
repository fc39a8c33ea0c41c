"""Restore a backup to an empty directory; only at the end does it become a store that opens.

A file gets its place when its hashes are proved and its mark is written, the control file last: without
it no store opens where files of organisations are. A marker says which backup is being restored, so
that an interrupted restore is resumed by the same command.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engram.backup.catalog import CONTROL_NAME, object_path
from engram.backup.creating import STAGING, Advance
from engram.backup.destination import OBJECTS, Destination
from engram.backup.record import FILE_NAME as RECORD
from engram.backup.sealing import unseal
from engram.errors import (
    BackupDamagedError,
    BackupUnavailableError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
)
from engram.model.backup import FileState, Manifest, StoredFile
from engram.storage.private import create_private, make_directory, replace_durably, sync_directory

if TYPE_CHECKING:
    from engram.backup.sealing import AnyIdentity

MARKER = "engram.restoring"
_PARTIAL = "restoring.partial"
_HARMLESS = frozenset({"engram.toml", "engine", "clients", "hooks", RECORD, STAGING, _PARTIAL})
"""What a directory may have beside a store, and keeps; not the ledger of imports, which would be ahead."""

PutMark = Callable[[Path, FileState], None]
"""Writes the mark of a file that is about to get its place."""


def check_objects(manifest: Manifest, destination: Destination) -> None:
    """Check that every object of a backup is there, and of its size.

    Raises:
        BackupDamagedError: one is not; names the first.
    """
    present = {item.name: item.bytes for item in destination.list_items(OBJECTS)}
    for file in manifest.files:
        found = present.get(object_path(file))
        if found != file.stored_bytes:
            fault = "is missing" if found is None else f"has {found:,} bytes"
            raise BackupDamagedError(f"the object of {file.name} {fault}: {file.object}")


def restore_backup(
    manifest: Manifest,
    destination: Destination,
    target: Path,
    *,
    identities: Sequence[AnyIdentity],
    put_mark: PutMark,
    advance: Advance,
) -> None:
    """Restore a backup to a directory without a store.

    Raises:
        ConflictError: there is something in the directory.
        BackupDamagedError: the backup is damaged; nothing of it is left in the directory.
        BackupUnavailableError: it cannot be read or written now; the same call resumes.
    """
    check_objects(manifest, destination)
    with _translated(target):
        if _is_complete(target, manifest):
            (target / MARKER).unlink()
            return
        _claim(target, manifest)
        restorer = _Restorer(destination, target, identities, put_mark)
        try:
            for file in _control_last(manifest.files):
                restorer.restore(file)
                advance(1)
        except (BackupDamagedError, InvalidRequestError):
            _undo(target, manifest)
            raise
        (target / MARKER).unlink()
        sync_directory(target)


class _Restorer:
    """Puts files in their places."""

    def __init__(
        self,
        destination: Destination,
        target: Path,
        identities: Sequence[AnyIdentity],
        put_mark: PutMark,
    ) -> None:
        self._destination = destination
        self._target = target
        self._identities = identities
        self._put_mark = put_mark

    def restore(self, file: StoredFile) -> None:
        """Restore a file, unless an interrupted run has."""
        path, partial = self._target / file.name, self._target / _PARTIAL
        if path.exists():
            return
        try:
            with self._destination.open(object_path(file)) as opened:
                unseal(opened, file, partial, identities=self._identities)
        except NotFoundError as exc:
            raise BackupDamagedError(f"the object of {file.name} is missing") from exc
        self._put_mark(path, file.state)
        replace_durably(partial, path)


def _claim(target: Path, manifest: Manifest) -> None:
    """Mark a directory as one that a backup is being restored to."""
    make_directory(target)
    begun = _begun(target)
    if begun is None:
        found = sorted(path.name for path in target.iterdir() if path.name not in _HARMLESS)
        if found:
            raise ConflictError(
                f"{target} is not empty ({', '.join(found[:3])}): move it away, or restore elsewhere"
                " with --home"
            )
        with create_private(target / _PARTIAL) as file:
            file.write(manifest.backup_id.encode())
        replace_durably(target / _PARTIAL, target / MARKER)
    elif begun != manifest.backup_id:
        raise ConflictError(
            f"the backup {begun} is half restored in {target}: restore that one, or remove the directory"
        )
    make_directory(target / "orgs")


def _begun(target: Path) -> str | None:
    """Return the backup that is half restored in a directory."""
    try:
        return (target / MARKER).read_text(encoding="ascii")
    except FileNotFoundError:
        return None


def _is_complete(target: Path, manifest: Manifest) -> bool:
    """Return True if an interrupted run has restored everything: the store may be in use by now."""
    return _begun(target) == manifest.backup_id and (target / CONTROL_NAME).exists()


def _control_last(files: Iterable[StoredFile]) -> list[StoredFile]:
    return sorted(files, key=lambda file: (file.name == CONTROL_NAME, file.name))


def _undo(target: Path, manifest: Manifest) -> None:
    """Remove what was restored; the marker last, so that an interruption is continued."""
    for file in manifest.files:
        path = target / file.name
        path.unlink(missing_ok=True)
        path.with_suffix(".mark").unlink(missing_ok=True)
    (target / _PARTIAL).unlink(missing_ok=True)
    (target / "orgs").rmdir()
    (target / MARKER).unlink()


@contextmanager
def _translated(target: Path) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        raise BackupUnavailableError(f"{target} cannot be restored to: {exc.strerror}") from exc
