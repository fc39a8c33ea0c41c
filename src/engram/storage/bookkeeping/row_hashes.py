"""Hashes of whole rows: computed where a row is written, renewed where it changes, proved where it is read.

A hash covers the organisation, the table, the key and every column that cannot be derived from other data;
of a content, its SHA-256. So a changed byte is noticed, and a row that was moved to another place or
organisation. Both databases give a row the same hash: it is made of values, not of how they are stored.
A row without one was written by an older version.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from msgspec import msgpack

from engram.errors import StoreCorruptError
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

HASH_BYTES = 16
"""Against accidents, not against somebody who can compute a hash: half of a SHA-256 is plenty."""

_PAGE_ROWS = 2_000
_SQL = load_queries("bookkeeping/row_hashes.sql")
encode_values = msgpack.Encoder().encode
"""Every value is preceded by its type and length, and numbers have one form: no two rows are the same bytes."""


EMPTY_HASH = blake2b(digest_size=HASH_BYTES)
"""Copied for each row: a quarter faster than to make a new one."""


def hash_values(owner: str, table: str, values: Sequence[Any]) -> bytes:
    """Return the hash of a row of an organisation, given its hashed values as a database returns them."""
    hashed = EMPTY_HASH.copy()
    hashed.update(encode_values((owner, table, values)))
    return hashed.digest()


@dataclass(frozen=True)
class HashedTable:
    """A table whose rows are hashed."""

    name: str
    key: tuple[str, ...]
    """The columns that tell a row of an organisation from the others."""
    columns: tuple[str, ...]
    """The hashed columns, in the order in which they are hashed."""
    texts: frozenset[str]
    """Those of them that are text."""
    reals: frozenset[str]
    condition: str = ""
    """Which rows have a hash; the others are derived from rows of other tables, or not finished."""
    named_by: str | None = None
    """The column that a row is called by in messages; without one it is the key."""

    def hash(self, owner: str, values: Mapping[str, Any]) -> bytes:
        """Return the hash of a row to be written, from its values by the names of columns."""
        given = [_as_stored(values[name]) for name in self.columns]
        for name in self.reals:
            place = self.columns.index(name)
            given[place] = _as_real(given[place])
        return hash_values(owner, self.name, given)

    def statement(self, name: str, *, which: str = "", limit: str = "") -> str:
        """Return a statement of `row_hashes.sql` on this table, with further conditions."""
        columns = ", ".join(map(self._read, self.columns))
        return _SQL[name].format(
            table=self.name,
            key=", ".join(self.key),
            columns=columns.replace(_TAGS, _SQL[_TAGS]) if self is CONVERSATION else columns,
            condition=self.condition,
            which=which,
            limit=limit,
        )

    def _read(self, column: str) -> str:
        """Return what reads a column: a text as bytes, in case it is one no more."""
        if column not in self.texts:
            return column
        return f"/*sqlite:*/ CAST({column} AS BLOB) /*postgres: {column} */"


def hashed_table(
    name: str, *, key: str, columns: str, condition: str = "", named_by: str | None = None
) -> HashedTable:
    """Return a table of columns separated by spaces, marked `:text` or `:real` if they are."""
    marked = [
        (column, kind) for column, _, kind in (each.partition(":") for each in columns.split())
    ]
    return HashedTable(
        name,
        key=tuple(key.split()),
        columns=tuple(column for column, _ in marked),
        texts=frozenset(column for column, kind in marked if kind == "text"),
        reals=frozenset(column for column, kind in marked if kind == "real"),
        condition=condition,
        named_by=named_by,
    )


def _as_stored(value: Any) -> Any:
    """Return a value as both databases return it: a flag as a number."""
    return int(value) if value is True or value is False else value


def _as_real(value: float | None) -> float | None:
    """Return a number as it is stored, without a negative zero."""
    return None if value is None else value + 0.0


_TAGS = "conversation_tags"

CONVERSATION = hashed_table(
    "conversation",
    key="number",
    columns=(
        "number id:text title:text agent_id:text project:text metadata:text is_default "
        "created_at conversation_tags:text"
    ),
    # Records have the project and tags of their memory, which the check of memories compares.
    condition="AND number < 4294967296",
    named_by="id",
)
"""Without `updated_at`, which every append changes, and the counts, which are checked by counting."""

MESSAGE = hashed_table(
    "message",
    key="key",
    columns=(
        "key role:text occurred_at created_at name:text tool_call_id:text tool_name:text "
        "metadata:text sha256"
    ),
)
CAPTURED_MESSAGE = hashed_table(
    "captured_message",
    key="conversation identity",
    columns="conversation sequence identity:text",
)
FORGOTTEN_SESSION = hashed_table(
    "forgotten_session",
    key="id",
    columns="forgotten_at id:text actor:text",
    named_by="id",
)
ERASURE = hashed_table(
    "erasure",
    key="id",
    columns=(
        "requested_at finished_at last_conversation last_memory id:text scope:text value:text "
        "state:text actor:text removed:text files:text"
    ),
    named_by="id",
)
EPISODE = hashed_table(
    "episode",
    key="id",
    columns="started_at ended_at id:text project:text description:text summary:text",
    named_by="id",
)
MEMORY = hashed_table(
    "memory",
    key="number",
    columns=(
        "record importance immutable valid_from valid_to expires_at sha256 version "
        "created_at updated_at id:text project:text memory_type:text category:text "
        "source:text tags:text episode_id:text storage_mode:text document_id:text "
        "reason:text summary:text pattern_confidence:real"
    ),
    named_by="id",
)
MEMORY_VERSION = hashed_table(
    "memory_version",
    key="memory version",
    columns="memory version recorded_at ended_at sha256 change:text actor:text fields:text",
)
RELATION = hashed_table(
    "relation",
    key="source target relation_type",
    columns="source target created_at relation_type:text strength:real",
)
FEEDBACK = hashed_table(
    "feedback",
    key="memory number",
    columns="memory number helpful created_at event_id:text failure_class:text actor:text",
)
TOMBSTONE = hashed_table(
    "tombstone",
    key="id",
    columns="sha256 removed_at id:text actor:text",
    named_by="id",
)
DOCUMENT = hashed_table(
    "document",
    key="number",
    columns=(
        "number memory tier size_bytes sha256 is_converted created_at id:text name:text "
        "media_type:text"
    ),
    condition="AND state <> 'uploading'",
    named_by="id",
)
"""How far it is indexed is derived, and checked against its chunks."""

TRASH = hashed_table(
    "trash",
    key="id",
    columns=(
        "number record document sha256 messages stored_bytes trashed_at expires_at "
        "id:text kind:text project:text source:text title:text actor:text"
    ),
    named_by="id",
)
TRASH_PART = hashed_table("trash_part", key="id position", columns="position sha256 id:text")
RETENTION_RULE = hashed_table(
    "retention_rule",
    key="id",
    columns="keep_days created_at id:text kind:text project:text source:text actor:text",
    named_by="id",
)
LEGAL_HOLD = hashed_table(
    "legal_hold",
    key="id",
    columns=(
        "created_at id:text reason:text subject:text kind:text project:text source:text actor:text"
    ),
    named_by="id",
)
PROJECT_RULE = hashed_table(
    "project_rule",
    key="project",
    columns="created_at project:text same_as:text actor:text",
    named_by="project",
)

HASHED_TABLES = (
    CONVERSATION,
    MESSAGE,
    CAPTURED_MESSAGE,
    FORGOTTEN_SESSION,
    ERASURE,
    EPISODE,
    MEMORY,
    MEMORY_VERSION,
    RELATION,
    FEEDBACK,
    TOMBSTONE,
    DOCUMENT,
    TRASH,
    TRASH_PART,
    RETENTION_RULE,
    LEGAL_HOLD,
    PROJECT_RULE,
)


class HashedRow:
    """A row as `rows` returns it: its key, its hashed values and its hash."""

    __slots__ = ("_row", "_table", "key")

    def __init__(self, table: HashedTable, row: Sequence[Any]) -> None:
        self._table = table
        self._row = row
        self.key = dict(zip(table.key, row, strict=False))

    @property
    def is_hashed(self) -> bool:
        """Return True if the row has a hash to be proved by."""
        return self._row[-1] is not None

    def compute(self, owner: str) -> bytes | None:
        """Return the hash of the row as it is; None if it cannot be read as what it was."""
        values = list(self._row[len(self._table.key) : -1])
        try:
            for place, column in enumerate(self._table.columns):
                if column in self._table.texts and isinstance(values[place], bytes):
                    values[place] = values[place].decode()
            if self._table is CONVERSATION:
                values[-1] = json.loads(values[-1])
            return hash_values(owner, self._table.name, values)
        except ValueError:
            return None  # Text that is not UTF-8 any more, or no JSON.

    def is_sound(self, owner: str) -> bool:
        """Return True if the row is as it was stored, as far as that can be told."""
        return not self.is_hashed or self.compute(owner) == self._row[-1]

    @property
    def name(self) -> str:
        """Return the table and the row, for messages."""
        table = self._table
        if table.named_by is None:
            named = " ".join(f"{column} {value}" for column, value in self.key.items())
        else:
            value = self._row[len(table.key) + table.columns.index(table.named_by)]
            named = value.decode(errors="replace") if isinstance(value, bytes) else value
        return f"{table.name} {named}"


Key = Mapping[str, Any]
"""The values of a row's key, by column."""


