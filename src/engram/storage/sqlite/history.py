"""The history of a store file: the file is the one that was written here, and no older than it was.

Beside every database file lies its mark, a small file that repeats how far the history of the
database has come. A commit is recorded there before it is acknowledged, without a sync: a mark may
fall behind its file, as after power loss, and is never ahead of it. So a file that is behind its
mark has lost commits.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from engram.errors import StoreReplacedError
from engram.storage.private import FILE_MODE, sync_directory
from engram.storage.sqlite.connection import MARK_SUFFIX, WatchingConnection

_SLOTS = 8
"""More than processes that pause between their commits and their marks at the same time."""
_SLOT_BYTES = 128
_CHECKED = struct.Struct("<8s16sQQ32s")
"""Magic number and position; their checksum follows."""
_CHECKSUM = struct.Struct("<I")
_MAGIC = b"engram01"
_BINARY: int = getattr(os, "O_BINARY", 0)
_NO_CHAIN = bytes(32)

Place = tuple[int, int]
"""Device and inode of a file."""


class Position(NamedTuple):
    """How far the history of a file has come."""

    file_id: bytes
    """Random, made with the file."""
    commits: int
    """That have changed anything."""
    appended: int
    """Messages, or audit rows in the control file, those deleted since included."""
    chain: bytes
    """SHA-256 of the chain before the last commit and of what that appended."""

    def after(self, hashes: Sequence[bytes]) -> Position:
        """Return the position after a commit that appended rows with these hashes."""
        commits = self.commits + 1
        links = (self.chain, commits.to_bytes(8), *hashes)
        chain = sha256(b"".join(links)).digest()
        return Position(self.file_id, commits, self.appended + len(hashes), chain)


class _Records(NamedTuple):
    """What a mark contained, and the newest record in it."""

    content: bytes
    newest: Position | None

    def with_newest(self, position: Position, packed: bytes) -> _Records:
        """Return what it contains after a record was written."""
        start = _slot_of(position)
        content = self.content
        return _Records(content[:start] + packed + content[start + len(packed) :], position)


class OpenMark:
    """A mark that is open for one transaction."""

    def __init__(self, mark: Mark, descriptor: int) -> None:
        self._mark = mark
        self._descriptor = descriptor

    def read(self) -> Position | None:
        """Return the newest record; None if there is no valid one."""
        content = _read_at(self._descriptor, _SLOTS * _SLOT_BYTES, 0)
        known = self._mark.known
        if content != known.content:
            known = self._mark.known = _Records(content, _newest(content))
        return known.newest

    def put(self, position: Position) -> None:
        """Write a record into its slot; a torn write leaves the records of other commits."""
        packed = _packed(position)
        _write_at(self._descriptor, packed, _slot_of(position))
        self._mark.known = self._mark.known.with_newest(position, packed)

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)


class Mark:
    """The file beside a database file that repeats its position."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        self.known = _Records(b"", None)
        """What was there last. Mostly that is still so, and a comparison is quicker than eight checksums."""

    def open(self) -> OpenMark | None:
        """Return the mark for reading and writing; None if there is no such file."""
        try:
            return OpenMark(self, os.open(self._name, os.O_RDWR | _BINARY))
        except FileNotFoundError:
            return None

    def read(self) -> Position | None:
        """Return the newest record; None if there is no file or no valid record."""
        try:
            return _newest(self.path.read_bytes())
        except FileNotFoundError:
            return None

    def create(self, position: Position) -> None:
        """Write and sync the file, whatever was in it."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | _BINARY, FILE_MODE)
        mark = OpenMark(self, descriptor)
        try:
            os.write(descriptor, bytes(_SLOTS * _SLOT_BYTES))
            mark.put(position)
            os.fsync(descriptor)
        finally:
            mark.close()
        sync_directory(self.path.parent)


def _seek_and_read(descriptor: int, size: int, offset: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


def _seek_and_write(descriptor: int, content: bytes, offset: int) -> int:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, content)


# One call where the system has it; Windows has not.
_read_at = getattr(os, "pread", _seek_and_read)
_write_at = getattr(os, "pwrite", _seek_and_write)


def _slot_of(position: Position) -> int:
    return position.commits % _SLOTS * _SLOT_BYTES


def _packed(position: Position) -> bytes:
    checked = _CHECKED.pack(_MAGIC, *position)
    return checked + _CHECKSUM.pack(zlib.crc32(checked))


def _newest(content: bytes) -> Position | None:
    newest: Position | None = None
    for start in range(0, len(content) - _SLOT_BYTES + 1, _SLOT_BYTES):
        magic, *fields = _CHECKED.unpack_from(content, start)
        if magic != _MAGIC or (newest is not None and newest.commits > fields[1]):
            continue
        checked = content[start : start + _CHECKED.size]
        if _CHECKSUM.unpack_from(content, start + _CHECKED.size)[0] == zlib.crc32(checked):
            newest = Position(*fields)
    return newest


class History:
    """What this process knows of the history of one file; kept for as long as the process runs.

    Caches of the file's rows depend on it: once a file has been exchanged, it is refused until the
    process is started anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = Mark(mark_of(path))
        self._paths = (str(path), f"{path}-wal")
        self.seen: Position | None = None
        """The newest position that a transaction has read."""
        self._place: Place | None = None
        self._log_place: Place | None = None
        self._log_users = 0
        """Connections of this process that have the log open."""
        self._lock = Lock()

    def connect(self, opener: Callable[[Path], WatchingConnection]) -> WatchingConnection:
        """Open a connection to the file that earlier ones were opened to.

        Raises:
            StoreReplacedError: another file is in its place.
        """
        place = self._place or place_of(self._paths[0])
        connection = opener(self.path)
        if place_of(self._paths[0]) != place:
            connection.close()
            raise self._exchanged()
        self._place = place
        return connection

    def check(self, position: Position | None, *, seen: Position | None) -> None:
        """Refuse a position that contradicts what was `seen` before the transaction began.

        Raises:
            StoreReplacedError: it is that of another file, or an earlier one.
        """
        if seen is not None and position != seen:
            self.compare(position, seen)
        if position is not None and (self.seen is None or position.commits > self.seen.commits):
            self.seen = position

    def compare(self, position: Position | None, record: Position | None) -> Position:
        """Return a position that is the one recorded, or a later one of the same file.

        Raises:
            StoreReplacedError: it is not.
        """
        fault = find_fault(position, record)
        if position is None or fault is not None:
            raise self.refused(fault or "is empty")
        return position

    def check_place(self, connection: WatchingConnection) -> None:
        """Refuse a connection, in a transaction, to a file that is not in its place any more.

        Raises:
            StoreReplacedError: the path of the file or of its log leads elsewhere, or nowhere.
        """
        path, log_path = self._paths
        place, log_place = place_of(path), place_of(log_path)
        if connection.before_close is None:
            # SQLite opens the log with the first transaction, and keeps it while anybody has it open.
            self._count_user(log_place)
            connection.before_close = self._forget_user
        if place != self._place or log_place != self._log_place:
            raise self._exchanged()

    def refused(self, fault: str) -> StoreReplacedError:
        """Return the error for a file with a fault, with its remedies."""
        return StoreReplacedError(
            f"{self.path.name} {fault}: restore a backup (`engram restore`), or run `engram doctor --accept`"
            " to go on with what is there"
        )

    def _count_user(self, log_place: Place | None) -> None:
        with self._lock:
            if not self._log_users:
                self._log_place = log_place
            self._log_users += 1

    def _forget_user(self) -> None:
        with self._lock:
            self._log_users -= 1

    def _exchanged(self) -> StoreReplacedError:
        return StoreReplacedError(
            f"{self.path.name} was removed or exchanged while it was in use: put the store back in"
            " its place, and restart every process that uses it"
        )


