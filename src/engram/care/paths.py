"""The one directory in which tools may read and write files, and no way out of it.

A path is resolved once, with every link in it, and must lie below the directory. Files are then
opened step by step along the resolved path without following links, so a link that is put there
in between leads nowhere.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engram.errors import (
    ConflictError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    UnavailableError,
)

PATH_CHARACTERS_MAX = 4_096
"""What common systems take."""

NAME_BYTES_MAX = 255
"""Of each part of a path, as common file systems take it."""

_CLOSED = getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
# Opening a pipe must not wait for somebody to write into it.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_READ = os.O_RDONLY | _NO_LINK | _CLOSED | _AT_ONCE | _BINARY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _CLOSED | _BINARY


class DataDirectory:
    """The directory of `ENGRAM_DATA_DIR`; None is none, and every path is refused."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    def place(self, path: str, *, field: str = "path") -> Place:
        """Return where a path leads.

        Raises:
            InvalidRequestError: there is no data directory, or the path leads out of it.
        """
        if self._root is None:
            message = "tools that use files are off here: ENGRAM_DATA_DIR is not set"
            raise InvalidRequestError(message, field=field)
        _check_path(path, field=field)
        root = self._root.resolve()
        try:
            resolved = _resolved(root / path)
        except (OSError, RuntimeError) as exc:  # links in a circle
            raise InvalidRequestError("leads nowhere", field=field) from exc
        if not resolved.is_relative_to(root):
            raise InvalidRequestError("must lie below the data directory", field=field)
        return Place(root=root, parts=resolved.relative_to(root).parts)


def _resolved(path: Path) -> Path:
    """Return where a path leads, though nothing may be there yet.

    Raises:
        OSError, RuntimeError: links lead in a circle, which only a strict look tells on Python 3.13.
    """
    try:
        return path.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return path.resolve()


def _check_path(path: str, *, field: str) -> None:
    if not path or "\0" in path:
        raise InvalidRequestError("must be a path", field=field)
    if len(path) > PATH_CHARACTERS_MAX:
        raise LimitExceededError(
            field, limit=PATH_CHARACTERS_MAX, actual=len(path), unit="characters"
        )
    if any(0xD800 <= ord(character) <= 0xDFFF for character in path):
        raise InvalidRequestError("must be a path", field=field)
    if any(len(part.encode()) > NAME_BYTES_MAX for part in Path(path).parts):
        raise InvalidRequestError(f"must have names of at most {NAME_BYTES_MAX} bytes", field=field)
    if ".." in Path(path).parts or ".." in path.replace("\\", "/").split("/"):
        raise InvalidRequestError("must not contain '..'", field=field)


@dataclass(frozen=True, slots=True)
class Place:
    """A file or directory at or below the data directory, there or not."""

    root: Path
    parts: tuple[str, ...]

    @property
    def shown(self) -> str:
        """Return the path as a caller may see it: relative to the data directory."""
        return "/".join(self.parts) or "."

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.parts[-1] if self.parts else ""

    @property
    def above(self) -> Iterator[Place]:
        """Yield the directories that this place lies in, the nearest first."""
        for length in range(len(self.parts) - 1, -1, -1):
            yield Place(self.root, self.parts[:length])

    def child(self, name: str) -> Place:
        """Return what is called `name` in this directory."""
        return Place(self.root, (*self.parts, name))

    def kind(self) -> str | None:
        """Return `file`, `directory`, `other`, or None where there is nothing."""
        try:
            mode = self.path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISDIR(mode):
            return "directory"
        return "file" if stat.S_ISREG(mode) else "other"

    def read(self, *, bytes_max: int) -> bytes:
        """Return the content of a regular file.

        Raises:
            NotFoundError: there is no file.
            InvalidRequestError: it is no regular file.
            LimitExceededError: it is longer than `bytes_max`.
        """
        with self._opened(_READ) as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(bytes_max + 1)
        if len(content) > bytes_max:
            size = max(size, len(content))
            raise LimitExceededError(self.shown, limit=bytes_max, actual=size, unit="bytes")
        return content

    def size(self) -> int:
        """Return the length of a file in bytes, 0 where there is none."""
        try:
            return self.path.lstat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def children(self) -> list[Place]:
        """Return what a directory holds, by name; links are no part of it.

        Raises:
            NotFoundError: there is no directory.
        """
        try:
            with os.scandir(self.path) as entries:
                names = sorted(entry.name for entry in entries if not entry.is_symlink())
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise NotFoundError("directory", self.shown) from exc
        return [self.child(name) for name in names]

    def make_directory(self) -> None:
        """Make this directory and those above it where they are missing.

        Raises:
            ConflictError: something else is there.
        """
        with self._changing():
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for place in (*reversed(tuple(self.above)), self):
                if place.kind() is None:
                    place.path.mkdir(mode=0o700, exist_ok=True)
                if place.kind() != "directory":
                    raise ConflictError(f"{place.shown!r} is no directory")

    def write(self, content: bytes) -> None:
        """Let the file be this content, at once: a reader sees the old one or the new one.

        Raises:
            ConflictError: something other than a file is there.
        """
        if self.kind() not in (None, "file"):
            raise ConflictError(f"{self.shown!r} is no file")
        # Two that write the same file at once, each in a thread of its own, do not meet.
        own = f".{self.name[:150]}.{os.getpid()}-{threading.get_ident()}.partial"
        partial = Place(self.root, (*self.parts[:-1], own))
        with self._changing():
            partial.path.unlink(missing_ok=True)
            with partial._opened(_CREATE) as file:
                file.write(content)
            partial.path.replace(self.path)

    def remove(self) -> None:
        """Remove the file, if there is one."""
        with self._changing():
            self.path.unlink(missing_ok=True)

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Say what the system has against a change: a full disk, missing permissions."""
        try:
            yield
        except OSError as exc:
            message = f"{self.shown!r} cannot be written: {exc.strerror}"
            raise UnavailableError(message) from exc

    @property
    def path(self) -> Path:
        """Return where it is on this machine."""
        return self.root.joinpath(*self.parts)

    @contextmanager
    def _opened(self, flags: int) -> Generator[BinaryIO]:
        """Open along the resolved path; a link that appeared on it since is an error."""
        try:
            descriptor = self._descend(flags)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as exc:
            raise NotFoundError("file", self.shown) from exc
        except OSError as exc:
            message = f"{self.shown!r} cannot be opened: {exc.strerror}"
            raise InvalidRequestError(message, field="path") from exc
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InvalidRequestError(f"{self.shown!r} is no regular file", field="path")
        with os.fdopen(descriptor, "wb" if flags & os.O_CREAT else "rb") as file:
            yield file

    def _descend(self, flags: int) -> int:
        if os.open not in os.supports_dir_fd:
            return os.open(self.path, flags, 0o600)
        *directories, last = self.parts or (".",)
        above = os.open(self.root, os.O_RDONLY | _DIRECTORY | _CLOSED)
        try:
            for part in directories:
                below = os.open(part, os.O_RDONLY | _DIRECTORY | _NO_LINK | _CLOSED, dir_fd=above)
                os.close(above)
                above = below
            _refuse_device(last, above)
            return os.open(last, flags, 0o600, dir_fd=above)
        finally:
            os.close(above)


def _refuse_device(name: str, directory: int) -> None:
    """Refuse what must not even be opened: opening a device may do something."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise InvalidRequestError("must be a regular file", field="path")
