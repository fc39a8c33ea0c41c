"""One organisation in one of two databases: what it has, and the tables that both can hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engram.errors import ConflictError
from engram.storage.moving.ports import Reader
from engram.storage.moving.rows import Key, Row, TableRows, given_number, read_columns
from engram.storage.moving.tables import TABLES, Table
from engram.storage.rows.database import Connection

_SUM_BYTES = 16


@dataclass(frozen=True, slots=True)
class Digest:
    """How many rows there are, and the sum of their hashes."""

    rows: int = 0
    sum: int = 0

    def including(self, rows: Iterable[Row]) -> Digest:
        """Return the digest of these rows and those before."""
        hashes = [_hash_of(row) for row in rows]
        total = (self.sum + sum(hashes)) % (1 << 8 * _SUM_BYTES)
        return Digest(self.rows + len(hashes), total)


def _hash_of(row: Row) -> int:
    sha = hashlib.sha256()
    for value in row:
        kind, data = _encoded(value)
        # With its kind and length before it, no value can pass for the end of another.
        sha.update(b"%c%d:" % (kind, len(data)))
        sha.update(data)
    return int.from_bytes(sha.digest()[:_SUM_BYTES])


def _encoded(value: object) -> tuple[bytes, bytes]:
    match value:
        case None:
            return b"n", b""
        case int():
            return b"i", b"%d" % value
        case float():
            return b"f", value.hex().encode()
        case str():
            return b"s", value.encode()
        case bytes():
            return b"b", value
        case _:
            raise TypeError(f"no column holds a {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class Side:
    """An organisation as one database has it."""

    database: Reader
    number: int

    async def count_rows(self) -> int:
        """Return how many rows there are of all tables."""

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
        raise ConflictError(
            f"the two databases are of different versions of Engram: their tables {table.name} differ"
        )
    return TableRows(table, tuple(sorted(ours - renewed)), tuple(sorted(ours & renewed)))
