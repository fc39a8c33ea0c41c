"""Where the SQL statements of the storage rooms are."""

from __future__ import annotations

from pathlib import Path

import engram.storage

_STORAGE = Path(engram.storage.__file__).parent
_DEFINITIONS = {"migrations", "schema"}
"""Folders whose files are run whole and have no named statements."""


def statement_files() -> list[str]:
    """Return the path below `engram.storage` of every file of named statements."""
    paths = (path.relative_to(_STORAGE) for path in _STORAGE.rglob("*.sql"))
    return sorted(path.as_posix() for path in paths if not _DEFINITIONS & set(path.parts))
