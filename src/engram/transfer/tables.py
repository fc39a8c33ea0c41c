"""The tables of an organisation: read in pages, written elsewhere unchanged, compared by checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any

from engram.errors import ConflictError
from engram.storage.codec import ZSTD
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

PAGE_ROWS = 2_000
"""Small rows that are read, written and committed together."""

PAGE_BYTES = 8_000_000
"""Content in a page; a single row may have more."""

Row = tuple[Any, ...]
Key = tuple[Any, ...]

_SQL = load_queries("tables.sql", package="engram.transfer")
_ORGANIZATION = "organization_id"
"""The column with the organisation's number, which each database assigns itself."""
_CONTENT = "content"
"""The column whose values may be large."""
_CHECKSUM_BYTES = 16


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows are copied."""

    name: str
    key: tuple[str, ...] = ()
    """Identifies a row of an organisation; a table without it has one row per organisation."""
    is_numbered: bool = False
    """Whether the key is a serial number, which is never reused."""
    has_content: bool = False
    is_text: bool = False
    """Whether content that is not compressed is text."""
    rebuilt: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType[str, Any]({}))
    """Columns about derived data, with the values that have it built again at the target."""


_WORD_INDEX = MappingProxyType[str, Any](
    {
        # Older than any version, so that whoever opens the organisation rebuilds its word index.
        "analyser_version": 0,
        "window_words": 0,
        "word_revision": 0,
        "rebuild_id": None,
        "rebuild_version": None,
        "rebuild_upto": None,
        "rebuild_until": None,
        "rebuild_window_words": None,
    }
)

_SCRUB = MappingProxyType[str, Any](
    {
        "scrub_table": None,
        "scrub_key": None,
        "scrub_began_at": None,
        "scrub_finished_at": None,
        "scrub_rows": 0,
        "scrub_faults": 0,
        "scrub_faults_last": 0,
        "scrub_found": None,
        "scrub_owner": None,
        "scrub_until": None,
    }
)
"""What was read at the source says nothing of the copy."""

_VECTOR_INDEX = MappingProxyType[str, Any]({"near_upto": None})
"""Of the HNSW index of big organisations, which only PostgreSQL has."""

TABLES = (
    Table("conversation", ("number",), is_numbered=True),
    Table("conversation_tag", ("conversation", "position")),
    Table("message", ("key",), has_content=True, is_text=True),
    Table("dictionary", ("id",), is_numbered=True, has_content=True),
    Table("idempotency", ("key",)),
    Table("captured_message", ("conversation", "identity")),
    Table("forgotten_session", ("id",)),
    Table("leaving", ("conversation",)),
    Table("erasure", ("id",)),
    Table("erased", ("erasure", "id")),
    Table("audit_name", ("number",), is_numbered=True),
    Table("audit", ("at",)),
    Table("delivery", ("at",)),
    Table("job", ("number",), is_numbered=True),
    Table("embedder", ("number",), is_numbered=True, rebuilt=_VECTOR_INDEX),
    Table("instant_vector", ("seq",), has_content=True),
    Table("vector", ("seq",), has_content=True),
    Table("vector_removal", ("seq",)),
    Table("unembedded", ("number",), is_numbered=True),
    Table("vector_state"),
    Table("episode", ("id",)),
    Table("memory", ("number",), is_numbered=True),
    Table("memory_version", ("memory", "version"), has_content=True, is_text=True),
    Table("relation", ("source", "target", "relation_type")),
    Table("feedback", ("memory", "number")),
    Table("tombstone", ("id",)),
    Table("document", ("number",), is_numbered=True, has_content=True, is_text=True),
    Table("document_piece", ("key",), has_content=True),
    Table("trash", ("id",)),
    Table("trash_part", ("id", "position"), has_content=True),
    Table("retention_rule", ("id",)),
    Table("legal_hold", ("id",)),
    Table("project_rule", ("project",)),
    Table("change_set", ("id",)),
    Table("counters"),
    Table("upkeep", rebuilt=MappingProxyType({**_WORD_INDEX, **_SCRUB})),
)
"""Every table of an organisation, in the order in which foreign keys let its rows be inserted."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """Order-independent checksum of rows: how many there are, and the sum of their hashes."""

    rows: int = 0
    sum: int = 0

    def including(self, rows: Iterable[Row]) -> Checksum:
        """Return the checksum of these rows and those before."""
        count, total = self.rows, self.sum
        for row in rows:
            count += 1
            total += _hash_of(row)
        return Checksum(count, total % (1 << 8 * _CHECKSUM_BYTES))


def _hash_of(row: Row) -> int:
    sha = hashlib.sha256()
    for value in row:
        kind, data = _encoded(value)
        # Kind and length first, so that no two rows are the same sequence of bytes.
        sha.update(b"%c%d:" % (kind, len(data)))
        sha.update(data)
    return int.from_bytes(sha.digest()[:_CHECKSUM_BYTES])


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


@dataclass(frozen=True)
class TableRows:
    """Reads and writes the rows of a table by the columns that both databases have."""

    table: Table
    columns: tuple[str, ...] = ()
    """Those that are copied."""
    rebuilt: tuple[str, ...] = ()
    """Those of the target that are not."""

    def page(self, connection: Connection, number: int, *, after: Key | None) -> list[Row]:
        """Return an organisation's next rows in the order of their keys; contents are bytes."""
        if not self.table.key:
            rows = connection.execute(self.statement("only_row"), {_ORGANIZATION: number})
            return [] if after is not None else rows.fetchall()
        values = {_ORGANIZATION: number, **self._key_values(after), "limit": PAGE_ROWS}
        if self.table.has_content:
            values["limit"] = self._rows_that_fit(connection, after, values)
        return connection.execute(self.statement("page", after=after), values).fetchall()

    def pages(self, connection: Connection, number: int) -> Iterator[list[Row]]:
        """Yield all rows of an organisation, page by page."""
        after: Key | None = None
        while rows := self.page(connection, number, after=after):
            yield rows
            after = self.key_of(rows[-1])

    def checksum(self, connection: Connection, number: int) -> Checksum:
        """Return the checksum of all rows of an organisation."""
        return Checksum().including(chain.from_iterable(self.pages(connection, number)))

    def insert(
        self, connection: Connection, number: int, rows: Sequence[Row], *, is_sqlite: bool
    ) -> None:
        """Add rows to an organisation; those that exist already are left alone.

        Raises:
            ConflictError: the database cannot store one of them unchanged.
        """
        stored = [{_ORGANIZATION: number, **self._stored(row, is_sqlite=is_sqlite)} for row in rows]
        connection.executemany(self.statement("insert"), stored)

    def key_of(self, row: Row) -> Key:
        """Return the key after which the next page begins."""
        return tuple(row[place] for place in self._key_places)

    @cached_property
    def _key_places(self) -> tuple[int, ...]:
        return tuple(map(self.columns.index, self.table.key))

    def statement(self, name: str, *, after: Key | None = None) -> str:
        """Return a statement of `tables.sql` with the names of this table."""
        key = ", ".join(self.table.key)
        values = ", ".join(f":after_{name}" for name in self.table.key)
        return _SQL[name].format(
            table=self.table.name,
            key=key,
            after="" if after is None else f"AND ({key}) > ({values})",
            # SQLite has text and bytes in one column, PostgreSQL bytes alone.
            columns=", ".join(
                f"CAST({name} AS BLOB)" if name == _CONTENT else name for name in self.columns
            ),
            written=", ".join((*self.columns, *self.rebuilt)),
            values=", ".join(f":{name}" for name in (*self.columns, *self.rebuilt)),
        )

    def _key_values(self, after: Key | None) -> dict[str, Any]:
        names = (f"after_{name}" for name in self.table.key)
        return {} if after is None else dict(zip(names, after, strict=True))

    def _rows_that_fit(
        self, connection: Connection, after: Key | None, values: Mapping[str, Any]
    ) -> int:
        rows, size = 0, 0
        for (content_bytes,) in connection.execute(self.statement("sizes", after=after), values):
            size += content_bytes
            if rows and size > PAGE_BYTES:
                break
            rows += 1
        return rows

    def _stored(self, row: Row, *, is_sqlite: bool) -> dict[str, Any]:
        values = dict(zip(self.columns, row, strict=True))
        values |= {name: self.table.rebuilt[name] for name in self.rebuilt}
        if not is_sqlite:
            self._refuse_nul(row, values)
        elif self.table.is_text and not (values["content_encoding"] or "").startswith(ZSTD):
            values[_CONTENT] = _as_text(values[_CONTENT])
        return values

    def _refuse_nul(self, row: Row, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, str) and "\0" in value:
                raise ConflictError(
                    f"{name} of the {self.table.name} {self.key_of(row)} contains a NUL character,"
                    " which PostgreSQL does not store in text: change it first"
                )


