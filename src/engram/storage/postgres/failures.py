"""Translate what psycopg reports into the errors of `engram.errors`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg import errors as states

from engram.errors import (
    InvalidRequestError,
    StorageError,
    StoreBusyError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

_BY_STATE: dict[type[psycopg.Error], type[StorageError]] = {
    states.LockNotAvailable: StoreBusyError,
    states.SerializationFailure: StoreBusyError,
    states.DeadlockDetected: StoreBusyError,
    states.TooManyConnections: StoreBusyError,
    states.OutOfMemory: StoreBusyError,
    # Said by a server that keeps an organisation's rows on another.
    states.SqlclientUnableToEstablishSqlconnection: StoreUnavailableError,
    states.DiskFull: StoreFullError,
    states.DataCorrupted: StoreCorruptError,
    states.IndexCorrupted: StoreCorruptError,
}

_LOST = (
    states.AdminShutdown,
    states.CrashShutdown,
    states.CannotConnectNow,
    states.IdleSessionTimeout,
    states.IdleInTransactionSessionTimeout,
    states.ConnectionException,
    states.ConnectionFailure,
    states.ConnectionDoesNotExist,
    # A server that became a standby says so until connections find the new primary.
    states.ReadOnlySqlTransaction,
)


@contextmanager
def translated_failures() -> Generator[None]:
    """Raise the error of `engram.errors` that fits, with the driver's own as its cause."""
    try:
        yield
    except psycopg.Error as exc:
        raise _translate(exc) from exc
    except UnicodeEncodeError as exc:
        # The driver met it in a value; drafts are checked before, but any text may be an id.
        raise InvalidRequestError("a lone surrogate is part of no text that is stored") from exc


def is_lost(error: psycopg.Error) -> bool:
    """Return whether the connection is gone, or belongs to a server that writes no more."""
    # What libpq itself reports has no state.
    is_of_driver = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return is_of_driver or isinstance(error, _LOST)


def _translate(error: psycopg.Error) -> StorageError | InvalidRequestError:
    if isinstance(error, psycopg.DataError) and error.sqlstate is None:
        # The only value that the driver itself refuses.
        return InvalidRequestError("PostgreSQL keeps no text with a NUL character in it")
    if is_lost(error):
        return StoreUnavailableError()
    if isinstance(error, states.QueryCanceled):
        return StoreBusyError(
            "the database did not finish in time (ENGRAM_DATABASE_TIMEOUT); ask for less, or try again"
        )
    if isinstance(error, states.InsufficientPrivilege):
        return StoreReadOnlyError("the user of the database lacks a right that Engram needs")
    return _BY_STATE.get(type(error), StorageError)()
