"""Spread the tables over the servers of a Citus cluster, all rows of an organisation to one of them."""

from __future__ import annotations

from collections.abc import Iterator

from psycopg import sql

from engram.errors import ConflictError
from engram.storage.postgres.definitions import Definition, Step, define
from engram.storage.postgres.failures import translated_failures
from engram.storage.postgres.layout import Layout, read_layout
from engram.storage.postgres.migrate import load_migrations, migrate
from engram.storage.postgres.pool import Driver, connect
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/citus.sql")


def distribute(url: str, *, dry_run: bool = False) -> list[Step]:
    """Bring the tables forward, distribute those that are not, and return what was done.

    Cut short, it goes on with the next run.

    Raises:
        ConflictError: the server has no Citus.
    """
    with translated_failures(), connect(url) as driver:
        _check(driver)
        if not dry_run:
            migrate(driver, load_migrations())
        plan = list(_plan(driver))
        if not dry_run:
            for definition in plan:
                definition.run(driver)
    return [Step("coordinator", definition.shown) for definition in plan]


def _plan(driver: Driver) -> Iterator[Definition]:
    layout = read_layout(driver)
    if not layout.tenant:
        raise ConflictError("there are no tables to distribute: run it without --dry-run")
    placed = {name for (name,) in driver.execute(_SQL["placed"].encode())}
    yield define(_SQL["let_in"])
    yield define(_SQL["pass_on"], database=sql.Identifier(driver.info.dbname))
    yield from _place(layout, placed)


def _place(layout: Layout, placed: set[str]) -> Iterator[Definition]:
    for name in layout.control:
        if name not in placed:
            yield define(_SQL["place_everywhere"], table=_qualified(name))
    # Rows of one organisation are on one server because all tables are placed like one of them.
    first = next((name for name in layout.tenant if name in placed), None)
    for name in layout.tenant:
        if first is None:
            first = name
            yield define(_SQL["distribute_first"], table=_qualified(name))
        elif name not in placed:
            yield define(_SQL["distribute"], table=_qualified(name), first=_qualified(first))


def _check(driver: Driver) -> None:
    row = driver.execute(_SQL["is_there"].encode()).fetchone()
    if row is None or not row[0]:
        raise ConflictError(
            "the server has no Citus: install it, add it to shared_preload_libraries, and run "
            "CREATE EXTENSION citus in this database"
        )


def _qualified(name: str) -> sql.Literal:
    return sql.Literal(f"engram.{name}")
