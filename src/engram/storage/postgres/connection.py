"""Connections to PostgreSQL: addresses, the pool, the SQL dialect, and the errors of the driver."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import orjson
import psycopg
from psycopg import errors as states
from psycopg.adapt import Buffer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader, NumericLoader

from engram import errors, limits
from engram.errors import StoreBusyError, StoreCorruptError, StoreUnavailableError

Driver: TypeAlias = psycopg.Connection[Any]
T = TypeVar("T")

_DEFAULTS = {
    "application_name": "engram",
    "connect_timeout": "10",
    # A machine that vanishes closes no connection; only keepalives notice.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
# Each host that does not answer takes this long before the next is tried.
_SEVERAL_HOSTS = {"connect_timeout": "3"}
_PRIMARY = {"target_session_attrs": "read-write"}

_PREPARED_MAX = 500
"""Prepared statements that the server keeps for each connection."""

_SESSION = b"""
SET ROLE engram_app;
SET search_path = engram, pg_temp;
SELECT set_config('search_path', 'engram, ' || quote_ident(nspname) || ', pg_temp', false)
FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector';
"""
_TIMEOUTS = """
SET lock_timeout = '{lock_s}s';
SET statement_timeout = {statement_ms};
SET idle_in_transaction_session_timeout = '{idle_s}s';
"""


def complete(url: str, *, setting: str = "ENGRAM_DATABASE_URL") -> str:
    """Return the connection string of the primary, with the defaults that fail-over needs.

    Raises:
        ConfigurationError: `setting` is not a database URL.
    """
    return _complete(url, setting, _PRIMARY)


def complete_reading(url: str, *, setting: str = "ENGRAM_DATABASE_READ_URL") -> str:
    """Return the connection string of a replica.

    Raises:
        ConfigurationError: `setting` is not a database URL.
    """
    return _complete(url, setting, {})


def _complete(url: str, setting: str, of_several: Mapping[str, str]) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as exc:
        # Do not show the driver's text: it may repeat a password.
        raise errors.ConfigurationError(setting, "is not a PostgreSQL URL") from exc
    hosts = str(given.get("host") or given.get("hostaddr") or "")
    added = {**_SEVERAL_HOSTS, **of_several} if "," in hosts else {}
    return make_conninfo("", **{**_DEFAULTS, **added, **given})


_BY_STATE: dict[type[psycopg.Error], type[errors.StorageError]] = {
    states.LockNotAvailable: StoreBusyError,
    states.SerializationFailure: StoreBusyError,
    states.DeadlockDetected: StoreBusyError,
    states.TooManyConnections: StoreBusyError,
    states.OutOfMemory: StoreBusyError,
    # Raised by a coordinator that cannot reach the shard of an organisation.
    states.SqlclientUnableToEstablishSqlconnection: StoreUnavailableError,
    states.DiskFull: errors.StoreFullError,
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
    # A primary that was demoted says so until connections find the new one.
    states.ReadOnlySqlTransaction,
)


@contextmanager
def translated_failures() -> Generator[None]:
    """Translate errors of the driver into those of `engram.errors`."""
    try:
        yield
    except psycopg.Error as exc:
        raise _error_for(exc) from exc
    except UnicodeEncodeError as exc:
        # Drafts are validated before, but any text may be an id.
        message = "a lone surrogate is part of no text that is stored"
        raise errors.InvalidRequestError(message) from exc


def is_lost(error: psycopg.Error) -> bool:
    """Return True if the connection is gone, or its server no longer accepts writes."""
    # Errors of libpq itself have no SQLSTATE.
    is_of_driver = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return is_of_driver or isinstance(error, _LOST)


def _error_for(error: psycopg.Error) -> errors.EngramError:
    if isinstance(error, psycopg.DataError) and error.sqlstate is None:
        # NUL is the only value that the driver itself refuses.
        return errors.InvalidRequestError("PostgreSQL cannot store text with a NUL character")
    if is_lost(error):
        return StoreUnavailableError()
    if isinstance(error, states.QueryCanceled):
        return StoreBusyError(
            "the database did not finish in time (ENGRAM_DATABASE_TIMEOUT); ask for less, or try again"
        )
    if isinstance(error, states.InsufficientPrivilege):
        return errors.StoreReadOnlyError("the user of the database lacks a right that Engram needs")
    return _BY_STATE.get(type(error), errors.StorageError)()


# The statements of the storage rooms are in SQLite's dialect. A difference in one place is written
# there: SQLite reads `/*sqlite:*/ min(a, b) /*postgres: least(a, b) */` without its comments, and
# PostgreSQL gets the second form. Differences that are everywhere are rules below.

_TRANSLATIONS_KEPT = 4_096
"""More than there are statements; some have conditions put into them."""

_COMMENT = re.compile(r"--[^\n]*+|/\*(?!sqlite:\*/|postgres:).*?(?:\*/|\Z)", re.DOTALL)
_MARK = re.compile(r"/\*sqlite:\*/.*?(?:/\*postgres:(.*?)\*/|\Z)", re.DOTALL)
_LIST = re.compile(r"\b(NOT )?IN\s*\(SELECT value FROM json_each\(:(\w+)\)\)")
_LENGTH = re.compile(r"\bjson_array_length\(:(\w+)\)")
_VALUE = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_AS_BLOB = r"\bCAST\(((?:(?!\bAS\b).){1,200}?) AS BLOB\)"

_RULES = (
    # Hints for SQLite's planner.
    (re.compile(r"\bNOT INDEXED\b"), ""),
    (re.compile(r"(?<=\s)\+(?=[a-z])"), ""),
    (re.compile(rf"\blength\({_AS_BLOB}\)", re.DOTALL), r"octet_length(\1)"),
    # Contents are text or bytes in SQLite, and always bytes here.
    (re.compile(_AS_BLOB, re.DOTALL), r"\1"),
    (re.compile(r"\bgroup_concat\((\w+)\)"), r"string_agg(\1::text, ',')"),
    (re.compile(r"\bjson_group_array\((\w+)\)"), r"coalesce(jsonb_agg(\1), '[]')::text"),
    # psycopg would take a single one for the beginning of a placeholder.
    (re.compile(r"%"), "%%"),
)


@dataclass(frozen=True, slots=True)
class Translated:
    """A statement for psycopg, and which of its values change their form."""

    text: bytes
    lists: frozenset[str]
    """Values that are JSON lists, and become arrays."""
    has_content: bool

    def bind(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values in PostgreSQL's form."""
        if not self.lists and not self.has_content:
            return values
        changed = {name: orjson.loads(values[name]) for name in self.lists}
        if self.has_content and isinstance(content := values["content"], str):
            changed["content"] = content.encode()
        return {**values, **changed}


