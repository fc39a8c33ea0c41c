"""Check that every memory has its text and its versions, and that every record has its memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from engram.errors import StoreCorruptError
from engram.model.ids import MemoryId
from engram.model.maintenance import MemoriesChecked
from engram.model.row_keys import kind_of
from engram.storage.checks.faults import Fault
from engram.storage.codec import ContentError
from engram.storage.content.messages import decode_text
from engram.storage.conversations.records import replace_tags
from engram.storage.memories import reading, rows
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("checks/memories.sql")


_lost = partial(Fault, "memories")
"""Makes a fault of something that cannot be derived from other data."""


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
    has_time: int


class _VersionRow(NamedTuple):
    """The columns of `versions_of`."""

    version: int
    is_json: int
    sha256: bytes
    content_bytes: int
    content_encoding: str | None
    content: bytes | None


def check_memories(tx: Transaction) -> Iterator[Fault]:
    """Yield every fault of the organisation's memories, in order."""
    for row in map(_Row._make, tx.execute(_SQL["memories"])):
        if row.record is not None:
            yield from _check_record(tx, row, row.record)
        yield from _check_versions(tx, row)
    for (record_id,) in tx.execute(_SQL["lone_records"]):
        yield _lost(f"a text of {record_id} is searched and belongs to no memory")
    for (memory_id,) in tx.execute(_SQL["purged_and_present"]):
        yield _lost(f"memory {memory_id} was removed and is there")


def verify_texts(
    tx: Transaction, project: str | None, *, after: MemoryId | None, limit: int
) -> MemoriesChecked:
    """Check the texts of the next memories and of their versions by their hashes."""
    numbers = reading.scan_numbers(tx, project, after=after, limit=limit)
    found = sorted(rows.read_rows(tx, numbers))
    return MemoriesChecked(
        checked=len(found),
        corrupt=tuple(row.id for row in found if not _is_readable(tx, row)),
        last=found[-1].id if found else None,
    )


def _is_readable(tx: Transaction, row: rows.MemoryRow) -> bool:
    try:
        rows.memory_of(tx, row)
        if row.version > 1:
            rows.read_versions(tx, row.number)
    except StoreCorruptError:
        return False
    return True


def _repair_labels(tx: Transaction, *, number: int, record: int) -> None:
    row = tx.execute(_SQL["labels_of"], number=number, record=record).fetchone()
    if row is None:
        return  # The memory has another record by now, or none.
    project, tags = row
    tx.execute(_SQL["repair_project"], record=record, project=project)
    replace_tags(tx, record, json.loads(tags))


def _check_record(tx: Transaction, row: _Row, record: int) -> Iterator[Fault]:
    if row.record_id is None:
        yield _lost(f"memory {row.id} has lost its text")
        return
    if row.document_id is None:
        yield from _check_text_of(row, record)
    own, filtered = tx.execute(_SQL["tags_of"], number=row.number).fetchone()
    if not row.has_project or own != filtered:
        yield Fault(
            "memories",
            f"memory {row.id} is filtered by another project or other tags than it has",
            is_repairable=True,
            repair=partial(_repair_labels, number=row.number, record=record),
        )


def _check_text_of(row: _Row, record: int) -> Iterator[Fault]:
    """Yield the faults of the only message of a record; documents are checked elsewhere."""
    if row.text_sha256 is None:
        yield _lost(f"memory {row.id} has lost its text")
        return
    if (row.record_id, row.messages, kind_of(record)) != (row.id, 1, "memory"):
        yield _lost(f"memory {row.id} has a text that is another's")
    if row.text_sha256 != row.sha256:
        yield _lost(f"memory {row.id} has another text than it says")
    if not row.has_time:
        yield _lost(f"memory {row.id} is searched at another moment than it says")


def _check_versions(tx: Transaction, row: _Row) -> Iterator[Fault]:
    expected, sha256 = row.version - 1, row.sha256
    is_text_stored = row.record is not None or row.document_id is not None
    rows = tx.execute(_SQL["versions_of"], number=row.number)
    for version in map(_VersionRow._make, rows):
        if version.version != expected:
            break
        expected -= 1
        where = f"version {version.version} of memory {row.id}"
        if not version.is_json:
            yield _lost(f"{where} has lost its fields")
        if version.content is not None:
            yield from _check_text(tx, row, version, version.content)
        elif not is_text_stored or version.sha256 != sha256:
            yield _lost(f"{where} has lost its text")
        if not is_text_stored and version.sha256 != sha256:
            yield _lost(f"memory {row.id} has another text than it says")
        is_text_stored, sha256 = True, version.sha256
    if expected != 0:
        yield _lost(f"memory {row.id} has lost version {expected} or has it too often")
    elif not is_text_stored:
        yield _lost(f"memory {row.id} has lost its text")


def _check_text(
    tx: Transaction, row: _Row, version: _VersionRow, content: bytes
) -> Iterator[Fault]:
    try:
        text = decode_text(tx, content, encoding=version.content_encoding, sha256=version.sha256)
    except ContentError as exc:
        yield _lost(f"version {version.version} of memory {row.id} cannot be read: {exc}")
        return
    content_bytes = len(text.encode())
    if content_bytes != version.content_bytes:
        yield Fault(
            "counters",
            f"version {version.version} of memory {row.id} has {content_bytes} bytes, and says other",
            is_repairable=True,
            repair=partial(
                _repair_bytes,
                number=row.number,
                version=version.version,
                content_bytes=content_bytes,
            ),
        )


def _repair_bytes(tx: Transaction, *, number: int, version: int, content_bytes: int) -> None:
    tx.execute(_SQL["repair_bytes"], number=number, version=version, content_bytes=content_bytes)
