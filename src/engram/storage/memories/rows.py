"""Rows of memories and of their versions, to and from the values of `engram.model.memory`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from engram.clock import from_microseconds, to_microseconds
from engram.errors import NotFoundError, StoreCorruptError
from engram.model.ids import MemoryId
from engram.model.memory import Change, Memory, MemoryOptions, MemoryVersion
from engram.storage.bookkeeping.holds import Thing
from engram.storage.bookkeeping.row_hashes import MEMORY, MEMORY_VERSION, damaged
from engram.storage.codec import ContentError
from engram.storage.content.messages import decode_text, document_content
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("memories/memories.sql")
_TIMES = ("valid_from", "valid_to", "expires_at")


class MemoryRow(NamedTuple):
    """The columns of `load_memories`."""

    number: int
    id: MemoryId
    record: int | None
    version: int
    created_at: int
    updated_at: int
    sha256: bytes
    project: str
    memory_type: str
    category: str
    source: str
    importance: int
    tags: str
    immutable: int
    episode_id: str | None
    pattern_confidence: float | None
    valid_from: int | None
    valid_to: int | None
    expires_at: int | None
    storage_mode: str
    document_id: str | None
    reason: str | None
    summary: str | None
    stored_at: int | None
    """When its record was stored; None without one."""
    content_encoding: str | None
    content: bytes | None
    row_hash: bytes | None


class VersionRow(NamedTuple):
    """The columns of `load_versions`."""

    memory: int
    version: int
    change: Change
    actor: str
    recorded_at: int
    ended_at: int
    fields: str
    sha256: bytes
    content_encoding: str | None
    content: bytes | None
    row_hash: bytes | None


FIELD_NAMES = MemoryRow._fields[
    MemoryRow._fields.index("project") : MemoryRow._fields.index("stored_at") + 1
]
"""The columns of a memory that its versions keep."""


def add_memory(tx: Transaction, **values: Any) -> int:
    """Insert the row of a memory and return its number; what is not given is that of a new note."""
    new = {"record": None, "storage_mode": "focused", "document_id": None, "version": 1}
    new |= {"reason": None, "summary": None, **values}
    row_hash = MEMORY.hash(tx.tenant.id, new)
    return tx.execute(_SQL["add_memory"], **new, row_hash=row_hash).fetchone()[0]


def option_values(options: MemoryOptions | Memory) -> dict[str, Any]:
    """Return the columns of a memory that its author chooses, its text apart."""
    values = {name: getattr(options, name) for name in MemoryOptions.__struct_fields__}
    values |= {name: microseconds(values[name]) for name in _TIMES}
    return {**values, "tags": json.dumps(options.tags, ensure_ascii=False)}


def parse_times(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the times among stored values."""
    stored = {name: values[name] for name in _TIMES}
    return {
        name: None if value is None else from_microseconds(value) for name, value in stored.items()
    }


def find_memory(tx: Transaction, memory_id: MemoryId) -> int:
    """Return a memory's number, or raise `NotFoundError`."""
    row = tx.execute(_SQL["find_memory"], id=memory_id).fetchone()
    if row is None:
        raise NotFoundError("memory", memory_id)
    return row[0]


def find_memories(tx: Transaction, memory_ids: Iterable[MemoryId]) -> dict[MemoryId, int]:
    """Return the numbers of the memories that exist."""
    ids = json.dumps(list(memory_ids))
    return dict(tx.execute(_SQL["find_memories"], ids=ids).fetchall())


def read_row(tx: Transaction, memory_id: MemoryId) -> MemoryRow:
    """Return the row of a memory, or raise `NotFoundError`."""
    (row,) = read_rows(tx, [find_memory(tx, memory_id)])
    return row


def read_rows(tx: Transaction, numbers: Sequence[int]) -> list[MemoryRow]:
    """Return the rows of the memories that exist among `numbers`, in any order."""
    rows = tx.execute(_SQL["load_memories"], numbers=json.dumps(numbers))
    return [MemoryRow._make(row) for row in rows.fetchall()]


def read_memories(tx: Transaction, numbers: Sequence[int]) -> dict[int, Memory]:
    """Return the memories that exist among `numbers`, in the order requested.

    Raises:
        StoreCorruptError: the text of one cannot be read.
    """
    rows = read_rows(tx, numbers)
    found = {row.number: memory_of(tx, row) for row in rows}
    return {number: found[number] for number in numbers if number in found}


