"""Files and directories below a base, reached without ever following a link.

Every name is looked up relative to an open directory, so a directory on the way that is replaced by
a link, at any time, cannot lead elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from engram import errors, limits

Kind: TypeAlias = Literal["file", "directory", "other"]

PATH_CHARACTERS_MAX = 4_096
"""The limit of common systems."""

NAME_BYTES_MAX = 255
"""Of each part of a path, the limit of common file systems."""

_MODE = 0o700
_CLOSE = getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
# Opening a pipe must not block until another process writes to it.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_ENTER = os.O_RDONLY | _DIRECTORY | _NO_LINK | _CLOSE
_READ = os.O_RDONLY | _NO_LINK | _CLOSE | _AT_ONCE | _BINARY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _CLOSE | _BINARY
_HAS_HANDLES = os.open in os.supports_dir_fd
"""False on Windows, which has no handle of a directory: there names are looked up by their path."""


class Directory:
    """An open directory."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self.descriptor = descriptor

    def kind(self, name: str) -> Kind | None:
        """Return the kind of the entry of this name, None if there is none."""
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
        """Return the names in the directory, sorted; links are left out unless asked for."""
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as entries:
            return sorted(each.name for each in entries if with_links or not each.is_symlink())

    def make(self, name: str) -> None:
        """Make a directory that only its owner may enter, unless the name is taken."""
        with suppress(FileExistsError):
            os.mkdir(self.located(name), _MODE, dir_fd=self.descriptor)

    def open(self, name: str) -> Directory:
        """Open a directory below this one, which the caller closes; raise OSError for a link."""
        return _open_directory(self.path / name, self.located(name), self.descriptor)

    def lock(self) -> None:
        """Lock the directory until it is closed; wait while another process has locked it.

        Does nothing on systems and network file systems without locks.
        """
        if sys.platform != "win32" and self.descriptor is not None:
            import fcntl  # noqa: PLC0415 not on Windows

            with suppress(OSError):
                fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        """Close the handle."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def open_to_read(self, name: str) -> int:
        """Return the descriptor of a file; raise OSError for a link or a device.

        Opening a device may do something.
        """
        if self.kind(name) == "other":
            raise OSError(errno.EINVAL, "Not a regular file")
        return os.open(self.located(name), _READ, dir_fd=self.descriptor)

    def create(self, name: str) -> int:
        """Return the descriptor of a new file that only its owner may use."""
        return os.open(self.located(name), _CREATE, 0o600, dir_fd=self.descriptor)

    def rename(self, name: str, new_name: str, *, into: Directory | None = None) -> None:
        """Rename something, here or into another directory; a file there is replaced."""
        target = into or self
        os.replace(
            self.located(name),
            target.located(new_name),
            src_dir_fd=self.descriptor,
            dst_dir_fd=target.descriptor,
        )

    def unlink(self, name: str) -> None:
        """Remove a file or a link, if there is one."""
        with suppress(FileNotFoundError):
            os.unlink(self.located(name), dir_fd=self.descriptor)

    def remove(self, name: str) -> None:
        """Remove whatever has this name with all below it; others may be doing so too."""
        if self.kind(name) != "directory":
            self.unlink(name)
            return
        with suppress(FileNotFoundError):
            with closing(self.open(name)) as below:
                for each in below.names(with_links=True):
                    below.remove(each)
            os.rmdir(self.located(name), dir_fd=self.descriptor)

    def _lstat(self, name: str) -> os.stat_result:
        return os.stat(self.located(name), dir_fd=self.descriptor, follow_symlinks=False)

    def located(self, name: str) -> str:
        """Return the path of an entry for a call that is given the directory's handle."""
        return str(self.path / name) if self.descriptor is None else name


def _open_directory(path: Path, name: str, above: int | None) -> Directory:
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


@contextmanager
def opened_directory(base: Path, parts: Sequence[str] = ()) -> Generator[Directory]:
    """Open the directory at `base`, which may lead over links, and descend without links."""
    # Whoever chose the base may have chosen a link; `parts` are for others to name.
    resolved = base.resolve()
    directory = _open_directory(resolved, str(resolved), None)
    try:
        for part in parts:
            below = directory.open(part)
            directory.close()
            directory = below
        yield directory
    finally:
        directory.close()


