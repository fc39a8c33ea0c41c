"""Entries of the trash: what is in it, since when and until when."""

from __future__ import annotations

from typing import NamedTuple

from engram.clock import from_microseconds
from engram.errors import NotFoundError
from engram.model.trash import TrashEntry, TrashKind, TrashPage, TrashQuery
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.holds import Thing
from engram.storage.bookkeeping.row_hashes import TRASH, damaged
from engram.storage.due import mark_due
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("trash/trash.sql")


class Entry(NamedTuple):
    """The columns of `find_entry`."""

    id: str
    kind: TrashKind
    number: int
    record: int | None
    """The number of what held its messages; of a document, None: its chunks are made again."""
    document: int | None
    project: str
    source: str | None
    title: str
    sha256: bytes | None
    messages: int
    stored_bytes: int
    trashed_at: int
    expires_at: int
    actor: str
    row_hash: bytes = b""

    @property
    def held(self) -> Thing:
        """Return what a legal hold may be on."""
        kind = "note" if self.document is None else "document"
        return Thing(
            self.id,
            "conversation" if self.kind == "conversation" else kind,
            self.project,
            self.source,
        )

    def shown(self) -> TrashEntry:
        """Return the entry as callers see it."""
        return TrashEntry(
            id=self.id,
            kind=self.kind,
            title=self.title,
            project=self.project,
            messages=self.messages,
            stored_bytes=self.stored_bytes,
            deleted_at=from_microseconds(self.trashed_at),
            deleted_by=self.actor,
            restorable_until=from_microseconds(self.expires_at),
            content_hash=None if self.sha256 is None else self.sha256.hex(),
        )


def add_entry(tx: Transaction, entry: Entry) -> Entry:
    """Store an entry; its own row counts nothing, so that a full organisation can delete."""
    mark_due(tx, "jobs", at=entry.expires_at)
    return _put(tx, "add_entry", entry)


def complete_entry(tx: Transaction, entry: Entry, *, stored_bytes: int) -> Entry:
    """Add the stored size of what an entry is of, and count it; return the entry."""
    grow_counters(tx, stored_bytes=stored_bytes, trashed_messages=entry.messages)
    return _put(tx, "put_bytes", entry._replace(stored_bytes=stored_bytes))


def _put(tx: Transaction, statement: str, entry: Entry) -> Entry:
    sealed = entry._replace(row_hash=TRASH.hash(tx.tenant.id, entry._asdict()))
    tx.execute(_SQL[statement], **sealed._asdict())
    return sealed


def get_entry(tx: Transaction, entry_id: str) -> Entry | None:
    """Return an entry; None if the trash has none with that id.

    Raises:
        StoreCorruptError: it is not as it was stored.
    """
    row = tx.execute(_SQL["find_entry"], id=entry_id).fetchone()
    if row is None:
        return None
    entry = Entry._make(row)
    if entry.row_hash != TRASH.hash(tx.tenant.id, entry._asdict()):
        raise damaged(f"trash {entry_id}")
    return entry


def find_entry(tx: Transaction, entry_id: str) -> Entry:
    """Return an entry, or raise `NotFoundError`."""
    entry = get_entry(tx, entry_id)
    if entry is None:
        raise NotFoundError("entry of the trash", entry_id)
    return entry


def list_entries(tx: Transaction, query: TrashQuery) -> TrashPage:
    """Return a page of the trash, what was deleted last first."""
    filters = {"kind": query.kind, "project": query.project}
    rows = tx.execute(_SQL["list_entries"], **filters, limit=query.limit, offset=query.offset)
    entries = tuple(Entry._make(row).shown() for row in rows.fetchall())
    (total,) = tx.execute(_SQL["count_entries"], **filters).fetchone()
    end = query.offset + len(entries)
    return TrashPage(
        entries=entries, total=total, next_offset=end if entries and end < total else None
    )
