"""Every failure Engram reports, each with a stable code.

EngramError
  InvalidRequestError        the caller can fix it; names the field
    LimitExceededError       a bound of `engram.limits` is exceeded; names the bound
      RequestTooLargeError   the call as a whole passes its bound
    NotTextError             bytes that are not UTF-8; has the offset
    ConversionError          a document that cannot be converted to text; has the reason
  UnauthenticatedError       missing, malformed, unknown, revoked or expired: one message for all
  AccessDeniedError          the key lacks a scope
    ToolsetDeniedError       the key's toolsets do not hold it
    CrossSiteError           a form of the page that another site has sent
  NotFoundError              absent, or not yours: same words
  ConflictError              the state of the store forbids it
    IdempotencyConflictError another request was sent under the same idempotency key
    HeldError                a legal hold forbids the deletion; names the hold
  RateLimitedError           too many requests; has the time to wait
    TooManyFailedLoginsError too many wrong credentials from one address
  TooManyAtOnceError         too many requests of the organisation are queued; retry later
  TooManySessionsError       too many open SSE sessions of the key or organisation; names the bound
  QuotaExceededError         the organisation is full
  UnavailableError           cannot serve now; a retry may succeed
    ServerBusyError          too many large requests at work
    EmbedderUnavailableError the model or the service that embeds cannot be used now
    ConverterMissingError    the converter of such documents is not installed; names the extra
    LanguageModelError       the language model gave no answer; the rest still works
  StorageError               driver trouble; cause kept, text not shown
    StoreBusyError           another process is in the way; a retry may succeed
      StoreUnavailableError  the database cannot be reached, or is changing its primary
      OpenFilesError         the process has no file descriptor left; names the limit
    StoreFullError   StoreReadOnlyError   StoreNewerError
    StoreMovedError          the organisation was moved to another database; names it
    StoreCorruptError        a file is damaged
      StoreReplacedError     a file is empty, older, another one, or not in its place any more
    BackupUnavailableError   the destination of backups cannot be used; names it
    BackupDamagedError       a backup is damaged or incomplete; names what
  EmbedderMismatchError      names both identities and the remedy
  InvalidVectorError         an embedder returned an invalid vector; nothing was stored
  ConfigurationError         only while wiring; names the setting
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar


class EngramError(Exception):
    """Engram could not do this."""

    code: ClassVar[str] = "engram_error"

    def __init__(self, message: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        super().__init__(self.message)


class InvalidRequestError(EngramError):
    """The request is not valid."""

    code = "invalid_request"

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field

    def prefix_field(self, path: str) -> None:
        """Place the field below `path`."""
        dot = "." if self.field and not self.field.startswith("[") else ""
        self.field = f"{path}{dot}{self.field or ''}"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class LimitExceededError(InvalidRequestError):
    """The value is outside its bound."""

    code = "limit_exceeded"

    def __init__(self, field: str, *, limit: int, actual: int, unit: str) -> None:
        message = f"at most {limit:,} {unit} are allowed, got {actual:,}"
        super().__init__(message, field=field)
        self.limit = limit
        self.actual = actual
        self.unit = unit


class RequestTooLargeError(LimitExceededError):
    """The call is larger than one call may be."""

    code = "request_too_large"


class NotTextError(InvalidRequestError):
    """This is not text in UTF-8."""

    code = "not_text"

    def __init__(self, *, offset_bytes: int, field: str | None = None) -> None:
        message = f"this is not text in UTF-8: it cannot be read from byte {offset_bytes:,} on"
        super().__init__(message, field=field)
        self.offset_bytes = offset_bytes


class ConversionError(InvalidRequestError):
    """No text can be made of this document; it is kept as it is."""

    code = "conversion_failed"


class UnauthenticatedError(EngramError):
    """A valid API key is required."""

    code = "unauthenticated"


class AccessDeniedError(EngramError):
    """The API key does not allow this."""

    code = "insufficient_scope"

    def __init__(self, required: str) -> None:
        super().__init__(f"this needs a key with the scope '{required}'")
        self.required = required


class ToolsetDeniedError(AccessDeniedError):
    """The toolsets of the API key do not allow this."""

    code = "toolset_denied"

    def __init__(self, toolset: str) -> None:
        EngramError.__init__(self, f"this needs a key with the toolset '{toolset}'")
        self.required = toolset


class CrossSiteError(AccessDeniedError):
    """A form of the page was sent from another site."""

    code = "cross_site"

    def __init__(self) -> None:
        EngramError.__init__(
            self, "this form did not come from the page itself: open it and try again"
        )
        self.required = "same-origin"


class NotFoundError(EngramError):
    """There is no such thing here."""

    code = "not_found"

    def __init__(self, kind: str, identifier: str, *, place: str | None = None) -> None:
        super().__init__(f"no {kind} {identifier!r}" + (f" in {place}" if place else ""))
        self.kind = kind
        self.identifier = identifier


class ConflictError(EngramError):
    """The present state of the store forbids this."""

    code = "conflict"


class IdempotencyConflictError(ConflictError):
    """Another request was sent with this idempotency key within the last day."""

    code = "idempotency_conflict"


class HeldError(ConflictError):
    """A legal hold forbids this."""

    code = "held"

    def __init__(self, identifier: str, *, hold: str, reason: str) -> None:
        super().__init__(
            f"{identifier} is under the legal hold {hold} ({reason}) and can be neither deleted nor moved"
            " until that is lifted"
        )
        self.hold = hold


class RateLimitedError(EngramError):
    """Too many requests with this key."""

    code = "rate_limited"

    def __init__(self, *, retry_after_s: float, limit: int) -> None:
        super().__init__()
        self.retry_after_s = retry_after_s
        self.limit = limit


class TooManyFailedLoginsError(RateLimitedError):
    """Too many wrong credentials came from this address; try again later."""

    code = "too_many_failed_logins"


class TooManyAtOnceError(EngramError):
    """Too many requests of this organisation are waiting."""

    code = "too_many_at_once"

    def __init__(self, *, waiting: int) -> None:
        super().__init__(
            f"{waiting:,} requests of this organisation wait already: send fewer at once"
        )
        self.waiting = waiting


class TooManySessionsError(EngramError):
    """Too many SSE sessions are open."""

    code = "too_many_sessions"

    def __init__(self, *, owner: str, limit: int) -> None:
        super().__init__(
            f"this {owner} has {limit:,} open SSE sessions already: close one, or use /mcp"
        )
        self.limit = limit


class QuotaExceededError(EngramError):
    """The organisation has reached its quota."""

    code = "quota_exceeded"

    def __init__(self, *, resource: str, limit: int, used: int, needed: int) -> None:
        super().__init__(
            f"the organisation's quota of {limit:,} {resource} is used up:"
            f" {used:,} are used, and {needed:,} more are needed"
        )
        self.resource = resource
        self.limit = limit
        self.used = used
        self.needed = needed


class UnavailableError(EngramError):
    """This cannot be served right now; try again."""

    code = "unavailable"


class ServerBusyError(UnavailableError):
    """Too many large requests are being served; try again."""

    code = "server_busy"


class EmbedderUnavailableError(UnavailableError):
    """Nothing can be embedded right now; words are still searched."""

    code = "embedder_unavailable"

    def __init__(self, message: str | None = None, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ConverterMissingError(UnavailableError):
    """What makes text of such documents is not installed: add the extra `documents`."""

    code = "converter_missing"


class LanguageModelError(UnavailableError):
    """The language model gave no answer."""

    code = "language_model_error"

    def __init__(
        self,
        message: str | None = None,
        *,
        is_passing: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.is_passing = is_passing
        """Whether the same question may have an answer later."""
        self.retry_after_s = retry_after_s


class StorageError(EngramError):
    """The store failed."""

    code = "storage_error"


class StoreBusyError(StorageError):
    """Another process held the store for too long; try again."""

    code = "store_busy"


class StoreUnavailableError(StoreBusyError):
    """The database cannot be reached right now; try again."""

    code = "store_unavailable"


class OpenFilesError(StoreBusyError):
    """This process has no file descriptor left: raise its limit (`ulimit -n`)."""

    code = "too_many_open_files"


class StoreFullError(StorageError):
    """The disk is full; nothing was stored."""

    code = "store_full"


class StoreReadOnlyError(StorageError):
    """The store cannot be written: check the permissions of the data directory."""

    code = "store_read_only"


class StoreCorruptError(StorageError):
    """A store file is damaged: run `engram doctor`, then restore a backup (`engram restore`)."""

    code = "store_corrupt"


class StoreReplacedError(StoreCorruptError):
    """A store file is not the one that was written: restore a backup (`engram restore`), or run `engram doctor --accept`."""

    code = "store_replaced"


class StoreMovedError(StorageError):
    """The organisation was moved to another database: use that one."""

    code = "store_moved"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"the organisation was moved to {address} and can only be read here: use the store there"
        )
        self.address = address


class StoreNewerError(StorageError):
    """The store was written by a newer Engram: install that one, or a newer one."""

    code = "store_newer"


class BackupUnavailableError(StorageError):
    """The destination of backups cannot be used."""

    code = "backup_unavailable"


class BackupDamagedError(StorageError):
    """The backup is damaged or incomplete: restore another one."""

    code = "backup_damaged"


class EmbedderMismatchError(EngramError):
    """The stored vectors come from another embedder."""

    code = "embedder_mismatch"


class InvalidVectorError(EngramError):
    """An embedder gave something that is not a vector; it was not stored."""

    code = "invalid_vector"


class ConfigurationError(EngramError):
    """A setting is wrong."""

    code = "configuration"

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(f"{setting}: {message}")
        self.setting = setting


def release_frames(error: BaseException) -> None:
    """Drop the local variables that `error` and its causes keep alive.

    Whoever waited in one of the frames for a future that failed with `error` refers to that future,
    which refers to the error: without this all of them stay until the garbage collector runs.
    """
    link: BaseException | None = error
    released = set[int]()
    while link is not None and id(link) not in released:  # nothing forbids a chain that is a circle
        released.add(id(link))
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__


def pack_error(error: EngramError) -> dict[str, Any]:
    """Return an error in JSON types, so that another process can raise it."""
    cause = error.__cause__ and str(error.__cause__)
    return {"class": type(error).__name__, "fields": vars(error), "cause": cause}


def unpack_error(packed: Mapping[str, Any]) -> EngramError:
    """Return the error that `pack_error` was given in another process."""
    kinds = {kind.__name__: kind for kind in (EngramError, *_below(EngramError))}
    error = _made(kinds[packed["class"]], packed["fields"])
    error.__cause__ = Exception(packed["cause"]) if packed["cause"] else None
    return error


def error_named(code: str, fields: Mapping[str, Any]) -> EngramError:
    """Return the error with a code, its message and its facts; a code of its own if it is unknown."""
    kinds = {kind.code: kind for kind in (EngramError, *_below(EngramError))}
    return (
        _made(kinds[code], fields)
        if code in kinds
        else _made(EngramError, {**fields, "code": code})
    )


def _made(kind: type[EngramError], fields: Mapping[str, Any]) -> EngramError:
    error = kind.__new__(kind, fields["message"])
    vars(error).update(fields)
    return error


def _below(kind: type[EngramError]) -> Iterator[type[EngramError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)
