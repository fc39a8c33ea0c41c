"""Read an organisation's rows page by page, and write them elsewhere as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engram.errors import ConflictError
from engram.storage.codec import ZSTD
from engram.storage.moving.ports import Keeping
from engram.storage.moving.tables import CONTENT, ORGANIZATION, Table
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

PAGE_ROWS = 2_000
"""Read, written and made durable together, if they are small."""

PAGE_BYTES = 8_000_000
"""Of contents in a page; one row may have more."""

Row = tuple[Any, ...]
Key = tuple[Any, ...]

_SQL = load_queries("moving/rows.sql")


@dataclass(frozen=True)
class TableRows:
    """A table as both databases have it: statements on it, and what its rows mean."""

    table: Table
    columns: tuple[str, ...] = ()
    """Those that are the same on both sides; `read_columns` knows them."""
    renewed: tuple[str, ...] = ()
    """Those of the target that are not."""

    def count(self, connection: Connection, number: int) -> int:
        """Return how many rows an organisation has."""
        return connection.execute(self._statement("count"), {ORGANIZATION: number}).fetchone()[0]

    def page(self, connection: Connection, number: int, *, after: Key | None) -> list[Row]:
        """Return an organisation's next rows in the order of their keys; contents are bytes."""
        if not self.table.key:
            rows = connection.execute(self._statement("only_row"), {ORGANIZATION: number})
            return [] if after is not None else rows.fetchall()
        values = {ORGANIZATION: number, **self._key_values(after), "limit": PAGE_ROWS}
        if self.table.has_content:
            values["limit"] = self._rows_that_fit(connection, after, values)
        return connection.execute(self._statement("page", after=after), values).fetchall()

    def pages(
        self, connection: Connection, number: int, *, after: Key | None = None
    ) -> Iterator[list[Row]]:
        """Yield page after page."""
        while rows := self.page(connection, number, after=after):
            yield rows
            after = self.key_of(rows[-1])

    def insert(
        self, connection: Connection, number: int, rows: Sequence[Row], *, keeping: Keeping
    ) -> None:
        """Add rows to an organisation, unless they are there.

        Raises:
            ConflictError: the database cannot keep one of them as it is.
        """
        stored = [{ORGANIZATION: number, **self._stored(row, keeping)} for row in rows]
        connection.executemany(self._statement("insert"), stored)

    def clear(self, connection: Connection, number: int) -> None:
        """Remove all rows of an organisation."""
        connection.execute(self._statement("clear"), {ORGANIZATION: number})

    def last_number(self, connection: Connection, number: int) -> int:
        """Return the highest number among an organisation's rows."""
        values = {ORGANIZATION: number}
        return connection.execute(self._statement("last_number"), values).fetchone()[0]

    def key_of(self, row: Row) -> Key:
        """Return what a page begins after."""
        return tuple(row[place] for place in self._key_places)

    @cached_property
    def _key_places(self) -> tuple[int, ...]:
        return tuple(map(self.columns.index, self.table.key))

    def _statement(self, name: str, *, after: Key | None = None) -> str:
        key = ", ".join(self.table.key)
        values = ", ".join(f":after_{name}" for name in self.table.key)
        return _SQL[name].format(
            table=self.table.name,
            key=key,
            after="" if after is None else f"AND ({key}) > ({values})",
            # Texts are bytes on their way, whichever of the two a database tells apart.
            columns=", ".join(
                f"CAST({name} AS BLOB)" if name == CONTENT else name for name in self.columns
            ),
            written=", ".join((*self.columns, *self.renewed)),
            values=", ".join(f":{name}" for name in (*self.columns, *self.renewed)),
        )

    def _key_values(self, after: Key | None) -> dict[str, Any]:
        names = (f"after_{name}" for name in self.table.key)
        return {} if after is None else dict(zip(names, after, strict=True))

    def _rows_that_fit(
        self, connection: Connection, after: Key | None, values: Mapping[str, Any]
    ) -> int:
        rows, size = 0, 0
        for (content_bytes,) in connection.execute(self._statement("sizes", after=after), values):
            size += content_bytes
            if rows and size > PAGE_BYTES:
                break
            rows += 1
        return rows

    def _stored(self, row: Row, keeping: Keeping) -> dict[str, Any]:
        """Return the values of a row as a database keeps them."""
        values = dict(zip(self.columns, row, strict=True))
        values |= {name: self.table.renewed[name] for name in self.renewed}
        if not keeping.nul:
            self._refuse_nul(row, values)
        if keeping.text and self.table.is_text and not _is_compressed(values["content_encoding"]):
            values[CONTENT] = _as_text(values[CONTENT])
        return values

    def _refuse_nul(self, row: Row, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, str) and "\0" in value:
                raise ConflictError(
                    f"{name} of the {self.table.name} {self.key_of(row)} holds the character NUL,"
                    " which PostgreSQL does not keep in texts: change it first"
                )


def _as_text(content: bytes | None) -> str | bytes | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        # Damaged before: `verify` says so wherever it is.
        return content


def _is_compressed(encoding: str | None) -> bool:
    return encoding is not None and encoding.startswith(ZSTD)


def read_columns(connection: Connection, table: Table) -> frozenset[str]:
    """Return the columns of a table but for the organisation's number."""
    rows = connection.execute(_SQL["columns"], {"table": table.name})
    return frozenset(name for (name,) in rows) - {ORGANIZATION}


def given_number(connection: Connection, table: Table) -> int:
    """Return the last number that a table which counts its rows has given, as far as it knows."""
    values = {"table": table.name, "column": table.key[0]}
    row = connection.execute(_SQL["given_number"], values).fetchone()
    return (row[0] if row else None) or 0
