"""Short ways to move organisations in a test, and to look at what came of it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from engram.clock import RandomIds
from engram.model.ids import OrganizationId
from engram.storage.postgres.move import PostgresSource, PostgresTarget
from engram.storage.postgres.store import PostgresStore
from engram.storage.sqlite.move import SqliteSource, SqliteTarget
from engram.storage.sqlite.store import SqliteStore
from engram.transfer.move import Mover
from engram.transfer.tables import TABLES
from tests.fakes import FakeClock
from tests.postgres.databases import as_owner

CLOCK = FakeClock()
IDS = RandomIds()
ADDRESS = "postgresql://db/engram"
"""That sealed directories name."""

StoreT = TypeVar("StoreT", bound=SqliteStore | PostgresStore)
Moved = list[tuple[str, int]]
"""How each organisation stood before, and how many rows of it were moved."""


def sqlite_store(directory: Path) -> SqliteStore:
    """Return the store of a directory."""
    return SqliteStore(directory, clock=CLOCK, ids=IDS)


def postgres_store(url: str) -> PostgresStore:
    """Return the store of a database."""
    return PostgresStore(url, clock=CLOCK, ids=IDS)


@asynccontextmanager
async def opened(store: StoreT) -> AsyncGenerator[StoreT]:
    """Open a store for the length of a block."""
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def to_postgres(
    directory: Path,
    url: str,
    *,
    only: OrganizationId | None = None,
    advance: Callable[[int], None] = lambda _: None,
    address: str = ADDRESS,
) -> Moved:
    """Move all organisations of a directory, or one."""
    source = SqliteSource(directory)
    await source.open()
    target = PostgresTarget(url, clock=CLOCK, ids=IDS)
    await target.open()
    try:
        mover = Mover(source, target, clock=CLOCK, address=address)
        return await _move_all(mover, only=only, advance=advance)
    finally:
        await target.close()
        await source.close()


async def to_sqlite(url: str, directory: Path) -> Moved:
    """Move all organisations of a database."""
    source = PostgresSource(url)
    target = SqliteTarget(directory, clock=CLOCK, ids=IDS)
    await source.open()
    await target.open()
    try:
        return await _move_all(Mover(source, target, clock=CLOCK, address=str(directory)))
    finally:
        await target.close()
        await source.close()


def rows_of(directory: Path, organization_id: OrganizationId) -> dict[str, list[str]]:
    """Return all rows of an organisation but for its number and the state of its word index."""
    with opened_file(directory, organization_id) as file:
        return {
            table.name: _rows(file, table.name, without={"organization_id", *table.rebuilt})
            for table in TABLES
        }


def control_rows_of(directory: Path) -> dict[str, list[str]]:
    """Return what a control file says of all organisations, but for numbers and files."""
    with closing(sqlite3.connect(directory / "engram.db")) as file:
        return {
            name: _rows(file, name, without={"number", "has_file", "moved_to"})
            for name in ("organization", "api_key", "audit")
        }


@contextmanager
def opened_file(directory: Path, organization_id: OrganizationId) -> Generator[sqlite3.Connection]:
    """Open an organisation's file with nothing of ours in between."""
    path = directory / "orgs" / f"{organization_id}.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def postgres_rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Return what a statement finds that row-level security does not hold back."""
    with psycopg.connect(as_owner(url)) as connection:
        connection.execute("SET search_path = engram")
        return connection.execute(statement.encode()).fetchall()


async def _move_all(
    mover: Mover,
    *,
    only: OrganizationId | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Moved:
    plans = await mover.plan(only)
    for plan in plans:
        await mover.move(plan, advance=advance)
    await mover.move_lost_audit()
    return [(plan.standing, plan.rows) for plan in plans]


def _rows(file: sqlite3.Connection, table: str, *, without: set[str]) -> list[str]:
    cursor = file.execute(f"SELECT * FROM {table}")  # noqa: S608 a name of ours
    names = [column[0] for column in cursor.description]
    return sorted(
        repr({name: value for name, value in zip(names, row, strict=True) if name not in without})
        for row in cursor
    )
