"""Spread the tables of organisations over the servers of a Citus cluster.

All rows of an organisation are on one server. The control tables stay on the coordinator: a server
that is down must not keep organisations on others from being created or keys from being revoked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from psycopg import sql

from engram.errors import ConflictError
from engram.storage.postgres.connection import Driver, connect, fetch_value, translated_failures
from engram.storage.postgres.migrate import Definition, Step, define, migrate_all
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/citus.sql")
_BY_HASH = "h"


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of a database in order of their foreign keys."""

    control: tuple[str, ...]
    tenant: tuple[str, ...]


def read_layout(driver: Driver) -> Layout:
    """Return the control and the tenant tables of a database."""
    rows: list[tuple[str, bool]] = driver.execute(_SQL["tables"].encode()).fetchall()
    return Layout(
        control=tuple(name for name, is_tenant in rows if not is_tenant),
        tenant=tuple(name for name, is_tenant in rows if is_tenant),
    )


def distribute(url: str, *, dry_run: bool = False) -> list[Step]:
    """Migrate the tables, distribute those that are not by Citus, and return the statements.

    Everything that can be checked is checked before the first table is distributed. If interrupted,
    the next run continues.

    Raises:
        ConflictError: the server has no Citus, or something stands in the way.
    """
    with translated_failures(), connect(url) as driver:
        _check_cluster(driver)
        if dry_run:
            with driver.transaction(force_rollback=True):
                migrate_all(driver)
                driver.execute(_SQL["look_everywhere"].encode())
                plan = list(_plan(driver))
        else:
            migrate_all(driver)
            plan = list(_plan(driver))
            for definition in plan:
                definition.run(driver)
    return [Step("coordinator", definition.text) for definition in plan]


def _check_cluster(driver: Driver) -> None:
    if not fetch_value(driver, _SQL["is_there"]):
        raise ConflictError(
            "the server has no Citus: install it, add it to shared_preload_libraries, and run "
            "CREATE EXTENSION citus in this database"
        )
    servers: list[tuple[str, bool, bool]] = driver.execute(_SQL["servers"].encode()).fetchall()
    inactive = [name for name, is_active, _ in servers if not is_active]
    if inactive:
        raise ConflictError(
            f"servers of the cluster are not active: {', '.join(inactive)}; "
            "run citus_activate_node or citus_remove_node"
        )
    if not any(may_have_rows for _, _, may_have_rows in servers):
        raise ConflictError(
            "the cluster has no server for rows: run SELECT citus_add_node('host', 5432) first"
        )


def _plan(driver: Driver) -> Iterator[Definition]:
    """Yield the statements that are left to run.

    Raises:
        ConflictError: one of them would fail.
    """
    layout = read_layout(driver)
    placed = _read_placed(driver, layout)
    problems = list(_problems(driver))
    if problems:
        raise ConflictError(f"nothing was distributed: {'; '.join(problems)}")
    (can_log_in, _), *_ = driver.execute(_SQL["may_log_in"].encode()).fetchall()
    if not can_log_in:
        yield define(_SQL["let_in"])
    if not fetch_value(driver, _SQL["passes_on"]):
        yield define(_SQL["pass_on"], database=sql.Identifier(driver.info.dbname))
    yield from _place(layout.tenant, placed)


def _read_placed(driver: Driver, layout: Layout) -> set[str]:
    """Return the tenant tables that are distributed.

    Raises:
        ConflictError: they are not distributed alike.
    """
    rows: list[tuple[str, str, int]] = driver.execute(_SQL["placed"].encode()).fetchall()
    ways = {name: (method, group) for name, method, group in rows if name in layout.tenant}
    if len(set(ways.values())) > 1 or any(method != _BY_HASH for method, _ in ways.values()):
        raise ConflictError(
            f"some tables are distributed in other ways: {', '.join(sorted(ways))}; "
            "run undistribute_table on them, and this command again"
        )
    return set(ways)


def _problems(driver: Driver) -> Iterator[str]:
    for statement, problem in (
        ("bad_policies", "policies with a sub-select on"),
        ("others_tables", "this user does not own"),
    ):
        names = [name for (name,) in driver.execute(_SQL[statement].encode())]
        if names:
            yield f"{problem} {', '.join(names)}"
    (can_log_in, may_let), *_ = driver.execute(_SQL["may_log_in"].encode()).fetchall()
    if not can_log_in and not may_let:
        yield "this user may not let engram_app log in: it needs ADMIN on that role"


def _place(tables: tuple[str, ...], placed: set[str]) -> Iterator[Definition]:
    # All tables are colocated with the first, so that an organisation is on one server.
    first = next((name for name in tables if name in placed), None)
    for name in tables:
        if first is None:
            first = name
            yield define(_SQL["distribute_first"], table=_qualified(name))
        elif name not in placed:
            yield define(_SQL["distribute"], table=_qualified(name), first=_qualified(first))


def _qualified(name: str) -> sql.Literal:
    return sql.Literal(f"engram.{name}")