def read_versions(tx: Transaction, number: int) -> tuple[MemoryVersion, ...]:
    """Return the versions of a memory before the present one, oldest first.

    Raises:
        StoreCorruptError: the text of one cannot be read.
    """
    memory = read_memories(tx, [number])[number]
    cursor = tx.execute(_SQL["load_versions"], number=number)
    rows = [VersionRow._make(row) for row in cursor.fetchall()]
    versions: list[MemoryVersion] = []
    text, sha256 = memory.content, bytes.fromhex(memory.content_hash)
    created_at = to_microseconds(memory.created_at)
    for row in reversed(rows):
        # A version without a text has that of the next.
        if row.content is not None:
            text, sha256 = _text_of(tx, memory.id, row), row.sha256
        if sha256 != row.sha256:
            raise _unreadable(memory.id, row.version, "its text is missing")
        versions.append(_version(memory.id, created_at, row, text))
    return tuple(reversed(versions))


def read_version(tx: Transaction, number: int, version: int) -> MemoryVersion:
    """Return one of the versions of a memory before the present one.

    Raises:
        StoreCorruptError: its text cannot be read.
    """
    memory_id, created_at, *columns = tx.execute(
        _SQL["load_version"], number=number, version=version
    ).fetchone()
    row = VersionRow._make(columns)
    return _version(memory_id, created_at, row, _text_of(tx, memory_id, row))


def fields_of(row: MemoryRow) -> dict[str, Any]:
    """Return the fields that a version keeps of a memory, ready for JSON."""
    return {
        **{name: getattr(row, name) for name in FIELD_NAMES},
        "tags": json.loads(row.tags),
        "immutable": bool(row.immutable),
        "is_searched": row.record is not None,
    }


def thing_of(row: MemoryRow) -> Thing:
    """Return what a legal hold may be on."""
    kind = "note" if row.document_id is None else "document"
    return Thing(row.id, kind, row.project, row.source)


def microseconds(time: datetime | None) -> int | None:
    """Return a time as it is stored."""
    return None if time is None else to_microseconds(time)


def memory_of(tx: Transaction, row: MemoryRow) -> Memory:
    """Return the memory of a row.

    Raises:
        StoreCorruptError: its text cannot be read, or it is not as it was stored.
    """
    if row.row_hash is not None and row.row_hash != MEMORY.hash(tx.tenant.id, row._asdict()):
        raise damaged(f"memory {row.id}")
    text = _text_of(tx, row.id, row)
    return _memory(row, fields_of(row), text, row.id, row.created_at)


def _version(memory_id: MemoryId, created_at: int, row: VersionRow, content: str) -> MemoryVersion:
    return MemoryVersion(
        memory=_memory(row, json.loads(row.fields), content, memory_id, created_at),
        change=row.change,
        ended_at=from_microseconds(row.ended_at),
        actor=row.actor,
    )


def _memory(
    row: MemoryRow | VersionRow,
    fields: Mapping[str, Any],
    content: str,
    memory_id: MemoryId,
    created_at: int,
) -> Memory:
    shown: dict[str, Any] = {**fields, **parse_times(fields), "tags": tuple(fields["tags"])}
    del shown["stored_at"]
    updated_at = row.updated_at if isinstance(row, MemoryRow) else row.recorded_at
    return Memory(
        **shown,
        id=memory_id,
        content=content,
        content_hash=row.sha256.hex(),
        version=row.version,
        created_at=from_microseconds(created_at),
        updated_at=from_microseconds(updated_at),
    )


def _text_of(tx: Transaction, memory_id: MemoryId, row: MemoryRow | VersionRow) -> str:
    """Return the text of a row, verified against its hash."""
    is_version = isinstance(row, VersionRow)
    if is_version and not _is_sound(tx, row):
        raise damaged(f"version {row.version} of memory {memory_id}")
    document_id = json.loads(row.fields)["document_id"] if is_version else row.document_id
    if row.content is None and document_id is None:
        raise _unreadable(memory_id, row.version, "its text is missing")
    try:
        if document_id is not None:
            return document_content(tx, document_id, sha256=row.sha256)
        return decode_text(tx, row.content or b"", encoding=row.content_encoding, sha256=row.sha256)
    except ContentError as exc:
        raise _unreadable(memory_id, row.version, str(exc)) from exc


def _is_sound(tx: Transaction, row: VersionRow) -> bool:
    return row.row_hash in (None, MEMORY_VERSION.hash(tx.tenant.id, row._asdict()))


def _unreadable(memory_id: MemoryId, version: int, reason: str) -> StoreCorruptError:
    return StoreCorruptError(f"version {version} of memory {memory_id} cannot be read: {reason}")
