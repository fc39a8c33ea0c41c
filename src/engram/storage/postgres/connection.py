"""A psycopg connection that understands the statements of the storage rooms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.adapt import Buffer
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader, NumericLoader

from engram import limits
from engram.storage.postgres.dialect import translate

_PREPARED_MAX = 500
"""Statements that the server keeps planned for each connection."""

_SESSION = b"""
SET ROLE engram_app;
SET search_path = engram, pg_temp;
SELECT set_config('search_path', 'engram, ' || quote_ident(nspname) || ', pg_temp', false)
FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector';
"""


def _timeouts(statement_s: float) -> bytes:
    """Return what keeps a process that is cut off, or a runaway statement, from lasting for ever."""
    return f"""
SET lock_timeout = '{limits.STORE_BUSY_S}s';
SET statement_timeout = {round(statement_s * 1_000)};
SET idle_in_transaction_session_timeout = '{limits.TRANSACTION_IDLE_S}s';
""".encode()


class PostgresConnection:
    """One transaction, as the tables see it."""

    def __init__(self, driver: psycopg.Connection[Any], *, revision: int = 0) -> None:
        self._driver = driver
        self.revision = revision
        """How many transactions have written in the organisation, as this one sees it."""

    def execute(
        self, statement: str, values: Mapping[str, Any] | Sequence[Any] = (), /
    ) -> psycopg.Cursor[Any]:
        """Run a statement; `:name` in it stands for a value."""
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
        """Send several statements with one round trip; return the first row of the last."""
        with psycopg.ClientCursor(self._driver) as cursor:
            cursor.execute(translate(statements).text, values)
            while cursor.nextset():
                pass
            return cursor.fetchone()


def set_up(driver: psycopg.Connection[Any], *, statement_s: float = 0.0) -> None:
    """Have a new connection speak as the tables expect, with no more rights than requests need.

    A statement may take `statement_s` seconds; 0 is without limit.
    """
    driver.prepared_max = _PREPARED_MAX
    driver.execute(_SESSION)
    driver.execute(_timeouts(statement_s))
    # Integers are of one size, and flags are integers.
    adapters = driver.adapters
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(bool, Int8BinaryDumper)
    adapters.register_loader("numeric", _NumberLoader)
    adapters.register_loader("numeric", _NumberBinaryLoader)


class _NumberLoader(NumericLoader):
    def load(self, data: Buffer) -> Any:
        return _number(super().load(data))


class _NumberBinaryLoader(NumericBinaryLoader):
    def load(self, data: Buffer) -> Any:
        return _number(super().load(data))


def _number(value: Decimal) -> int | float:
    """Return a sum as SQLite would."""
    return int(value) if value == value.to_integral_value() else float(value)


def _named(values: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
    if isinstance(values, Mapping):
        return values
    if values:
        raise TypeError("values of statements have names")
    return {}
