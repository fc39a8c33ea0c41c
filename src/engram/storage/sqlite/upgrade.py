"""What an upgrade would do to the files of a directory; nothing is changed to find out."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from engram import limits
from engram.errors import StorageError
from engram.model.ids import OrganizationId
from engram.storage.migrations import newer_error
from engram.storage.rows.queries import load_queries
from engram.storage.sqlite.connection import open_unchanged, translated_failures
from engram.storage.sqlite.copies import find_copies, remove_copies, room_for_copy, stored_bytes
from engram.storage.sqlite.migrate import FileKind, load_migrations, version_of
from engram.storage.sqlite.organization_files import CONTROL_NAME
from engram.storage.upgrade import KeptCopy, UpgradePart, UpgradePlan

_SQL = load_queries("sqlite/organization_files.sql")

T = TypeVar("T")


def plan_upgrade(directory: Path) -> UpgradePlan:
    """Return what an upgrade of a directory would do; of one without a store, nothing."""
    with translated_failures():
        files = _list_files(directory)
        parts = [_plan_file(path, directory=directory, kind=kind) for path, kind in files]
        return UpgradePlan(parts, shutil.disk_usage(directory).free if files else None)


def remove_all_copies(directory: Path) -> None:
    """Remove what earlier upgrades kept of all files."""
    with translated_failures():
        for path, kind in _list_files(directory):
            remove_copies(path, versions=_versions(kind))


def _list_files(directory: Path) -> list[tuple[Path, FileKind]]:
    """Return the control file, and the files that it names as far as they exist."""
    control = directory / CONTROL_NAME
    if not control.exists():
        return []
    ids = _read(control, _list_ids) if _read(control, version_of) else []
    paths = [directory / "orgs" / f"{organization_id}.db" for organization_id in ids]
    return [(control, "control"), *((path, "organization") for path in paths if path.exists())]


def _list_ids(connection: sqlite3.Connection) -> list[str]:
    return [organization_id for (organization_id,) in connection.execute(_SQL["list_files"])]


def _plan_file(path: Path, *, directory: Path, kind: FileKind) -> UpgradePart:
    name, steps = path.relative_to(directory).as_posix(), load_migrations(kind)
    copies = [
        KeptCopy(copy.relative_to(directory).as_posix(), copy.stat().st_size)
        for copy in find_copies(path, versions=_versions(kind))
    ]
    owner = OrganizationId(path.stem) if kind == "organization" else None
    part = UpgradePart(name, 0, len(steps), copies=copies, organization_id=owner)
    try:
        version = _read(path, version_of)
    except StorageError as exc:
        return replace(part, problem=str(exc))
    part = replace(part, version=version, pending=steps[version:])
    if version > len(steps):
        return replace(part, problem=str(newer_error(version, steps)))
    if version and part.rewrites:
        return replace(part, room_bytes=room_for_copy(path), copy_bytes=stored_bytes(path))
    # What is added fits into the space that a store has to have in any case.
    return replace(part, room_bytes=limits.FREE_BYTES_MIN if part.pending else 0)


def _versions(kind: FileKind) -> list[int]:
    return [step.version for step in load_migrations(kind)]


def _read(path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    with translated_failures(), closing(open_unchanged(path)) as connection:
        return work(connection)
