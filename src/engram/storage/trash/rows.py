"""The rows of what is in the trash: gathered from their tables into parts, and put back from them.

A part is MessagePack: the name of a table, its columns, and some of its rows. Columns that a later version
adds to a table have their defaults in rows that are put back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from engram.errors import StoreCorruptError
from engram.model.row_keys import message_key
from engram.storage.bookkeeping.row_hashes import TRASH_PART
from engram.storage.content.dictionaries import encoded_alone
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("trash/trash.sql")
_CONTENT = "content"

PART_BYTES = 1_000_000
"""Of the rows in a part; a single row may have more."""

_MESSAGES_AT_ONCE = 200
"""Messages whose rows are read together, as many as one append may bring."""

_PARTS_AT_ONCE = 8

FIRST_PART = ("", -1)
"""Comes before the key of every part."""


class KeptTable(NamedTuple):
    """A table whose rows go to the trash with what they belong to."""

    name: str
    key: str
    columns: tuple[str, ...]
    which: str
    """The condition that selects the rows."""
    has_text: bool = False
    """Whether its content is text unless it is compressed."""
    is_by_message: bool = False
    """Whether its rows are selected by the keys of messages."""
    is_kept_if_known: bool = False
    """Whether a row that is there again by now stays as it is."""

    def read(self, tx: Transaction, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the selected rows."""
        columns = ", ".join(
            f"CAST({name} AS BLOB)" if name == _CONTENT else name for name in self.columns
        )
        statement = _SQL["kept_rows"].format(
            table=self.name, key=self.key, columns=columns, which=self.which
        )
        rows = tx.execute(statement, **values).fetchall()
        if "content_encoding" not in self.columns:
            return rows
        return [self._alone(tx, row) for row in rows]

    def _alone(self, tx: Transaction, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row whose text needs no dictionary: that may be dropped before it is put back."""
        values = dict(zip(self.columns, row, strict=True))
        if values[_CONTENT] is not None:
            values[_CONTENT], values["content_encoding"] = encoded_alone(
                tx, values[_CONTENT], values["content_encoding"]
            )
        return tuple(values.values())

    def put_back(
        self, tx: Transaction, columns: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        """Insert rows."""
        name = "put_back_if_new" if self.is_kept_if_known else "put_back"
        statement = _SQL[name].format(
            table=self.name,
            columns=", ".join(columns),
            values=", ".join(map(self._value, columns)),
        )
        tx.execute_many(statement, (dict(zip(columns, row, strict=True)) for row in rows))

    def _value(self, column: str) -> str:
        is_text = self.has_text and column == _CONTENT
        return _SQL["content_value"] if is_text else f":{column}"


def _kept(name: str, *, key: str, columns: str, which: str, **options: bool) -> KeptTable:
    return KeptTable(name, key, tuple(columns.split()), which, **options)


_OF_MESSAGE = "key BETWEEN :first AND :last"

RECORD_TABLES = (
    _kept(
        "conversation",
        key="number",
        columns="number id title agent_id project metadata is_default message_count content_bytes"
        " created_at updated_at row_hash",
        which="number = :record",
    ),
    _kept(
        "conversation_tag",
        key="position",
        columns="conversation position tag",
        which="conversation = :record",
    ),
    _kept(
        "message",
        key="key",
        columns="key role characters occurred_at created_at name tool_call_id tool_name"
        " content_encoding sha256 metadata content row_hash",
        which=_OF_MESSAGE,
        has_text=True,
        is_by_message=True,
    ),
    _kept(
        "idempotency",
        key="key",
        columns="key conversation first_sequence last_sequence created_at request_sha256",
        which="conversation = :record",
        is_kept_if_known=True,
    ),
    _kept(
        "captured_message",
        key="identity",
        columns="conversation identity sequence row_hash",
        which="conversation = :record",
    ),
)
"""What a conversation consists of, or the record of a memory, in the order of their foreign keys."""

VECTOR_TABLES = (
    _kept(
        "instant_vector",
        key="seq",
        columns="embedder key start_character end_character content",
        which=_OF_MESSAGE,
        is_by_message=True,
    ),
    _kept(
        "vector",
        key="seq",
        columns="embedder key start_character end_character content tokens",
        which=_OF_MESSAGE,
        is_by_message=True,
    ),
    _kept("unembedded", key="key", columns="key", which=_OF_MESSAGE, is_by_message=True),
)
"""Derived, but expensive to derive again; put back only as far as their embedder has not changed."""

MEMORY_TABLES = (
    _kept(
        "memory",
        key="number",
        columns="number id record project memory_type category source importance tags immutable"
        " episode_id pattern_confidence valid_from valid_to expires_at storage_mode document_id"
        " sha256 version created_at updated_at reason summary row_hash",
        which="number = :memory",
    ),
    _kept(
        "memory_version",
        key="version",
        columns="memory version change actor recorded_at ended_at fields sha256 content_bytes"
        " content_encoding content row_hash",
        which="memory = :memory",
        has_text=True,
    ),
    _kept(
        "feedback",
        key="number",
        columns="memory number helpful event_id failure_class actor created_at row_hash",
        which="memory = :memory",
    ),
    _kept(
        "relation",
        key="source, target, relation_type",
        columns="source target relation_type strength created_at row_hash",
        which="(source = :memory OR target = :memory)",
    ),
    _kept(
        "document",
        key="number",
        columns="number id memory state waits_since name media_type tier size_bytes sha256"
        " is_converted text_bytes text_bytes_indexed created_at parts part_sha256 announced_bytes"
        " problem options chunker content_encoding content row_hash",
        which="number = :document",
        has_text=True,
    ),
)
"""What a memory consists of beside its record. The lease of its document is not among it."""

KEPT_TABLES = {table.name: table for table in (*RECORD_TABLES, *VECTOR_TABLES, *MEMORY_TABLES)}


class Part(NamedTuple):
    """Some rows of a table."""

    table: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def by_column(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as values by the names of columns."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Part).decode


def gather(
    tx: Transaction,
    tables: Iterable[KeptTable],
    *,
    record: int | None = None,
    messages: int = 0,
    memory: int | None = None,
    document: int | None = None,
) -> Iterator[Part]:
    """Yield the rows that go with a record of so many messages, or with a memory."""
    for table in tables:
        for span in _spans(record, messages) if table.is_by_message else ({},):
            values = {"record": record, "memory": memory, "document": document}
            named = {name: value for name, value in values.items() if f":{name}" in table.which}
            yield from _parts(table, table.read(tx, {**named, **span}))


def _spans(record: int | None, messages: int) -> Iterator[dict[str, int]]:
    for first in range(1, messages + 1, _MESSAGES_AT_ONCE) if record is not None else ():
        last = min(first + _MESSAGES_AT_ONCE - 1, messages)
        yield {"first": message_key(record or 0, first), "last": message_key(record or 0, last)}


def _parts(table: KeptTable, rows: Sequence[tuple[Any, ...]]) -> Iterator[Part]:
    some, size = list[tuple[Any, ...]](), 0
    for row in rows:
        some.append(row)
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if size >= PART_BYTES:
            yield Part(table.name, table.columns, some)
            some, size = [], 0
    if some:
        yield Part(table.name, table.columns, some)


def add_parts(tx: Transaction, entry_id: str, parts: Iterable[Part]) -> None:
    """Store parts behind those that an entry of the trash has."""
    (position,) = tx.execute(_SQL["count_parts"], id=entry_id).fetchone()
    for place, part in enumerate(parts, position):
        content = _encode(part)
        values = {"id": entry_id, "position": place, "sha256": hashlib.sha256(content).digest()}
        row_hash = TRASH_PART.hash(tx.tenant.id, values)
        tx.execute(_SQL["add_part"], **values, content=content, row_hash=row_hash)


class StoredPart(NamedTuple):
    """The columns of `contents`."""

    id: str
    position: int
    sha256: bytes
    content: bytes

    @property
    def fault(self) -> str | None:
        """What is wrong with it; None if it matches its SHA-256."""
        if hashlib.sha256(self.content).digest() == self.sha256:
            return None
        return f"part {self.position} of {self.id} in the trash does not match its SHA-256"


def next_parts(tx: Transaction, *, after: tuple[str, int]) -> list[StoredPart]:
    """Return the next parts of any entries behind one, in the order of their keys; a few at a time."""
    asked = {"id": after[0], "position": after[1], "limit": _PARTS_AT_ONCE}
    return list(map(StoredPart._make, tx.execute(_SQL["contents"], **asked)))


def damaged_parts(tx: Transaction) -> Iterator[str]:
    """Yield what is wrong with the parts that do not match their SHA-256."""
    after = FIRST_PART
    while parts := next_parts(tx, after=after):
        yield from (part.fault for part in parts if part.fault is not None)
        after = parts[-1][:2]


def read_parts(tx: Transaction, entry_id: str) -> Iterator[Part]:
    """Yield the parts of an entry in their order, one in memory at a time.

    Raises:
        StoreCorruptError: one is not as it was stored.
    """
    (count,) = tx.execute(_SQL["count_parts"], id=entry_id).fetchone()
    for position in range(count):
        row = tx.execute(_SQL["get_part"], id=entry_id, position=position).fetchone()
        if row is None or hashlib.sha256(row[1]).digest() != row[0]:
            raise StoreCorruptError(
                f"what the trash has of {entry_id} cannot be read:"
                f" part {position} is missing or does not match its SHA-256"
            )
        yield _decode(row[1])
