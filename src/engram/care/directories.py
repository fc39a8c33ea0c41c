"""Directory handles that never follow a link.

Every name is looked up relative to an open directory, so a directory on the way that is replaced by
a link, at whatever moment, leads nowhere.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["file", "directory", "other"]

_MODE = 0o700
_CLOSED = getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
# Opening a pipe must not wait for somebody to write into it.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_ENTER = os.O_RDONLY | _DIRECTORY | _NO_LINK | _CLOSED
_READ = os.O_RDONLY | _NO_LINK | _CLOSED | _AT_ONCE | _BINARY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _CLOSED | _BINARY
_HAS_HANDLES = os.open in os.supports_dir_fd
"""False on Windows, which has no handle of a directory: there names are looked up by their path."""


class Directory:
    """An open directory."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self.descriptor = descriptor

    def kind(self, name: str) -> Kind | None:
        """Return what is there under a name, None if there is nothing."""
        try:
            mode = self._lstat(name).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISDIR(mode):
            return "directory"
        return "file" if stat.S_ISREG(mode) else "other"

    def size(self, name: str) -> int:
        """Return the length of a file in bytes."""
        return self._lstat(name).st_size

    def names(self, *, with_links: bool = False) -> list[str]:
        """Return the names of what is there, sorted; links are left out unless asked for."""
        place = self.path if self.descriptor is None else self.descriptor
        with os.scandir(place) as entries:
            return sorted(each.name for each in entries if with_links or not each.is_symlink())

    def make(self, name: str) -> None:
        """Make a directory that only its owner may enter, unless there is something."""
        with suppress(FileExistsError):
            os.mkdir(_located(self, name), _MODE, dir_fd=self.descriptor)

    def open(self, name: str) -> Directory:
        """Open a directory below this one; the caller closes it.

        Raises:
            OSError: there is none, or a link.
        """
        return _open(self.path / name, _located(self, name), self.descriptor)

    def lock(self) -> None:
        """Wait until nobody else has locked the directory, and lock it until it is closed.

        Some systems and network file systems cannot; nothing is locked there.
        """
        if sys.platform != "win32" and self.descriptor is not None:
            import fcntl  # noqa: PLC0415 not on Windows

            with suppress(OSError):
                fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        """Let go of the directory."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def open_to_read(self, name: str) -> int:
        """Return the descriptor of a file.

        Raises:
            OSError: there is none, or a link, or a device, since opening one may do something.
        """
        if self.kind(name) == "other":
            raise OSError(errno.EINVAL, "Not a regular file")
        return os.open(_located(self, name), _READ, dir_fd=self.descriptor)

    def create(self, name: str) -> int:
        """Return the descriptor of a new file that only its owner may use.

        Raises:
            OSError: there is something.
        """
        return os.open(_located(self, name), _CREATE, 0o600, dir_fd=self.descriptor)

    def rename(self, name: str, new_name: str, *, into: Directory | None = None) -> None:
        """Give something another name, here or elsewhere; a file there is replaced."""
        target = into or self
        os.replace(
            _located(self, name),
            _located(target, new_name),
            src_dir_fd=self.descriptor,
            dst_dir_fd=target.descriptor,
        )

    def unlink(self, name: str) -> None:
        """Remove a file or a link, if there is one."""
        with suppress(FileNotFoundError):
            os.unlink(_located(self, name), dir_fd=self.descriptor)

    def remove(self, name: str) -> None:
        """Remove whatever has this name with all below it; others may be doing so too."""
        if self.kind(name) != "directory":
            self.unlink(name)
            return
        with suppress(FileNotFoundError):
            with closing(self.open(name)) as below:
                for each in below.names(with_links=True):
                    below.remove(each)
            os.rmdir(_located(self, name), dir_fd=self.descriptor)

    def _lstat(self, name: str) -> os.stat_result:
        return os.stat(_located(self, name), dir_fd=self.descriptor, follow_symlinks=False)


def _located(directory: Directory, name: str) -> str:
    """Return how to name something in a call that is given the directory's handle."""
    return str(directory.path / name) if directory.descriptor is None else name


@contextmanager
def opened_directory(path: Path, parts: Sequence[str] = ()) -> Generator[Directory]:
    """Open the directory at `path`, which may lead over links, and descend without links.

    Raises:
        OSError: there is no such directory.
    """
    # Whoever chose this path may have chosen a link; `parts` are for others to name.
    resolved = path.resolve()
    directory = _open(resolved, str(resolved), None)
    try:
        for part in parts:
            below = directory.open(part)
            directory.close()
            directory = below
        yield directory
    finally:
        directory.close()


def _open(path: Path, name: str, above: int | None) -> Directory:
    if not _HAS_HANDLES:
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise NotADirectoryError(path)
        return Directory(path, None)
    try:
        return Directory(path, os.open(name, _ENTER, dir_fd=above))
    except OSError as exc:
        if exc.errno == errno.ELOOP:  # Linux calls a link no directory, others call it a loop
            raise NotADirectoryError(exc.errno, "Not a directory", name) from exc
        raise