def find_fault(position: Position | None, record: Position | None) -> str | None:
    """Return what a file's position contradicts in a record of its history; None if nothing."""
    if record is None:
        return "has no valid mark"
    if position is None:
        return f"is empty or of an earlier version, and had {record.commits:,} commits"
    if position.file_id != record.file_id:
        return "is another file than the one that was written here"
    if position.commits < record.commits:
        commits, rows = record.commits - position.commits, record.appended - position.appended
        return f"is older than it was: {commits:,} commits that appended {rows:,} rows are missing"
    if position.commits == record.commits and position.chain != record.chain:
        return "has another history than the one that was written here"
    return None


def first_position(*, after: Iterable[Position | None] = ()) -> Position:
    """Return where the history of a new or adopted file begins, past all that was seen of it."""
    earlier = [position for position in after if position is not None]
    commits = max((position.commits + 1 for position in earlier), default=0)
    appended = max((position.appended for position in earlier), default=0)
    return Position(os.urandom(16), commits, appended, _NO_CHAIN)


def mark_of(path: Path) -> Path:
    """Return the path of a database file's mark."""
    return path.with_suffix(MARK_SUFFIX)


def place_of(path: str) -> Place | None:
    """Return the device and inode that a path leads to; None if it leads nowhere."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path would take three times as long
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
