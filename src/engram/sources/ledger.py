"""Remembers how far files were imported, so that an unchanged file costs one look at its size.

It is a file beside the store, because paths belong to a machine. Nothing depends on it but speed: what is
read again is known by the ids of its messages.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

from engram.clock import from_microseconds, to_microseconds
from engram.model.health import ImportedSource
from engram.sources.values import Source, SourceFile

logger = logging.getLogger(__name__)

FILE_NAME = "sources.db"
_EDGE_BYTES = 4_096
"""Of the beginning of what was read and of its end, which are compared: a rewritten file differs there."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS file (
    organization TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    path         TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    read_to      INTEGER NOT NULL,
    edges        BLOB    NOT NULL,
    imported_at  INTEGER NOT NULL,
    drift        TEXT    NOT NULL,
    PRIMARY KEY (organization, source, path)
) STRICT, WITHOUT ROWID;
"""
_LOAD = """
SELECT path, state, read_to, edges, imported_at, drift FROM file
WHERE organization = :organization AND source = :source
"""
_SAVE = """
INSERT INTO file (organization, source, path, state, read_to, edges, imported_at, drift)
VALUES (:organization, :source, :path, :state, :read_to, :edges, :imported_at, :drift)
ON CONFLICT DO UPDATE SET state = excluded.state, read_to = excluded.read_to,
    edges = excluded.edges, imported_at = excluded.imported_at, drift = excluded.drift
"""


_IMPORTS = """
SELECT source, count(*), max(imported_at) FROM file
WHERE organization = :organization
GROUP BY source ORDER BY max(imported_at) DESC, source
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a file that was imported."""

    state: str
    """Size and times of the file and, of a database, of its write-ahead log."""
    read_to: int
    edges: bytes
    imported_at: datetime
    drift: Mapping[str, int]


class Ledger:
    """The imported files of one organisation."""

    def __init__(self, home: Path, *, organization: str) -> None:
        self._path = home / FILE_NAME
        self._organization = organization

    def load(self, source: Source) -> dict[Path, Entry]:
        """Return what is known of the files of a source; creates nothing."""
        if not self._path.exists():
            return {}
        values = {"organization": self._organization, "source": source.name}
        try:
            with self._open() as connection:
                rows = connection.execute(_LOAD, values).fetchall()
        except sqlite3.OperationalError:
            logger.warning("the ledger of imports cannot be read; all files are", exc_info=True)
            return {}
        except sqlite3.DatabaseError:
            logger.warning("the ledger of imports is damaged and begun again", exc_info=True)
            self._path.unlink()
            return {}
        return {
            Path(path): Entry(
                state, read_to, edges, from_microseconds(imported_at), json.loads(drift)
            )
            for path, state, read_to, edges, imported_at, drift in rows
        }

    def save(self, source: Source, entries: Mapping[Path, Entry]) -> None:
        """Record that files were imported."""
        rows = [
            {
                "organization": self._organization,
                "source": source.name,
                "path": str(path),
                "state": entry.state,
                "read_to": entry.read_to,
                "edges": entry.edges,
                "imported_at": to_microseconds(entry.imported_at),
                "drift": json.dumps(entry.drift),
            }
            for path, entry in entries.items()
        ]
        try:
            with self._open() as connection:
                connection.executemany(_SAVE, rows)
        except sqlite3.Error:
            # Nothing is lost: the files are read again, and what is stored is known.
            logger.warning("the ledger of imports cannot be written", exc_info=True)

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._path, timeout=30)) as connection, connection:
            connection.execute(_SCHEMA)
            self._path.chmod(0o600)
            yield connection


def read_drift(home: Path) -> dict[str, Counter[str]]:
    """Return the records of unknown types that imports to a store have met, by source."""
    path, met = home / FILE_NAME, dict[str, Counter[str]]()
    if not path.exists():
        return met
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        for source, drift in connection.execute("SELECT source, drift FROM file"):
            met.setdefault(source, Counter()).update(json.loads(drift))
    return {source: drift for source, drift in met.items() if drift}


def read_imports(home: Path, *, organization: str) -> tuple[ImportedSource, ...]:
    """Return what was imported to an organisation by source, the last used first; creates nothing."""
    path = home / FILE_NAME
    if not path.exists():
        return ()
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute(_IMPORTS, {"organization": organization}).fetchall()
    except sqlite3.DatabaseError:
        logger.warning("the ledger of imports cannot be read", exc_info=True)
        return ()
    return tuple(
        ImportedSource(source=source, files=files, imported_at=from_microseconds(at))
        for source, files, at in rows
    )


def state_of(path: Path) -> str:
    """Return what changes whenever a file is written.

    Raises:
        OSError: the file cannot be examined.
    """
    states = [_stat(path), *map(_stat_if_present, _companions(path))]
    return " ".join(states)


def _companions(path: Path) -> Sequence[Path]:
    """Return the files that hold what a SQLite database has not taken over yet."""
    return (path.with_name(f"{path.name}-wal"),)


def _stat(path: Path) -> str:
    found = path.stat()
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"


def _stat_if_present(path: Path) -> str:
    try:
        return _stat(path)
    except FileNotFoundError:
        return "-"


def edges_of(path: Path, read_to: int) -> bytes:
    """Return a hash of the beginning and the end of what was read of a file."""
    with path.open("rb") as file:
        head = file.read(min(_EDGE_BYTES, read_to))
        file.seek(max(0, read_to - _EDGE_BYTES))
        tail = file.read(min(_EDGE_BYTES, read_to))
    return blake2b(head + tail, digest_size=16).digest()


def plan(source: Source, path: Path, known: Entry | None) -> SourceFile | None:
    """Return from where a file is to be read; None if nothing was written to it since.

    Raises:
        OSError: the file cannot be read.
    """
    if known is None:
        return SourceFile(path=path)
    if state_of(path) == known.state:
        return None
    size = path.stat().st_size
    if source.resumes and size >= known.read_to and edges_of(path, known.read_to) == known.edges:
        return SourceFile(path=path, start=known.read_to)
    return SourceFile(path=path)
