"""Where backups lie: the port of a destination, and directories."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from engram.errors import BackupUnavailableError, NotFoundError
from engram.storage.private import create_private, make_directory, replace_durably

MANIFESTS, OBJECTS = "manifests", "objects"
_PARTIAL = "partial"


class Item(NamedTuple):
    """Something that a destination has."""

    name: str
    bytes: int


class Destination(Protocol):
    """Stores named items; each is either complete or absent.

    Every method raises `BackupUnavailableError` if the destination cannot be used.
    """

    place: str
    """Its directory or URL, without credentials."""

    def prepare(self) -> None:
        """Create the destination if need be, and remove what an interrupted backup left half written."""
        ...

    def partial(self, staging: Path) -> Path:
        """Return the directory in which an object is written before it is placed."""
        ...

    def place_object(self, path: Path, name: str) -> None:
        """Make a written and synced file durable under a name, whatever was there; the file is gone then."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Make bytes durable under a name."""
        ...

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open an item for reading.

        Raises:
            NotFoundError: there is no such item.
        """
        ...

    def list_items(self, folder: str) -> Iterator[Item]:
        """Yield what a folder has, in any order; nothing if there is no such folder."""
        ...

    def remove(self, name: str) -> None:
        """Remove an item, if it is there."""
        ...


class DirectoryDestination:
    """The `Destination` of a directory, which only its owner may read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self.place = str(self._directory)

    def prepare(self) -> None:
        with self._translated():
            shutil.rmtree(self._directory / _PARTIAL, ignore_errors=True)
            for name in (MANIFESTS, OBJECTS, _PARTIAL):
                make_directory(self._directory / name)

    def partial(self, staging: Path) -> Path:
        del staging  # a file is renamed within its file system only
        return self._directory / _PARTIAL

    def place_object(self, path: Path, name: str) -> None:
        with self._translated():
            target = self._directory / name
            make_directory(target.parent)
            replace_durably(path, target)

    def write(self, name: str, data: bytes) -> None:
        partial = self._directory / _PARTIAL / Path(name).name
        with self._translated():
            with create_private(partial) as file:
                file.write(data)
            self.place_object(partial, name)

    @contextmanager
    def open(self, name: str) -> Generator[BinaryIO]:
        with self._translated():
            try:
                file = (self._directory / name).open("rb")
            except FileNotFoundError as exc:
                raise NotFoundError("backup", name) from exc
        with file:
            yield file

    def list_items(self, folder: str) -> Iterator[Item]:
        with self._translated():
            for path in (self._directory / folder).glob("**/*"):
                with suppress(FileNotFoundError):  # removed in the meantime
                    if path.is_file():
                        name = path.relative_to(self._directory).as_posix()
                        yield Item(name, path.stat().st_size)

    def remove(self, name: str) -> None:
        with self._translated():
            (self._directory / name).unlink(missing_ok=True)

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except OSError as exc:
            raise BackupUnavailableError(
                f"{self.place} cannot be used for backups: {exc.strerror}"
            ) from exc
