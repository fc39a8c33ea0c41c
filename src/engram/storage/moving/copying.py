"""Copy the rows of one organisation between two databases, and prove that both have the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from engram.errors import ConflictError
from engram.storage.moving.digests import Digest
from engram.storage.moving.ports import Keeping, Reader
from engram.storage.moving.rows import Key, Row, TableRows, given_number, read_columns
from engram.storage.moving.tables import TABLES, Table
from engram.storage.tables.database import Connection
from engram.storage.tables.tenant import Tenant

Advance = Callable[[int], None]
"""Takes how many rows were done."""

Note = Callable[[str, Key | None], Awaitable[None]]
"""Writes down the table that was written last, and the last key of it."""


@dataclass(frozen=True, slots=True)
class Side:
    """An organisation in one of the databases."""

    database: Reader
    number: int

    async def count_rows(self) -> int:
        """Return how many rows there are to copy."""

        def work(connection: Connection) -> int:
            return sum(TableRows(table).count(connection, self.number) for table in TABLES)

        return await self.database.read(work)

    async def page(self, rows: TableRows, after: Key | None) -> list[Row]:
        """Return the rows of a table behind a key."""
        return await self.database.read(
            lambda connection: rows.page(connection, self.number, after=after)
        )

    async def digests(self, tables: Sequence[TableRows]) -> list[Digest]:
        """Return what proves the rows of each table, all at one moment."""

        def work(connection: Connection) -> list[Digest]:
            return [_digest(connection, rows, self.number) for rows in tables]

        return await self.database.read(work)

    async def given_numbers(self) -> dict[str, int]:
        """Return the last number of each table that counts its rows."""

        def work(connection: Connection) -> dict[str, int]:
            return {
                table.name: max(
                    given_number(connection, table),
                    TableRows(table).last_number(connection, self.number),
                )
                for table in TABLES
                if table.is_numbered
            }

        return await self.database.read(work)


async def agree_on_tables(source: Side, target: Side) -> tuple[TableRows, ...]:
    """Return the tables as both databases have them.

    Raises:
        ConflictError: one of them has columns that the other has not.
    """
    theirs = await source.database.read(_read_all_columns)
    ours = await target.database.read(_read_all_columns)
    return tuple(map(_agree, TABLES, theirs, ours))


async def copy_table(
    rows: TableRows,
    source: Side,
    tenant: Tenant,
    *,
    after: Key | None,
    keeping: Keeping,
    note: Note,
    advance: Advance,
) -> None:
    """Copy what follows a key; every page is durable before it is noted."""
    while page := await source.page(rows, after):
        await tenant.database.write(
            partial(_insert, rows=rows, number=tenant.number, page=page, keeping=keeping)
        )
        after = rows.key_of(page[-1])
        await note(rows.table.name, after)
        advance(len(page))


async def clear_tables(tenant: Tenant) -> None:
    """Remove all that was copied."""

    def work(connection: Connection) -> None:
        for table in reversed(TABLES):
            TableRows(table).clear(connection, tenant.number)

    await tenant.database.write(work)


async def find_differences(
    tables: Sequence[TableRows], source: Side, target: Side, *, advance: Advance
) -> list[str]:
    """Return the tables whose rows are not the same on both sides."""
    theirs = await source.digests(tables)
    ours = await target.digests(tables)
    advance(sum(digest.rows for digest in ours))
    return [
        rows.table.name
        for rows, their, our in zip(tables, theirs, ours, strict=True)
        if their != our
    ]


def _insert(
    connection: Connection, *, rows: TableRows, number: int, page: list[Row], keeping: Keeping
) -> None:
    rows.insert(connection, number, page, keeping=keeping)


def _digest(connection: Connection, rows: TableRows, number: int) -> Digest:
    digest = Digest()
    for page in rows.pages(connection, number):
        digest = digest.including(page)
    return digest


def _read_all_columns(connection: Connection) -> list[frozenset[str]]:
    return [read_columns(connection, table) for table in TABLES]


def _agree(table: Table, theirs: frozenset[str], ours: frozenset[str]) -> TableRows:
    renewed = table.renewed.keys()
    if theirs - renewed != ours - renewed:
        raise ConflictError("the two databases are of different versions of Engram")
    return TableRows(table, tuple(sorted(ours - renewed)), tuple(sorted(ours & renewed)))