def read_rows(tx: Transaction, table: HashedTable) -> Iterator[HashedRow]:
    """Yield the rows of a table that have a hash or should have one, in the order of their keys."""
    after: Key | None = None
    # In pages: PostgreSQL sends the whole answer to a statement at once.
    while page := read_page(tx, table, after=after, rows_max=_PAGE_ROWS):
        yield from page
        after = page[-1].key


def read_page(
    tx: Transaction, table: HashedTable, *, after: Key | None, rows_max: int, which: str = ""
) -> list[HashedRow]:
    """Return the next rows of a table after a key, under a further condition."""
    bound = {f"after_{name}": value for name, value in (after or {}).items()}
    if bound:
        which += f" AND ({', '.join(table.key)}) > ({', '.join(f':{name}' for name in bound)})"
    statement = table.statement("rows", which=which, limit="LIMIT :rows_max")
    rows = tx.execute(statement, **bound, rows_max=rows_max)
    return [HashedRow(table, row) for row in rows]


@contextmanager
def changing(tx: Transaction, table: HashedTable, **which: Any) -> Generator[None]:
    """Prove rows before the block changes them, and hash them again after it.

    `which` are values of columns that the rows have before and after.

    Raises:
        StoreCorruptError: a row is not as it was stored: a new hash would hide that.
    """
    prove(tx, table, **which)
    yield
    seal(tx, table, **which)


