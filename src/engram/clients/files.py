"""Reading and replacing files of clients: atomically, with their mode and owner, through links."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from engram.clients.syntax import UnreadableError
from engram.limits import CLIENT_FILE_BYTES_MAX

_PRIVATE = 0o600
_OTHERS_READ = 0o044
_BOM = "\ufeff"


def read_bytes(path: Path) -> bytes | None:
    """Return the content of a file, or None if there is none.

    Raises:
        UnreadableError: it is no file, is too large, or cannot be read.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError("it is not a file")
        if status.st_size > CLIENT_FILE_BYTES_MAX:
            raise UnreadableError(f"it is larger than {CLIENT_FILE_BYTES_MAX:,} bytes")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise UnreadableError(exc.strerror or str(exc)) from exc


def as_text(content: bytes | None) -> str:
    """Return the text of a file without its byte order mark.

    Raises:
        UnreadableError: it is not UTF-8.
    """
    try:
        return (content or b"").decode().removeprefix(_BOM)
    except UnicodeDecodeError as exc:
        raise UnreadableError(f"byte {exc.start:,} is not UTF-8 text") from exc


def as_bytes(text: str, like: bytes | None) -> bytes:
    """Return a text as the content of a file, with a byte order mark if it had one.

    Raises:
        UnreadableError: it has a character that UTF-8 lacks.
    """
    try:
        mark = _BOM if (like or b"").startswith(_BOM.encode()) else ""
        return (mark + text).encode()
    except UnicodeEncodeError as exc:
        raise UnreadableError("a path is not UTF-8 text") from exc


def digest(content: bytes) -> str:
    """Return the hash that tells one content from another."""
    return hashlib.sha256(content).hexdigest()


def is_readable_by_others(path: Path) -> bool:
    """Return True if other users of the machine may read a file."""
    return hasattr(os, "geteuid") and path.exists() and bool(path.stat().st_mode & _OTHERS_READ)


def missing_directories(path: Path) -> tuple[Path, ...]:
    """Return the directories that have to be made before a file can be written, the highest first."""
    missing = list[Path]()
    directory = path.parent
    while not directory.exists():
        missing.append(directory)
        directory = directory.parent
    return tuple(reversed(missing))


def replace_bytes(path: Path, content: bytes) -> None:
    """Write a file at once, with the mode and the owner it has; a new one is its owner's alone.

    Raises:
        OSError: it cannot be written; it is as it was then.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            _take_over(descriptor, target)
            os.fsync(descriptor)
        draft.replace(target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _take_over(descriptor: int, target: Path) -> None:
    if not target.exists() or not hasattr(os, "fchown"):
        return
    old, new = target.stat(), os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def remove_file(path: Path, directories: Sequence[Path]) -> None:
    """Remove a file, and those of the directories that are empty then.

    Raises:
        OSError: it cannot be removed.
    """
    path.unlink(missing_ok=True)
    for directory in reversed(directories):
        try:
            directory.rmdir()
        except OSError:
            return  # Something else is in it.
