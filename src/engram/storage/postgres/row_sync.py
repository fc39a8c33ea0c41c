"""Make the rows of an organisation in one database equal to those in another.

Ranges of keys are compared by checksums that the databases compute, and divided until those that
differ are small; only their rows are sent. So a copy that was interrupted, or that others have made
old, is brought up to date for the price of reading it. Tables and columns are those of the catalog:
indexes of words come along, and nothing is built again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from engram.errors import ConflictError
from engram.storage.postgres.move import skip_numbers
from engram.storage.rows.database import Connection, Cursor
from engram.storage.rows.queries import load_queries

PIECE_ROWS = 2_000
"""Rows that are sent and committed together."""

PIECE_BYTES = 8_000_000
"""Content of such rows; a single one may have more."""

_SQL = load_queries("postgres/row_sync.sql")
_TABLES = load_queries("postgres/organizations.sql")["tenant_tables"]
_NOT_COPIED = frozenset({"meta", "due"})
"""Where the organisation is, and its work: at each home all is looked for once."""
_BUILT_ANEW = "near_vector"
"""The tables of an HNSW index, which only big organisations have."""
_OF_INDEX = ("embedder", "near_upto")
"""The column that says how far that index has come."""
_CONTENT = "content"
"""The column whose values may be large."""

Key = tuple[Any, ...]
Writing = Callable[[], AbstractContextManager[Connection]]
"""Begins a transaction that is committed at the end of its block."""
Advance = Callable[[int], None]
"""Receives how many rows were sent."""


class Range(NamedTuple):
    """The keys after `after` up to `upto`; None is without bound."""

    after: Key | None = None
    upto: Key | None = None


class Checksum(NamedTuple):
    """How many rows there are, and two sums of their hashes."""

    rows: int
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of keys in which a copy differs, small enough for one transaction."""

    within: Range
    has_rows: bool
    """Whether the copy has any there."""


