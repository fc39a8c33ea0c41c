"""Every named SQL statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import engram.storage
import engram.transfer
from engram.storage.queue import DOCUMENTS, JOBS, UNEMBEDDED
from engram.storage.rows.queries import load_queries

_PACKAGES = (engram.storage, engram.transfer)
_DEFINITIONS = {"migrations", "schema", "schema.sql"}
"""Folders and files that are run whole and have no named statements."""


def statement_files() -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the path of every file of named statements below its package, and the statements."""
    for package in _PACKAGES:
        folder = Path(str(package.__file__)).parent
        paths = [path.relative_to(folder) for path in folder.rglob("*.sql")]
        for path in sorted(each.as_posix() for each in paths if not _DEFINITIONS & {*each.parts}):
            if path != "queue.sql":
                yield path, load_queries(path, package=package.__name__)
    # The statements of the queue are made once for each table.
    for queue in (JOBS, UNEMBEDDED, DOCUMENTS):
        yield "queue.sql", queue.statements
