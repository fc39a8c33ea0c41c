"""Which tables are those of organisations, which those of all, and how they refer to each other."""

from __future__ import annotations

from dataclasses import dataclass

from engram.storage.postgres.pool import Driver
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/layout.sql")


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of a database, each after those it refers to."""

    control: tuple[str, ...]
    tenant: tuple[str, ...]


def read_layout(driver: Driver) -> Layout:
    """Return the tables that a database has."""
    rows: list[tuple[str, bool]] = driver.execute(_SQL["tables"].encode()).fetchall()
    return Layout(
        control=tuple(name for name, is_tenant in rows if not is_tenant),
        tenant=tuple(name for name, is_tenant in rows if is_tenant),
    )