def _as_text(content: bytes | None) -> str | bytes | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return content  # Damaged already, which `verify` reports at the target as well.


def count_rows(connection: Connection, number: int) -> int:
    """Return how many rows an organisation has in all tables."""
    return sum(_value(connection, table, "count", number) for table in TABLES)


def clear(connection: Connection, number: int) -> None:
    """Remove all rows of an organisation."""
    for table in reversed(TABLES):
        connection.execute(TableRows(table).statement("clear"), {_ORGANIZATION: number})


def last_numbers(connection: Connection, number: int) -> dict[str, int]:
    """Return the last serial number of each numbered table, that of removed rows included."""
    return {
        table.name: max(
            _last_assigned(connection, table), _value(connection, table, "last_number", number)
        )
        for table in TABLES
        if table.is_numbered
    }


def _value(connection: Connection, table: Table, name: str, number: int) -> int:
    values = {_ORGANIZATION: number}
    return connection.execute(TableRows(table).statement(name), values).fetchone()[0]


def _last_assigned(connection: Connection, table: Table) -> int:
    values = {"table": table.name, "column": table.key[0]}
    row = connection.execute(_SQL["last_assigned"], values).fetchone()
    return (row[0] if row else None) or 0


def read_columns(connection: Connection) -> list[frozenset[str]]:
    """Return the columns of each table but for the organisation's number."""
    return [
        frozenset(name for (name,) in connection.execute(_SQL["columns"], {"table": table.name}))
        - {_ORGANIZATION}
        for table in TABLES
    ]


def match_tables(
    source: Iterable[frozenset[str]], target: Iterable[frozenset[str]]
) -> tuple[TableRows, ...]:
    """Return how each table is copied, given the columns of both databases.

    Raises:
        ConflictError: a table has columns in one database that it does not have in the other.
    """
    return tuple(map(_match, TABLES, source, target))


def _match(table: Table, source: frozenset[str], target: frozenset[str]) -> TableRows:
    rebuilt = table.rebuilt.keys()
    if source - rebuilt != target - rebuilt:
        raise ConflictError(
            f"the two databases are of different versions of Engram: their tables {table.name} differ"
        )
    return TableRows(table, tuple(sorted(target - rebuilt)), tuple(sorted(target & rebuilt)))


def checksums(connection: Connection, tables: Iterable[TableRows], number: int) -> list[Checksum]:
    """Return the checksum of each table's rows of an organisation, all of one snapshot."""
    return [rows.checksum(connection, number) for rows in tables]
