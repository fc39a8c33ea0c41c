"""Connections to PostgreSQL: addresses, settings, the SQL dialect, and the errors of the driver."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from itertools import chain, repeat
from typing import Any, TypeAlias, TypeVar

import orjson
import psycopg
from psycopg import errors as states
from psycopg.adapt import Buffer, Dumper
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format
from psycopg.types.numeric import (
    Int8BinaryDumper,
    Int8Dumper,
    NumericBinaryLoader,
    NumericLoader,
)

from engram import errors, limits
from engram.errors import StoreBusyError, StoreCorruptError, StoreUnavailableError
from engram.storage.rows.database import Connection, Cursor
from engram.storage.rows.queries import split_statements

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

_SCHEMA_OF_VECTORS = b"""
SELECT quote_ident(nspname) FROM pg_extension
JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'
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
    # A disk that does not answer, which may do so again; what is lost is another error.
    states.IoError: StoreUnavailableError,
    states.SystemError: StoreUnavailableError,
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
    # What a pooler says of a server that it cannot reach.
    states.ProtocolViolation,
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
    is_skipped = isinstance(error, states.PipelineAborted)
    return (is_of_driver and not is_skipped) or isinstance(error, _LOST)


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
        changed: dict[str, Any] = {name: _array(orjson.loads(values[name])) for name in self.lists}
        if self.has_content and isinstance(content := values["content"], str):
            changed["content"] = content.encode()
        return {**values, **changed}


@dataclass(frozen=True, slots=True)
class _BigInts:
    """An array of numbers; the driver takes a step in Python for each number of a list."""

    numbers: list[int]


def _array(values: list[Any]) -> list[Any] | _BigInts:
    is_numbers = bool(values) and all(type(each) is int for each in values)
    return _BigInts(values) if is_numbers else values


class _BigIntsDumper(Dumper):
    """Writes the binary form of `bigint[]`: a head, then each number after its size."""

    format = Format.BINARY
    oid = 1016

    def dump(self, obj: _BigInts) -> Buffer:
        count = len(obj.numbers)
        sized = chain.from_iterable(zip(repeat(8), obj.numbers))
        # One dimension without NULL, of bigint, whose first place is 1.
        return struct.pack(f">5i{'iq' * count}", 1, 0, 20, count, 1, *sized)


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


Send: TypeAlias = Callable[[Driver], psycopg.Cursor[Any]]
"""Runs a statement on a connection."""

Check: TypeAlias = Callable[[tuple[Any, ...] | None], int]
"""Returns the revision in the row that the beginning of a transaction answers, or raises."""


