r"""The spool: a file of records that hooks append to and one engine at a time drains.

A record is a line that one `write` appends; it begins with a line break too, so that a line which a full disk
cut off does not spoil the next one. Nothing is synced: a record only says which transcript to read again, and
whoever loses power finds the transcript itself no further than the record. A process that is killed loses
nothing that it had written.

A drainer renames the file, then locks it, which waits for those who are just appending; who comes later
sees by the lock or by the name that the file is not the spool any more, and opens a new one. What was
renamed stays until everything in it is imported, so a drainer that dies is followed by another.
"""

from __future__ import annotations

import json
import os

from engram import limits
from engram.hooks.places import make_spool_directory, spool_directory

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without locks has no engine either
    fcntl = None

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

WAITING, DRAINING = "spool", "spool.draining"
_LOCK = "spool.lock"
_ATTEMPTS = 20


class SpoolFullError(OSError):
    """The spool has reached its bound: nothing has drained it for very long."""


def append(home: str, record: Mapping[str, Any]) -> None:
    """Append a record to the spool of a store.

    Raises:
        OSError: it cannot be written, or is full.
    """
    directory = make_spool_directory(home)
    line = b"\n" + json.dumps(record, separators=(",", ":")).encode() + b"\n"
    for _ in range(_ATTEMPTS):
        if _append(os.path.join(directory, WAITING), line):
            return
    raise SpoolFullError("the spool is renamed again and again")


def _append(path: str, line: bytes) -> bool:
    """Write a line to the file; return False if it is not the spool any more."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if not _lock(descriptor, shared=True) or not _is_same(descriptor, path):
            return False
        if os.fstat(descriptor).st_size > limits.SPOOL_BYTES_MAX:
            raise SpoolFullError("the spool is full")
        written = os.write(descriptor, line)
        if written < len(line):
            raise SpoolFullError("the disk is full")
        return True
    finally:
        os.close(descriptor)


def _is_same(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(descriptor: int, *, shared: bool) -> bool:
    """Lock a file until it is closed; return False if someone else holds it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Drain:
    """The right of one process to drain a spool, for as long as it is open."""

    def __init__(self, home: str) -> None:
        self._directory = spool_directory(home)
        self._lock: int | None = None

    def open(self) -> bool:
        """Take the right; return False if there is nothing to drain, or another process drains."""
        if not any(map(self._has, (WAITING, DRAINING))):
            return False
        path = os.path.join(self._directory, _LOCK)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if not _lock(descriptor, shared=False):
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    def close(self) -> None:
        """Give the right back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def take(self) -> list[dict[str, Any]] | None:
        """Return the records to import next, those of a drainer that died first; None if none wait.

        Raises:
            BlockingIOError: someone is just appending; try again.
        """
        taken = os.path.join(self._directory, DRAINING)
        if not self._has(DRAINING):
            if not self._has(WAITING):
                return None
            os.rename(os.path.join(self._directory, WAITING), taken)
        descriptor = os.open(taken, os.O_RDONLY)
        try:
            if not _lock(descriptor, shared=False):
                raise BlockingIOError("a hook is appending to the spool")
            return list(_records(_read_all(descriptor)))
        finally:
            os.close(descriptor)

    def finish(self) -> None:
        """Remove the records that were taken: everything in them is imported."""
        os.unlink(os.path.join(self._directory, DRAINING))

    def _has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self._directory, name))


def _records(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records that are whole."""
    for line in data.split(b"\n"):
        try:
            record = json.loads(line) if line.strip() else None
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def _read_all(descriptor: int) -> bytes:
    pieces = list[bytes]()
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)
