"""Bring the schema forward by numbered SQL files, each in one transaction with its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engram.errors import ConflictError
from engram.storage.migrations import Migration, read_migrations, refuse_newer
from engram.storage.postgres.dialect import translate
from engram.storage.postgres.pool import Driver
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/migrate.sql")
_LOCK = 0x6D696772


def load_migrations() -> tuple[Migration, ...]:
    """Return every step, in order."""
    return read_migrations("engram.storage.postgres")


def migrate(driver: Driver, steps: Sequence[Migration]) -> None:
    """Apply the steps the database lacks; on one that lacks none, only read.

    Raises:
        ConflictError: steps are lacking, and the tables are spread over several servers.
        StoreNewerError: the database has steps this program does not know.
    """
    for step in steps[version_of(driver, steps) :]:
        with driver.transaction():
            _value(driver, "lock", lock=_LOCK)
            if version_of(driver, steps) < step.version:
                _apply(driver, step)


def _apply(driver: Driver, step: Migration) -> None:
    if _value(driver, "is_spread"):
        raise ConflictError(
            "the store is of an older Engram, and spread over several servers: stop all that use "
            "it, and run `engram postgres shard` with these servers again"
        )
    if not _value(driver, "find_table"):
        driver.execute(_SQL["create_table"].encode())
    driver.execute("SET LOCAL search_path = engram, pg_temp; SET LOCAL statement_timeout = 0")
    driver.execute(step.sql.encode())
    record = {"version": step.version, "name": step.name}
    driver.execute(translate(_SQL["record"]).text, record)


def version_of(driver: Driver, steps: Sequence[Migration]) -> int:
    """Return how many steps the database has had.

    Raises:
        StoreNewerError: it has steps this program does not know.
    """
    if not _value(driver, "find_table"):
        return 0
    version: int = _value(driver, "get_version")
    refuse_newer(version, steps)
    return version


def _value(driver: Driver, name: str, **values: Any) -> Any:
    row = driver.execute(translate(_SQL[name]).text, values).fetchone()
    return None if row is None else row[0]