@dataclass(frozen=True, slots=True)
class SafePath:
    """The path of a file or directory, there or not: `parts` below `base`, without links."""

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

    def child(self, name: str) -> SafePath:
        """Return the path of `name` in this directory."""
        return SafePath(self.base, (*self.parts, name), self.hidden)

    def refuse_links(self, *, field: str) -> None:
        """Refuse a path with a link in it early, with a clear error; later it would just not be found.

        Raises:
            InvalidRequestError: there is one.
        """
        for length in range(1, len(self.parts) + 1):
            above = SafePath(self.base, self.parts[:length], self.hidden)
            try:
                is_link = self.base.joinpath(*above.parts).is_symlink()
            except OSError as exc:  # all parts together are too long for the system
                raise errors.InvalidRequestError("leads nowhere", field=field) from exc
            if is_link:
                message = f"{above.shown!r} is a link, and links are not followed"
                raise errors.InvalidRequestError(message, field=field)

    def kind(self) -> Kind | None:
        """Return the kind of what is at the path, None if there is nothing."""
        try:
            with self._parent() as directory:
                return directory.kind(self.name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def size(self) -> int:
        """Return the length of a file in bytes, 0 where there is none."""
        try:
            with self._parent() as directory:
                return directory.size(self.name)
        except (FileNotFoundError, NotADirectoryError):
            return 0

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
            raise errors.LimitExceededError(self.shown, limit=bytes_max, actual=size, unit="bytes")
        return content

    def children(self) -> list[SafePath]:
        """Return the entries of a directory, sorted by name, without links.

        Raises:
            NotFoundError: there is no directory.
        """
        try:
            with opened_directory(self.base, self.parts) as directory:
                return [self.child(name) for name in directory.names()]
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise errors.NotFoundError("directory", self.shown) from exc

    def make_directory(self) -> None:
        """Make this directory and those above it where they are missing.

        Raises:
            ConflictError: something else is there.
        """
        with self._changing():
            self.base.mkdir(mode=_MODE, parents=True, exist_ok=True)
            for length in range(len(self.parts)):
                try:
                    with opened_directory(self.base, self.parts[:length]) as directory:
                        directory.make(self.parts[length])
                except NotADirectoryError as exc:
                    raise errors.ConflictError(f"{self.shown!r} is not below directories") from exc
            if self.kind() != "directory":
                raise errors.ConflictError(f"{self.shown!r} is not a directory")

    def write(self, content: bytes) -> None:
        """Replace the file atomically: a reader sees the old content or the new one.

        Raises:
            ConflictError: something other than a file is there.
        """
        # Two that write the same file at once, each in a thread of its own, do not meet.
        partial = f".{self.name[:150]}.{os.getpid()}-{threading.get_ident()}.partial"
        with self._changing(), self._parent() as directory:
            if directory.kind(self.name) not in (None, "file"):
                raise errors.ConflictError(f"{self.shown!r} is not a file")
            directory.unlink(partial)
            with os.fdopen(directory.create(partial), "wb") as file:
                file.write(content)
            directory.rename(partial, self.name)

    def remove(self) -> None:
        """Remove the file, if there is one."""
        with self._changing(), self._parent() as directory:
            directory.unlink(self.name)

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Translate errors of a change, such as a full disk or missing permissions."""
        try:
            yield
        except OSError as exc:
            message = f"{self.shown!r} cannot be written: {exc.strerror}"
            raise errors.UnavailableError(message) from exc

    @contextmanager
    def _parent(self) -> Generator[Directory]:
        with opened_directory(self.base, self.parts[:-1]) as directory:
            yield directory

    @contextmanager
    def _opened(self) -> Generator[BinaryIO]:
        try:
            with self._parent() as directory:
                descriptor = directory.open_to_read(self.name)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as exc:
            raise errors.NotFoundError("file", self.shown) from exc
        except OSError as exc:
            message = f"{self.shown!r} cannot be opened: {exc.strerror}"
            raise errors.InvalidRequestError(message, field="path") from exc
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise errors.InvalidRequestError(f"{self.shown!r} is not a regular file", field="path")
        with os.fdopen(descriptor, "rb") as file:
            yield file


def path_on_machine(path: Path) -> SafePath:
    """Return any path of this machine, for commands of its user; links are resolved now."""
    resolved = path.expanduser().resolve()
    base = next((above for above in resolved.parents if above.is_dir()), resolved)
    return SafePath(base, resolved.relative_to(base).parts)


def parse_path(path: str, *, field: str) -> tuple[str, ...]:
    """Return the parts of a relative path that leads downwards.

    Raises:
        InvalidRequestError: it is none.
    """
    if not path or "\0" in path or any(0xD800 <= ord(character) <= 0xDFFF for character in path):
        raise errors.InvalidRequestError("must be a path", field=field)
    _check_limit(field, len(path), limit=PATH_CHARACTERS_MAX, unit="characters")
    if Path(path).anchor:
        raise errors.InvalidRequestError("must be relative to your directory", field=field)
    if ".." in path.replace("\\", "/").split("/"):
        raise errors.InvalidRequestError("must not contain '..'", field=field)
    parts = Path(path).parts
    if any(len(part.encode()) > NAME_BYTES_MAX for part in parts):
        message = f"must have names of at most {NAME_BYTES_MAX} bytes"
        raise errors.InvalidRequestError(message, field=field)
    _check_limit(field, len(parts), limit=limits.PATH_PARTS_MAX, unit="names")
    return parts


def _check_limit(field: str, actual: int, *, limit: int, unit: str) -> None:
    if actual > limit:
        raise errors.LimitExceededError(field, limit=limit, actual=actual, unit=unit)
