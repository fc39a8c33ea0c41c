"""Copies of files as they were before a migration that rewrites tables.

A copy lies beside its file, under the file's name with the version of its schema, and is complete
from the moment it has that name. It is kept until somebody removes it, or its file is removed.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from engram import limits
from engram.errors import StoreFullError
from engram.storage.sqlite.connection import FILE_MODE, sync_directory

SUFFIX = ".copy"
_PARTIAL = ".partial"


def copy_of(path: Path, *, version: int) -> Path:
    """Return the path of the copy of a file with a version of its schema."""
    return path.with_name(f"{path.stem}.schema-{version}{SUFFIX}")


def copied_file(name: str) -> str | None:
    """Return the stem of the file that a name is a copy of; None if it is no copy."""
    stem, is_copy, version = name.removesuffix(_PARTIAL).removesuffix(SUFFIX).rpartition(".schema-")
    return stem if is_copy and version.isdigit() else None


def find_copies(path: Path, *, versions: Iterable[int]) -> list[Path]:
    """Return the copies of a file, those that were not finished included."""
    # Looked up by name: a directory may have the files of many organisations.
    named = [copy_of(path, version=version) for version in versions]
    candidates = [name for copy in named for name in (copy, _partial(copy))]
    return [candidate for candidate in candidates if candidate.exists()]


def remove_copies(path: Path, *, versions: Iterable[int]) -> list[Path]:
    """Remove the copies of a file, and return which there were."""
    copies = find_copies(path, versions=versions)
    for copy in copies:
        copy.unlink(missing_ok=True)
    if copies:
        sync_directory(path.parent)
    return copies


def keep_copy(path: Path, *, version: int) -> Path:
    """Copy a file that nobody can write meanwhile, because the caller has its write lock.

    Raises:
        StoreFullError: the disk has no room for the copy and for the migration after it.
    """
    copy = copy_of(path, version=version)
    partial = _partial(copy)
    partial.unlink(missing_ok=True)
    _require_room(path, version=version)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
    # Another connection than that of the caller: one that writes cannot be copied from.
    source = f"{path.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(source, uri=True, timeout=limits.STORE_BUSY_S)) as original,
        closing(sqlite3.connect(partial, isolation_level=None)) as target,
    ):
        original.backup(target)
    _sync(partial)
    partial.replace(copy)
    sync_directory(path.parent)
    return copy


def room_for_copy(path: Path) -> int:
    """Return the bytes that a copy takes, and the log of a migration that rewrites all of the file."""
    return 2 * stored_bytes(path)


def stored_bytes(path: Path) -> int:
    """Return the size of a file with its log."""
    log = path.with_name(f"{path.name}-wal")
    return sum(each.stat().st_size for each in (path, log) if each.exists())


def _require_room(path: Path, *, version: int) -> None:
    needed, free = room_for_copy(path), shutil.disk_usage(path.parent).free
    if free < needed:
        raise StoreFullError(
            f"{path.name} has schema {version}, and its upgrade needs {needed:,} bytes for a copy and for"
            f" the log; {free:,} are free: make room, and run `engram upgrade`"
        )


def _partial(copy: Path) -> Path:
    return copy.with_name(copy.name + _PARTIAL)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