@dataclass(frozen=True, slots=True)
class SyncedTable:
    """A table whose rows are compared and sent."""

    name: str
    key: tuple[str, ...]
    """The primary key behind the organisation; a table without it has one row."""
    columns: tuple[str, ...]
    types: tuple[str, ...]
    is_referred_to: bool
    """Whether rows of other tables refer to its rows, so that these are changed in their place."""
    numbered: str | None
    """The column in which the database numbers rows."""

    def checksum(self, connection: Connection, number: int, within: Range) -> Checksum:
        """Return the checksum of the rows of an organisation within a range."""
        return Checksum(*self._run(connection, "checksum", number, within).fetchone())

    def key_at(self, connection: Connection, number: int, within: Range, *, place: int) -> Key:
        """Return the key of the row at a place within a range."""
        return self._run(connection, "key_at", number, within, place=place).fetchone()

    def pieces(self, connection: Connection, number: int, within: Range) -> Iterator[Range]:
        """Yield ranges, each small enough for one transaction, that together are the range."""
        if not self.key:
            yield within
            return
        rest = within
        while True:
            sized = self._run(connection, "keys", number, rest, limit=PIECE_ROWS).fetchall()
            fitting = _count_that_fit(sized)
            if fitting == len(sized) < PIECE_ROWS:
                yield rest
                return
            upto = tuple(sized[fitting - 1][:-1])
            yield Range(rest.after, upto)
            rest = Range(upto, within.upto)

    def read(self, connection: Connection, number: int, within: Range) -> list[tuple[Any, ...]]:
        """Return the rows of an organisation within a range."""
        return self._run(connection, "rows", number, within).fetchall()

    def add(self, connection: Connection, number: int, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows, or change those that exist if others refer to them."""
        columns = enumerate(zip(*rows, strict=True))
        values = {f"c{place}": list(map(_element, column)) for place, column in columns}
        connection.execute(self.statement("add_rows"), {"organization_id": number, **values})

    def remove(self, connection: Connection, number: int, within: Range) -> None:
        """Remove the rows of an organisation within a range."""
        self._run(connection, "remove_rows", number, within)

    def remove_keys(self, connection: Connection, number: int, keys: Iterable[Key]) -> None:
        """Remove rows by their keys."""
        rows = [{"organization_id": number, **_values("is", key)} for key in keys]
        connection.executemany(self.statement("remove_row"), rows)

    def keys(self, connection: Connection, number: int, within: Range) -> set[Key]:
        """Return the keys within a small range."""
        rows = self._run(connection, "keys", number, within, limit=None)
        return {tuple(row[:-1]) for row in rows}

    def last_number(self, connection: Connection, number: int) -> int:
        """Return the last number of a numbered table, that of removed rows included."""
        values = {"table": self.name, "column": self.numbered}
        (assigned,) = connection.execute(_SQL["last_assigned"], values).fetchone()
        statement = _SQL["last_number"].format(table=self.name, key=self.numbered)
        (present,) = connection.execute(statement, {"organization_id": number}).fetchone()
        return max(assigned or 0, present)

    def statement(self, name: str, within: Range | None = None) -> str:
        """Return a statement of `row_sync.sql` with the names of this table."""
        arrays = (f"CAST(:c{place} AS {kind}[])" for place, kind in enumerate(self.types))
        return _SQL[name].format(
            table=self.name,
            columns=", ".join(self.columns),
            key=", ".join(self.key) or "1",
            size=f"coalesce(octet_length({_CONTENT}), 0)" if _CONTENT in self.columns else "0",
            within=self._condition(within or Range()),
            arrays=", ".join(arrays),
            conflict=self._conflict(),
            same=self._names("is"),
        )

    def _run(
        self, connection: Connection, name: str, number: int, within: Range, **values: Any
    ) -> Cursor:
        bounds = {**_values("after", within.after), **_values("upto", within.upto), **values}
        return connection.execute(
            self.statement(name, within), {"organization_id": number, **bounds}
        )

    def _condition(self, within: Range) -> str:
        keys = ", ".join(self.key)
        after = "" if within.after is None else f"AND ({keys}) > ({self._names('after')}) "
        return after + ("" if within.upto is None else f"AND ({keys}) <= ({self._names('upto')})")

    def _names(self, bound: str) -> str:
        return ", ".join(f":{bound}_{place}" for place in range(len(self.key)))

    def _conflict(self) -> str:
        changed = [name for name in self.columns if name not in self.key]
        if not self.is_referred_to or not changed:
            return "DO NOTHING"
        keys = ", ".join(("organization_id", *self.key))
        return f"({keys}) DO UPDATE SET " + ", ".join(
            f"{name} = excluded.{name}" for name in changed
        )


def _element(value: Any) -> Any:
    """Return a value as an element of an array: the driver takes lists of numbers for small ones."""
    return str(value) if isinstance(value, int) else value


def _values(bound: str, key: Key | None) -> dict[str, Any]:
    return {f"{bound}_{place}": value for place, value in enumerate(key or ())}


def _count_that_fit(sized: Sequence[tuple[Any, ...]]) -> int:
    """Return how many of the first rows fit into a piece: at least one, if there is any."""
    total = 0
    for place, (*_, size) in enumerate(sized):
        total += size
        if place and total > PIECE_BYTES:
            return place
    return len(sized)


def read_tables(connection: Connection) -> list[SyncedTable]:
    """Return the tables of organisations, each after those it refers to."""
    names = [name for (name,) in connection.execute(_TABLES).fetchall()]
    return [
        _read_table(connection, name)
        for name in reversed(names)
        if name not in _NOT_COPIED and not name.startswith(_BUILT_ANEW)
    ]


def _read_table(connection: Connection, name: str) -> SyncedTable:
    found = connection.execute(_SQL["columns"], {"table": name}).fetchall()
    keys = {column: place for column, _, place in found if place is not None}
    columns = [
        (column, kind)
        for column, kind, _ in found
        if column != "organization_id" and (name, column) != _OF_INDEX
    ]
    key = tuple(sorted(keys.keys() - {"organization_id"}, key=keys.__getitem__))
    (is_referred_to,) = connection.execute(_SQL["has_references"], {"table": name}).fetchone()
    return SyncedTable(
        name=name,
        key=key,
        columns=tuple(column for column, _ in columns),
        types=tuple(kind for _, kind in columns),
        is_referred_to=is_referred_to,
        numbered=_numbered(connection, name, key),
    )


def _numbered(connection: Connection, table: str, key: Sequence[str]) -> str | None:
    for column in key:
        values = {"table": table, "column": column}
        if connection.execute(_SQL["find_sequence"], values).fetchone()[0] is not None:
            return column
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSync:
    """Brings a copy of an organisation up to date with a source that is one snapshot, or locked."""

    tables: Sequence[SyncedTable]
    source: Connection
    number: int
    """Of the organisation at the source."""
    writing: Writing
    """Begins a transaction of the organisation at the copy."""
    copy_number: int
    advance: Advance = lambda _: None

    def run(self) -> int:
        """Make the copy equal to the source; return how many rows were sent.

        Raises:
            ConflictError: it is not equal then.
        """
        differing = {table.name: list(self._differing(table)) for table in self.tables}
        # Rows are removed before those they refer to, and added after them.
        for table in reversed(self.tables):
            self._remove(table, differing[table.name])
        sent = sum(self._send(table, differing[table.name]) for table in self.tables)
        unequal = [
            table.name
            for table in self.tables
            if differing[table.name] and any(self._differing(table))
        ]
        if unequal:
            raise ConflictError(f"the copy differs from its source: {', '.join(unequal)}")
        return sent

    def skip_numbers(self, control: Connection) -> None:
        """Have the database of the copy assign only numbers that the source has not assigned."""
        for table in self.tables:
            if table.numbered is not None:
                last = table.last_number(self.source, self.number)
                skip_numbers(control, table=table.name, number=last)

    def _differing(self, table: SyncedTable) -> Iterator[Piece]:
        with self.writing() as copy:
            yield from self._divide(table, copy, Range())

    def _divide(self, table: SyncedTable, copy: Connection, within: Range) -> Iterator[Piece]:
        ours = table.checksum(self.source, self.number, within)
        theirs = table.checksum(copy, self.copy_number, within)
        if ours == theirs:
            return
        most = max(ours.rows, theirs.rows)
        if not ours.rows or not theirs.rows or most <= PIECE_ROWS:
            for piece in table.pieces(self.source, self.number, within) if ours.rows else [within]:
                yield Piece(piece, has_rows=theirs.rows > 0)
            return
        side, number = (self.source, self.number) if ours.rows == most else (copy, self.copy_number)
        middle = table.key_at(side, number, within, place=most // 2)
        yield from self._divide(table, copy, Range(within.after, middle))
        yield from self._divide(table, copy, Range(middle, within.upto))

    def _remove(self, table: SyncedTable, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if piece.has_rows:
                with self.writing() as copy:
                    self._remove_piece(table, copy, piece.within)

    def _remove_piece(self, table: SyncedTable, copy: Connection, within: Range) -> None:
        """Remove all of a piece; of rows that others refer to only those that the source lacks."""
        if not table.is_referred_to:
            table.remove(copy, self.copy_number, within)
        elif table.key:
            present = table.keys(self.source, self.number, within)
            gone = table.keys(copy, self.copy_number, within) - present
            table.remove_keys(copy, self.copy_number, gone)

    def _send(self, table: SyncedTable, pieces: Iterable[Piece]) -> int:
        sent = 0
        for piece in pieces:
            rows = table.read(self.source, self.number, piece.within)
            if rows:
                with self.writing() as copy:
                    table.add(copy, self.copy_number, rows)
                self.advance(len(rows))
                sent += len(rows)
        return sent