@lru_cache(maxsize=_TRANSLATIONS_KEPT)
def translate(statement: str) -> Translated:
    """Translate a statement to PostgreSQL's dialect and psycopg's placeholders."""
    text = _COMMENT.sub("", _MARK.sub(r"\1", _COMMENT.sub("", statement)))
    lists = frozenset(name for _, name in _LIST.findall(text))
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = _LENGTH.sub(r"cardinality(:\1)", _LIST.sub(_array_condition, text))
    text = _VALUE.sub(r"%(\1)s", text)
    return Translated(text.strip().encode(), lists, has_content="%(content)s" in text)


def _array_condition(match: re.Match[str]) -> str:
    return f"{'<> ALL' if match[1] else '= ANY'}(:{match[2]})"


class PostgresConnection:
    """One transaction; the `Connection` of the storage rooms."""

    def __init__(self, driver: Driver, *, revision: int = 0) -> None:
        self._driver = driver
        self.revision = revision
        """How many transactions have written in the organisation, as this one sees it."""

    def execute(
        self, statement: str, values: Mapping[str, Any] | Sequence[Any] = (), /
    ) -> psycopg.Cursor[Any]:
        translated = translate(statement)
        return self._driver.execute(translated.text, translated.bind(_named(values)), binary=True)

    def executemany(
        self, statement: str, rows: Iterable[Mapping[str, Any] | Sequence[Any]], /
    ) -> object:
        """Run a statement once for each row of values, without waiting in between."""
        translated = translate(statement)
        bound = [translated.bind(_named(row)) for row in rows]
        with self._driver.cursor() as cursor:
            cursor.executemany(translated.text, bound)

    def run_together(self, statements: str, values: Mapping[str, Any], /) -> tuple[Any, ...] | None:
        """Send several statements in one round trip; return the first row of the last."""
        with psycopg.ClientCursor(self._driver) as cursor:
            cursor.execute(translate(statements).text, values)
            while cursor.nextset():
                pass
            return cursor.fetchone()