def prove(tx: Transaction, table: HashedTable, **which: Any) -> None:
    """Check that rows are as they were stored.

    Raises:
        StoreCorruptError: one is not.
    """
    for row in _read(tx, table, which):
        if not row.is_sound(tx.tenant.id):
            raise damaged(row.name)


def seal(tx: Transaction, table: HashedTable, **which: Any) -> None:
    """Hash rows that were just written."""
    for row in _read(tx, table, which):
        put_hash(tx, table, row)


def put_hash(tx: Transaction, table: HashedTable, row: HashedRow) -> None:
    """Store the hash of a row as it is."""
    statement = table.statement("put_hash", which=_equal(row.key))
    tx.execute(statement, row_hash=row.compute(tx.tenant.id), **row.key)


def damaged(name: str) -> StoreCorruptError:
    """Return the error for a row that is not as it was stored."""
    return StoreCorruptError(
        f"{name} {IS_CHANGED}: run `engram doctor`, then restore a backup (`engram restore`)"
    )


IS_CHANGED = "does not match its row hash"


def count_unhashed(tx: Transaction) -> int:
    """Return how many rows have no hash: those that an older version stored."""
    statements = [table.statement("count_unhashed") for table in HASHED_TABLES]
    return sum(tx.execute(each).fetchone()[0] for each in statements)


def _read(tx: Transaction, table: HashedTable, which: Mapping[str, Any]) -> list[HashedRow]:
    rows = tx.execute(table.statement("rows", which=_equal(which)), **which)
    return [HashedRow(table, row) for row in rows]


def _equal(which: Mapping[str, Any]) -> str:
    return " ".join(f"AND {name} = :{name}" for name in which)