class PostgresConnection:
    """One transaction; the `Connection` of the storage rooms."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._revision = 0

    @property
    def revision(self) -> int:
        """How many transactions have written in the organisation, as this one sees it."""
        return self._revision

    def begin(self, statements: str, values: Mapping[str, Any], check: Check) -> None:
        """Begin a transaction whose last statement answers with a row that passes `check`."""
        self._revision = check(self.run_together(statements, values))

    def execute(self, statement: str, values: Mapping[str, Any] | Sequence[Any] = (), /) -> Cursor:
        translated = translate(statement)
        bound = translated.bind(_named(values))
        return self._ask(partial(_execute, text=translated.text, values=bound))

    def executemany(
        self, statement: str, rows: Iterable[Mapping[str, Any] | Sequence[Any]], /
    ) -> object:
        """Run a statement once for each row of values, without waiting in between."""
        translated = translate(statement)
        bound = [translated.bind(_named(row)) for row in rows]
        if bound:
            self._ask(partial(_execute_many, text=translated.text, rows=bound))

    def run_together(self, statements: str, values: Mapping[str, Any], /) -> tuple[Any, ...] | None:
        """Send several statements one by one in one round trip; return the row of the last."""
        with _pipeline(self._driver):
            *_, last = [self._ask_first(text, values) for text in texts_of(statements)]
        return last.fetchone()

    def _ask_first(self, text: bytes, values: Mapping[str, Any]) -> Cursor:
        return self._ask(partial(_execute_first, text=text, values=values))

    def _ask(self, send: Send) -> Cursor:
        return send(self._driver)


def _execute(driver: Driver, *, text: bytes, values: Mapping[str, Any]) -> psycopg.Cursor[Any]:
    return driver.execute(text, values, binary=True)


def _execute_many(
    driver: Driver, *, text: bytes, rows: Sequence[Mapping[str, Any]]
) -> psycopg.Cursor[Any]:
    cursor = driver.cursor()
    cursor.executemany(text, rows)
    return cursor


def _execute_first(
    driver: Driver, *, text: bytes, values: Mapping[str, Any]
) -> psycopg.Cursor[Any]:
    """Run one of the statements that a transaction begins with."""
    if not text.startswith(b"SET"):
        return _execute(driver, text=text, values=values)
    # SET takes no parameters: values become part of the text, which is not worth preparing.
    return psycopg.ClientCursor(driver).execute(text, values, prepare=False)


@contextmanager
def _pipeline(driver: Driver) -> Generator[None]:
    """Send the statements of a block without waiting in between; raise the first error of them.

    The driver would log a second one of a connection that is lost, which is nothing new.
    """
    failed: psycopg.Error | None = None
    try:
        with driver.pipeline():
            try:
                yield
            except psycopg.Error as exc:
                failed = exc
    except psycopg.Error as exc:
        raise failed or exc from None
    if failed is not None:
        raise failed


def own(connection: Connection) -> PostgresConnection:
    """Return a connection as that of this database.

    Raises:
        TypeError: it is of another.
    """
    if not isinstance(connection, PostgresConnection):
        raise TypeError("a connection of another database")
    return connection


@lru_cache(maxsize=_TRANSLATIONS_KEPT)
def texts_of(statements: str) -> tuple[bytes, ...]:
    """Return statements that are sent one by one, translated."""
    text = translate(statements).text.decode()
    return tuple(part.encode() for part in split_statements(text))


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
    """Give a connection that nobody else uses the role, search path, timeouts and types of requests.

    A statement may take `statement_s` seconds; 0 is without limit.
    """
    adapt(driver)
    for name, value in transaction_settings(driver, statement_s=statement_s).items():
        driver.execute(b"SELECT set_config(%s, %s, false)", (name, value))


def adapt(driver: Driver) -> None:
    """Have a connection prepare statements, and read and write numbers, as requests need it."""
    driver.prepared_max = _PREPARED_MAX
    # All integers are bigint, and flags are integers.
    adapters = driver.adapters
    # In lists, too: the driver would send all lists of a statement with the size of the first.
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(bool, Int8BinaryDumper)
    adapters.register_dumper(_BigInts, _BigIntsDumper)
    adapters.register_loader("numeric", _NumberLoader)
    adapters.register_loader("numeric", _NumberBinaryLoader)


def transaction_settings(driver: Driver, *, statement_s: float) -> dict[str, str]:
    """Return the role, search path and timeouts that every transaction of requests has."""
    row = driver.execute(_SCHEMA_OF_VECTORS).fetchone()
    path = ["engram", *(row or ()), "pg_temp"]
    return {
        "role": "engram_app",
        "search_path": ", ".join(path),
        "lock_timeout": f"{limits.STORE_BUSY_S}s",
        "statement_timeout": str(round(statement_s * 1_000)),
        "idle_in_transaction_session_timeout": f"{limits.TRANSACTION_IDLE_S}s",
    }


def read_clock(connection: Connection) -> int:
    """Return the time of the server in microseconds since 1970."""
    statement = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    return connection.execute(statement).fetchone()[0]


def fetch_value(driver: Driver, statement: str, **values: Any) -> Any:
    """Return the first column of the first row, None if there is no row."""
    row = driver.execute(translate(statement).text, values).fetchone()
    return None if row is None else row[0]
