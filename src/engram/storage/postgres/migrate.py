"""Schema migrations of PostgreSQL, each in one transaction with its record; DDL statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString, NamedTuple, cast

from psycopg import sql

from engram.storage.migrations import Migration, read_migrations, refuse_newer
from engram.storage.postgres.connection import Driver, fetch_value, translate
from engram.storage.rows.queries import load_queries, split_statements

_SQL = load_queries("postgres/migrate.sql")
_LOCK = 0x6D696772


@dataclass(frozen=True, slots=True)
class Definition:
    """A DDL statement."""

    text: str

    def run(self, driver: Driver) -> None:
        """Execute it."""
        driver.execute(self.text.encode())


class Step(NamedTuple):
    """A statement of a plan, and the database it is for."""

    where: str
    statement: str


def define(statement: str, /, **parts: sql.Composable) -> Definition:
    """Fill the braces of a statement of a `.sql` file with identifiers or literals."""
    template = sql.SQL(cast("LiteralString", statement.strip().removesuffix(";")))
    return Definition(template.format(**parts).as_string(None))


def load_migrations() -> tuple[Migration, ...]:
    """Return the migrations, in order."""
    return read_migrations("engram.storage.postgres")


def migrate_all(driver: Driver) -> None:
    """Apply all pending migrations."""
    migrate(driver, load_migrations())


def migrate(driver: Driver, steps: Sequence[Migration]) -> None:
    """Apply pending migrations; if there are none, only read.

    Raises:
        StoreNewerError: the database has migrations that this program does not have.
    """
    for step in steps[version_of(driver, steps) :]:
        with driver.transaction():
            fetch_value(driver, _SQL["lock"], lock=_LOCK)
            if version_of(driver, steps) < step.version:
                _apply(driver, step)


def _apply(driver: Driver, step: Migration) -> None:
    if not fetch_value(driver, _SQL["find_table"]):
        for statement in split_statements(_SQL["create_table"]):
            driver.execute(statement.encode())
    # One by one: Citus passes the whole text on in which a statement comes, and refuses several.
    for statement in (*split_statements(_SQL["prepare"]), *split_statements(step.sql)):
        driver.execute(statement.encode())
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