def _named(values: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
    if isinstance(values, Mapping):
        return values
    if values:
        raise TypeError("values of statements have names")
    return {}


class _NumberLoader(NumericLoader):
    def load(self, data: Buffer) -> Any:
        return _number(super().load(data))


class _NumberBinaryLoader(NumericBinaryLoader):
    def load(self, data: Buffer) -> Any:
        return _number(super().load(data))


def _number(value: Decimal) -> int | float:
    """Return a sum as SQLite would."""
    return int(value) if value == value.to_integral_value() else float(value)


def connect(address: str) -> Driver:
    """Return a connection with the rights of the user in `address`."""
    return psycopg.connect(address, autocommit=True)


def set_up(driver: Driver, *, statement_s: float = 0.0) -> None:
    """Give a new connection the role, search path, timeouts and types of requests.

    A statement may take `statement_s` seconds; 0 is without limit.
    """
    driver.prepared_max = _PREPARED_MAX
    driver.execute(_SESSION)
    timeouts = _TIMEOUTS.format(
        lock_s=limits.STORE_BUSY_S,
        statement_ms=round(statement_s * 1_000),
        idle_s=limits.TRANSACTION_IDLE_S,
    )
    driver.execute(timeouts.encode())
    # All integers are bigint, and flags are integers.
    adapters = driver.adapters
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(bool, Int8BinaryDumper)
    adapters.register_loader("numeric", _NumberLoader)
    adapters.register_loader("numeric", _NumberBinaryLoader)


def fetch_value(driver: Driver, statement: str, **values: Any) -> Any:
    """Return the first column of the first row, None if there is no row."""
    row = driver.execute(translate(statement).text, values).fetchone()
    return None if row is None else row[0]


_IDLE_S = 300.0
"""How long an unused connection is kept."""


class Pool:
    """Connections that are opened on demand, and kept for the next user.

    There are never more than threads that use them. Nothing is retried in the background: while the
    database is away callers fail at once, and the first call after its return is served.
    """

    def __init__(
        self,
        address: str,
        *,
        look: Callable[[Driver], None] | None = None,
        statement_s: float = 0.0,
    ) -> None:
        """Connect to `address`, as `complete` returns it; `look` is called with each new connection.

        A statement may take `statement_s` seconds; 0 is without limit.
        """
        self._address = address
        self._statement_s = statement_s
        self._look = look
        self._lock = threading.Lock()
        self._idle: deque[tuple[float, Driver]] = deque()
        self._is_closed = False

    def close(self) -> None:
        """Close every connection; those in use are closed when they are given back."""
        self._is_closed = True
        self._drop_idle()

    def begin(self, start: Callable[[Driver], T]) -> tuple[Driver, T]:
        """Return a connection, and what `start` returned when it began a transaction in it.

        An idle connection may have been lost. Nothing has happened in it then, so a new one is tried.
        """
        idle = self._take_idle()
        if idle is not None:
            try:
                return idle, self._start(idle, start)
            except psycopg.Error as exc:
                if not is_lost(exc):
                    raise
            # The others are connections to the same server.
            self._drop_idle()
        driver = self._open()
        return driver, self._start(driver, start)

    def give_back(self, driver: Driver) -> None:
        """Take a connection back, and roll back a transaction that is open in it."""
        if not driver.closed:
            _roll_back(driver)
        expired = list[Driver]()
        with self._lock:
            if driver.closed or self._is_closed:
                expired.append(driver)
            else:
                self._idle.append((monotonic(), driver))
            while self._idle and self._idle[0][0] < monotonic() - _IDLE_S:
                expired.append(self._idle.popleft()[1])
        _close(expired)

    def _start(self, driver: Driver, start: Callable[[Driver], T]) -> T:
        try:
            return start(driver)
        except BaseException as exc:
            if isinstance(exc, psycopg.Error) and is_lost(exc):
                driver.close()
            else:
                self.give_back(driver)
            raise

    def _open(self) -> Driver:
        driver = connect(self._address)
        try:
            set_up(driver, statement_s=self._statement_s)
            if self._look is not None:
                self._look(driver)
        except BaseException:
            driver.close()
            raise
        return driver

    def _take_idle(self) -> Driver | None:
        with self._lock:
            return self._idle.pop()[1] if self._idle else None

    def _drop_idle(self) -> None:
        with self._lock:
            idle = [driver for _, driver in self._idle]
            self._idle.clear()
        _close(idle)


def _roll_back(driver: Driver) -> None:
    if driver.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return
    try:
        driver.rollback()
    except psycopg.Error:
        # Closing rolls back as well, and another is opened.
        driver.close()


def _close(drivers: Iterable[Driver]) -> None:
    for driver in drivers:
        driver.close()
