"""Prove that every memory has its text and its versions, and that every record has its memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from engram.model.row_keys import kind_of
from engram.storage.codec import ContentError
from engram.storage.content.messages import decode_text
from engram.storage.conversations.records import replace_tags
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("checks/memories.sql")


@dataclass(frozen=True, slots=True)
class Lost:
    """Something of a memory that nothing else can tell."""

    message: str


@dataclass(frozen=True, slots=True)
class WrongLabels:
    """A record that is filtered by another project or other tags than its memory has."""

    memory_id: str
    number: int
    record: int


@dataclass(frozen=True, slots=True)
class WrongTextBytes:
    """A version whose stored number of bytes is wrong."""

    memory_id: str
    number: int
    version: int
    content_bytes: int
    """The true number."""


MemoryFault: TypeAlias = Lost | WrongLabels | WrongTextBytes


class _Row(NamedTuple):
    """The columns of `memories`."""

    number: int
    id: str
    record: int | None
    version: int
    sha256: bytes
    document_id: str | None
    record_id: str | None
    has_project: int | None
    messages: int
    text_sha256: bytes | None
    has_moment: int


class _VersionRow(NamedTuple):
    """The columns of `versions_of`."""

    version: int
    is_json: int
    sha256: bytes
    content_bytes: int
    content_encoding: str | None
    content: bytes | None


def check_memories(tx: Transaction) -> Iterator[MemoryFault]:
    """Yield every fault of the organisation's memories, in order."""
    for row in map(_Row._make, tx.execute(_SQL["memories"])):
        if row.record is not None:
            yield from _check_record(tx, row, row.record)
        yield from _check_versions(tx, row)
    for (record_id,) in tx.execute(_SQL["lone_records"]):
        yield Lost(f"a text of {record_id} is searched and belongs to no memory")
    for (memory_id,) in tx.execute(_SQL["risen"]):
        yield Lost(f"memory {memory_id} was removed and is there")


def describe_memory_fault(fault: MemoryFault) -> str:
    """Return a fault in words."""
    match fault:
        case Lost(message):
            return message
        case WrongLabels(memory_id):
            return f"memory {memory_id} is filtered by another project or other tags than it has"
        case WrongTextBytes(memory_id, _, version, content_bytes):
            return (
                f"version {version} of memory {memory_id} has {content_bytes} bytes, and says other"
            )


def mend_memory(tx: Transaction, fault: WrongLabels | WrongTextBytes) -> None:
    """Give a record the labels of its memory, or a version the number of its bytes."""
    match fault:
        case WrongLabels(_, number, record):
            _mend_labels(tx, number, record)
        case WrongTextBytes(_, number, version, content_bytes):
            tx.execute(
                _SQL["mend_bytes"], number=number, version=version, content_bytes=content_bytes
            )


def _mend_labels(tx: Transaction, number: int, record: int) -> None:
    row = tx.execute(_SQL["labels_of"], number=number, record=record).fetchone()
    if row is None:
        return  # The memory has another record by now, or none.
    project, tags = row
    tx.execute(_SQL["mend_project"], record=record, project=project)
    replace_tags(tx, record, json.loads(tags))


def _check_record(tx: Transaction, row: _Row, record: int) -> Iterator[MemoryFault]:
    if row.record_id is None:
        yield Lost(f"memory {row.id} has lost its text")
        return
    if row.document_id is None:
        yield from _check_text_of(row, record)
    own, filtered = tx.execute(_SQL["tags_of"], number=row.number).fetchone()
    if not row.has_project or own != filtered:
        yield WrongLabels(row.id, row.number, record)


def _check_text_of(row: _Row, record: int) -> Iterator[Lost]:
    """Yield what is wrong with the only message of a record; documents are checked elsewhere."""
    if row.text_sha256 is None:
        yield Lost(f"memory {row.id} has lost its text")
        return
    if (row.record_id, row.messages, kind_of(record)) != (row.id, 1, "memory"):
        yield Lost(f"memory {row.id} has a text that is another's")
    if row.text_sha256 != row.sha256:
        yield Lost(f"memory {row.id} has another text than it says")
    if not row.has_moment:
        yield Lost(f"memory {row.id} is searched at another moment than it says")


def _check_versions(tx: Transaction, row: _Row) -> Iterator[MemoryFault]:
    expected, sha256 = row.version - 1, row.sha256
    is_text_known = row.record is not None or row.document_id is not None
    rows = tx.execute(_SQL["versions_of"], number=row.number)
    for version in map(_VersionRow._make, rows):
        if version.version != expected:
            break
        expected -= 1
        where = f"version {version.version} of memory {row.id}"
        if not version.is_json:
            yield Lost(f"{where} has lost its fields")
        if version.content is not None:
            yield from _check_text(tx, row, version, version.content)
        elif not is_text_known or version.sha256 != sha256:
            yield Lost(f"{where} has lost its text")
        if not is_text_known and version.sha256 != sha256:
            yield Lost(f"memory {row.id} has another text than it says")
        is_text_known, sha256 = True, version.sha256
    if expected != 0:
        yield Lost(f"memory {row.id} has lost version {expected} or has it too often")
    elif not is_text_known:
        yield Lost(f"memory {row.id} has lost its text")


def _check_text(
    tx: Transaction, row: _Row, version: _VersionRow, content: bytes
) -> Iterator[MemoryFault]:
    try:
        text = decode_text(tx, content, encoding=version.content_encoding, sha256=version.sha256)
    except ContentError as exc:
        yield Lost(f"version {version.version} of memory {row.id} cannot be read: {exc}")
        return
    content_bytes = len(text.encode())
    if content_bytes != version.content_bytes:
        yield WrongTextBytes(row.id, row.number, version.version, content_bytes)
