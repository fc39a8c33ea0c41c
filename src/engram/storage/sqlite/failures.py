"""Translate what SQLite and the file system report into the errors of `engram.errors`."""

from __future__ import annotations

import errno
import sqlite3
import traceback
from collections.abc import Generator
from contextlib import contextmanager

from engram.errors import (
    InvalidRequestError,
    StorageError,
    StoreBusyError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
)

_BY_PRIMARY_CODE: dict[int, type[StorageError]] = {
    sqlite3.SQLITE_BUSY: StoreBusyError,
    sqlite3.SQLITE_LOCKED: StoreBusyError,
    # The WAL's shared memory stayed contended through all of SQLite's own retries.
    sqlite3.SQLITE_PROTOCOL: StoreBusyError,
    sqlite3.SQLITE_FULL: StoreFullError,
    sqlite3.SQLITE_READONLY: StoreReadOnlyError,
    sqlite3.SQLITE_CANTOPEN: StoreReadOnlyError,
    sqlite3.SQLITE_PERM: StoreReadOnlyError,
    sqlite3.SQLITE_CORRUPT: StoreCorruptError,
    sqlite3.SQLITE_NOTADB: StoreCorruptError,
}

# SQLite says FULL for ENOSPC alone; a disk quota, a limit of file size and growth of the shared
# memory reach us as one of these, and so does a failing disk.
_PROBABLY_FULL = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)

_BY_ERRNO: dict[int | None, type[StorageError]] = {
    errno.EACCES: StoreReadOnlyError,
    errno.EPERM: StoreReadOnlyError,
    errno.EROFS: StoreReadOnlyError,
    errno.ENOSPC: StoreFullError,
    errno.EDQUOT: StoreFullError,
    errno.EFBIG: StoreFullError,
}


@contextmanager
def translated_failures() -> Generator[None]:
    """Raise the error of `engram.errors` that fits, with the driver's own as its cause."""
    try:
        yield
    except sqlite3.Error as exc:
        raise _translate_sqlite(exc) from exc
    except OSError as exc:
        kind = _BY_ERRNO.get(exc.errno, StorageError)
        raise kind from exc
    except UnicodeEncodeError as exc:
        # The driver met it in a value; drafts are checked before, but any text may be an id.
        raise InvalidRequestError("a lone surrogate is part of no text that is stored") from exc


def primary_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary result code; None for an error of the Python module itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def release_cursors(error: BaseException) -> None:
    """Drop the local variables that `error` and its causes keep alive.

    Among them may be a cursor that is not read to its end, and as long as that lives its
    connection stays at an old snapshot.
    """
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__


def _translate_sqlite(error: sqlite3.Error) -> StorageError:
    code = primary_code(error)
    if code is None:
        return StorageError()
    if error.sqlite_errorcode in _PROBABLY_FULL:
        return StoreFullError("the disk is full or cannot be written; nothing was stored")
    return _BY_PRIMARY_CODE.get(code, StorageError)()
