"""Backups of a store: the state of each file, the manifest that names them, and known destinations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from engram.model.value import Value

FORMAT = "engram-backup"
FORMAT_VERSION = 1
"""Raised when an older Engram could not restore what a newer one writes."""


class FileState(Value):
    """What identifies the content of a store file: an equal state means an equal content."""

    version: int
    """Of its schema: the number of applied migrations."""
    schema: int
    """SQLite's schema cookie, which also a rewrite of the file (VACUUM) raises."""
    file_id: str | None
    """The position in the file's history, digests in hex; None before files had one."""
    commits: int
    appended: int
    chain: str
    counts: Mapping[str, int] = {}
    """Rows of an organisation; empty for the control file and for schemas of earlier versions."""


class StoredFile(Value):
    """One file of a backup, and the object that has its content."""

    name: str
    """Its path below the directory of the store."""
    bytes: int
    sha256: str
    """Of the file as it is restored."""
    object: str
    """The name of the object: the SHA-256 of its bytes, and how they are encoded."""
    stored_bytes: int
    state: FileState


class Manifest(Value):
    """A backup: everything that was acknowledged before its instant."""

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    backup_id: str
    """Its instant, in a form that sorts and suits a file name."""
    instant: datetime
    store_id: str
    """The id of the control file."""
    engram: str
    """The version that made the backup."""
    recipients: tuple[str, ...]
    """Public keys that its objects are encrypted to; none if they are not encrypted."""
    files: tuple[StoredFile, ...]
    counts: Mapping[str, int]
    """Of all organisations together."""

    @property
    def bytes(self) -> int:
        """Return the size of the restored files."""
        return sum(file.bytes for file in self.files)

    @property
    def stored_bytes(self) -> int:
        """Return the size of its objects, which other backups may share."""
        return sum({file.object: file.stored_bytes for file in self.files}.values())


class KeptBackup(Value):
    """A backup that a destination had when the last one was made there."""

    backup_id: str
    instant: datetime
    expires_at: datetime | None = None
    """When a later run will have removed it at the latest; None if backups are not removed."""


class KnownDestination(Value):
    """Where backups of a store were made, as its own record says."""

    place: str
    backups: tuple[KeptBackup, ...] = ()
    """Oldest first."""
    succeeded_at: datetime | None = None
    failed_at: datetime | None = None
    """Of the last attempt, if that failed."""
    failure: str | None = None
