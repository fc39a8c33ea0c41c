"""The manifest of what Engram wrote to the files of clients, and what these were before.

It is in the directory of the store. An entry is stored before the file is changed, so that whatever
was written can be taken back.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import msgspec

from engram.clients.edits import Edit, Syntax
from engram.clients.files import digest, replace_bytes
from engram.clients.registry import Scope
from engram.errors import ConfigurationError
from engram.model.value import Value

DIRECTORY = "clients"
"""The directory in that of the store."""

_FILE = "manifest.json"
_VERSION = 1


class Record(Value):
    """What was written to one file."""

    client: str
    scope: Scope
    path: str
    main: str
    """The client's configuration file; equal to `path` but for further files that go with it."""
    syntax: Syntax
    edits: tuple[Edit, ...]
    original: str | None
    """Hash of the file before, under which it is kept; None if there was no file."""
    written: str
    """Hash of the file after."""
    directories: tuple[str, ...] = ()
    """Directories that were made for it, the highest first."""
    has_key: bool = False


class _Manifest(Value):
    version: int = _VERSION
    records: tuple[Record, ...] = ()


class Manifest:
    """The records of one store."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._directory = home / DIRECTORY
        self._path = self._directory / _FILE

    @contextmanager
    def locked(self) -> Generator[None]:
        """Keep other processes from changing the manifest, and files that they read before.

        Does nothing on systems without locks.

        Raises:
            ConfigurationError: the directory cannot be made.
        """
        try:
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._directory.mkdir(mode=0o700, exist_ok=True)
            file = (self._directory / "lock").open("wb")
        except OSError as exc:
            raise ConfigurationError(str(self._directory), exc.strerror or str(exc)) from exc
        with file:
            _lock(file.fileno())
            yield

    def records(self) -> tuple[Record, ...]:
        """Return what was written and not taken back.

        Raises:
            ConfigurationError: the manifest cannot be read.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return ()
        except OSError as exc:
            raise ConfigurationError(str(self._path), exc.strerror or str(exc)) from exc
        try:
            return msgspec.json.decode(content, type=_Manifest).records
        except msgspec.MsgspecError as exc:
            raise ConfigurationError(str(self._path), f"it cannot be read: {exc}") from exc

    def find(self, path: Path) -> Record | None:
        """Return the record of a file."""
        return next((each for each in self.records() if each.path == str(path)), None)

    def add(self, record: Record, *, original: bytes | None) -> None:
        """Store a record in place of that of the same file, and the content that it refers to.

        Raises:
            OSError: it cannot be written.
        """
        if original is not None:
            kept = self._kept(digest(original))
            if not kept.exists():
                replace_bytes(kept, original)
        self._save([*(each for each in self.records() if each.path != record.path), record])

    def drop(self, path: Path) -> None:
        """Remove the record of a file, and what only that refers to.

        Raises:
            OSError: it cannot be written.
        """
        self._save([each for each in self.records() if each.path != str(path)])

    def original(self, record: Record) -> bytes | None:
        """Return the content of a file as it was before, or None if there was none.

        Raises:
            ConfigurationError: it was not kept.
        """
        if record.original is None:
            return None
        try:
            return self._kept(record.original).read_bytes()
        except OSError as exc:
            name = str(self._kept(record.original))
            raise ConfigurationError(name, exc.strerror or str(exc)) from exc

    def _kept(self, name: str) -> Path:
        return self._directory / "originals" / name

    def _save(self, records: Iterable[Record]) -> None:
        left = tuple(records)
        content = msgspec.json.format(msgspec.json.encode(_Manifest(records=left)), indent=2)
        replace_bytes(self._path, content)
        referred = {record.original for record in left}
        for kept in self._directory.glob("originals/*"):
            if kept.name not in referred:
                kept.unlink()


def _lock(descriptor: int) -> None:
    if sys.platform != "win32":
        import fcntl  # noqa: PLC0415 not on Windows

        fcntl.flock(descriptor, fcntl.LOCK_EX)
