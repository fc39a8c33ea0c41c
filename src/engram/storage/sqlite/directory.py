"""Make and unmake what a store keeps in its directory, so that power loss undoes neither."""

from __future__ import annotations

import os
from pathlib import Path

_DIRECTORY_MODE = 0o700


def make_directory(path: Path) -> None:
    """Create a directory only its owner may enter, with its parents, unless it exists."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
    _sync_directory(path.parent)


def unlink_database(path: Path) -> None:
    """Remove a database file and its log; what is missing already is as wanted."""
    # The database first: without it nobody takes the log for a live one.
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows has no handle for this, and journals directories itself.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
