"""Files and directories below a base, reached without following links."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engram import limits
from engram.care.directories import Directory, Kind, opened_directory
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


def machine_place(path: Path) -> Place:
    """Return a place anywhere on this machine, for commands of its user; links are resolved now."""
    resolved = path.expanduser().resolve()
    base = next((above for above in resolved.parents if above.is_dir()), resolved)
    return Place(base, resolved.relative_to(base).parts)


def parse_path(path: str, *, field: str) -> tuple[str, ...]:
    """Return the parts of a relative path that leads downwards.

    Raises:
        InvalidRequestError: it is none.
    """
    if not path or "\0" in path or any(0xD800 <= ord(character) <= 0xDFFF for character in path):
        raise InvalidRequestError("must be a path", field=field)
    if len(path) > PATH_CHARACTERS_MAX:
        raise LimitExceededError(
            field, limit=PATH_CHARACTERS_MAX, actual=len(path), unit="characters"
        )
    if Path(path).anchor:
        raise InvalidRequestError("must be relative to your directory", field=field)
    if ".." in path.replace("\\", "/").split("/"):
        raise InvalidRequestError("must not contain '..'", field=field)
    parts = Path(path).parts
    if any(len(part.encode()) > NAME_BYTES_MAX for part in parts):
        raise InvalidRequestError(f"must have names of at most {NAME_BYTES_MAX} bytes", field=field)
    if len(parts) > limits.PATH_PARTS_MAX:
        raise LimitExceededError(
            field, limit=limits.PATH_PARTS_MAX, actual=len(parts), unit="names"
        )
    return parts


@dataclass(frozen=True, slots=True)
class Place:
    """A file or directory, there or not: `parts` below `base`, reached without following links."""

    base: Path
    parts: tuple[str, ...]
    hidden: int = 0
    """How many of the first parts are not for callers to see."""

    @property
    def shown(self) -> str:
        """Return the path as a caller may see it."""
        return "/".join(self.parts[self.hidden :]) or "."

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.parts[-1] if self.parts else "."

    @property
    def path(self) -> Path:
        """Return where it is on this machine."""
        return self.base.joinpath(*self.parts)

    def child(self, name: str) -> Place:
        """Return what is called `name` in this directory."""
        return Place(self.base, (*self.parts, name), self.hidden)

    def refuse_links(self, *, field: str) -> None:
        """Refuse a path with a link in it early, with a clear error; later it would only be not found.

        Raises:
            InvalidRequestError: there is one.
        """
        for length in range(1, len(self.parts) + 1):
            above = Place(self.base, self.parts[:length], self.hidden)
            try:
                is_link = above.path.is_symlink()
            except OSError as exc:  # all parts together are too long for the system
                raise InvalidRequestError("leads nowhere", field=field) from exc
            if is_link:
                message = f"{above.shown!r} is a link, and links are not followed"
                raise InvalidRequestError(message, field=field)

    def kind(self) -> Kind | None:
        """Return what is there, None if there is nothing."""
        try:
            with self._above() as directory:
                return directory.kind(self.name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, *, bytes_max: int) -> bytes:
        """Return the content of a regular file.

        Raises:
            NotFoundError: there is no file.
            InvalidRequestError: it is no regular file.
            LimitExceededError: it is longer than `bytes_max`.
        """
        with self._opened() as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(bytes_max + 1)
        if len(content) > bytes_max:
            size = max(size, len(content))
            raise LimitExceededError(self.shown, limit=bytes_max, actual=size, unit="bytes")
        return content

    def size(self) -> int:
        """Return the length of a file in bytes, 0 where there is none."""
        try:
            with self._above() as directory:
                return directory.size(self.name)
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def children(self) -> list[Place]:
        """Return what a directory holds, by name; links are no part of it.

        Raises:
            NotFoundError: there is no directory.
        """
        try:
            with opened_directory(self.base, self.parts) as directory:
                return [self.child(name) for name in directory.names()]
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise NotFoundError("directory", self.shown) from exc

    def make_directory(self) -> None:
        """Make this directory and those above it where they are missing.

        Raises:
            ConflictError: something else is there.
        """
        with self._changing():
            self.base.mkdir(mode=0o700, parents=True, exist_ok=True)
            for length in range(len(self.parts)):
                try:
                    with opened_directory(self.base, self.parts[:length]) as directory:
                        directory.make(self.parts[length])
                except NotADirectoryError as exc:
                    raise ConflictError(f"{self.shown!r} is not below directories") from exc
            if self.kind() != "directory":
                raise ConflictError(f"{self.shown!r} is no directory")

    def write(self, content: bytes) -> None:
        """Let the file be this content, at once: a reader sees the old one or the new one.

        Raises:
            ConflictError: something other than a file is there.
        """
        # Two that write the same file at once, each in a thread of its own, do not meet.
        partial = f".{self.name[:150]}.{os.getpid()}-{threading.get_ident()}.partial"
        with self._changing(), self._above() as directory:
            if directory.kind(self.name) not in (None, "file"):
                raise ConflictError(f"{self.shown!r} is no file")
            directory.unlink(partial)
            with os.fdopen(directory.create(partial), "wb") as file:
                file.write(content)
            directory.rename(partial, self.name)

    def remove(self) -> None:
        """Remove the file, if there is one."""
        with self._changing(), self._above() as directory:
            directory.unlink(self.name)

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Say what the system has against a change: a full disk, missing permissions."""
        try:
            yield
        except OSError as exc:
            message = f"{self.shown!r} cannot be written: {exc.strerror}"
            raise UnavailableError(message) from exc

    @contextmanager
    def _above(self) -> Generator[Directory]:
        with opened_directory(self.base, self.parts[:-1]) as directory:
            yield directory

    @contextmanager
    def _opened(self) -> Generator[BinaryIO]:
        try:
            with self._above() as directory:
                descriptor = directory.open_to_read(self.name)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as exc:
            raise NotFoundError("file", self.shown) from exc
        except OSError as exc:
            message = f"{self.shown!r} cannot be opened: {exc.strerror}"
            raise InvalidRequestError(message, field="path") from exc
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InvalidRequestError(f"{self.shown!r} is no regular file", field="path")
        with os.fdopen(descriptor, "rb") as file:
            yield file
