"""Schema migrations of PostgreSQL, each in one transaction with its record; DDL statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString, NamedTuple, cast

from psycopg import sql

from engram.errors import ConflictError
from engram.storage.migrations import Migration, read_migrations, refuse_newer
from engram.storage.postgres.connection import Driver, fetch_value, translate
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/migrate.sql")
_HIDDEN = "***"
_LOCK = 0x6D696772


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is sent, and not shown in a plan."""

    value: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A DDL statement."""

    sent: str
    shown: str
    """The same without its secrets."""

    def run(self, driver: Driver) -> None:
        """Execute it."""
        driver.execute(self.sent.encode())


class Step(NamedTuple):
    """A statement of a plan, without secrets, and the database it is for."""

    where: str
    statement: str


Options = Mapping[str, str | Secret]


def define(statement: str, /, **parts: sql.Composable | Options) -> Definition:
    """Fill the braces of a statement of a `.sql` file with identifiers, literals or options."""
    template = sql.SQL(cast("LiteralString", statement.strip().removesuffix(";")))
    sent, shown = (
        template.format(**{name: _composed(part, hide=hide) for name, part in parts.items()})
        for hide in (False, True)
    )
    return Definition(sent.as_string(None), shown.as_string(None))


def _composed(part: sql.Composable | Options, *, hide: bool) -> sql.Composable:
    if isinstance(part, sql.Composable):
        return part
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(_text(value, hide=hide)))
        for name, value in part.items()
    )


def _text(value: str | Secret, *, hide: bool) -> str:
    if isinstance(value, Secret):
        return _HIDDEN if hide else value.value
    return value


def load_migrations() -> tuple[Migration, ...]:
    """Return the migrations, in order."""
    return read_migrations("engram.storage.postgres")


def migrate_all(driver: Driver) -> None:
    """Apply all pending migrations."""
    migrate(driver, load_migrations())


def migrate(driver: Driver, steps: Sequence[Migration]) -> None:
    """Apply pending migrations; if there are none, only read.

    Raises:
        ConflictError: some are pending, and the tables are sharded.
        StoreNewerError: the database has migrations that this program does not have.
    """
    for step in steps[version_of(driver, steps) :]:
        with driver.transaction():
            fetch_value(driver, _SQL["lock"], lock=_LOCK)
            if version_of(driver, steps) < step.version:
                _apply(driver, step)


def _apply(driver: Driver, step: Migration) -> None:
    if fetch_value(driver, _SQL["is_spread"]):
        raise ConflictError(
            "the store is of an older Engram, and spread over several servers: stop all that use "
            "it, and run `engram postgres shard` with these servers again"
        )
    if not fetch_value(driver, _SQL["find_table"]):
        driver.execute(_SQL["create_table"].encode())
    driver.execute("SET LOCAL search_path = engram, pg_temp; SET LOCAL statement_timeout = 0")
    driver.execute(step.sql.encode())
    record = {"version": step.version, "name": step.name}
    driver.execute(translate(_SQL["record"]).text, record)


def version_of(driver: Driver, steps: Sequence[Migration]) -> int:
    """Return the number of applied migrations.

    Raises:
        StoreNewerError: it has migrations that this program does not have.
    """
    if not fetch_value(driver, _SQL["find_table"]):
        return 0
    version: int = fetch_value(driver, _SQL["get_version"])
    refuse_newer(version, steps)
    return version
