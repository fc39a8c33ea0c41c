"""Say what an organisation holds: from maintained counters, or by counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from engram.errors import StoreCorruptError
from engram.model.access import Quota, Use
from engram.model.status import Counters, Coverage
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("bookkeeping/counters.sql")

COUNTERS_MISSING = "the counters are missing: run `engram doctor --repair`"
COUNTER_NAMES = tuple(field.name for field in fields(Counters))
"""Also the columns of the table, in its order."""


def read_counters(tx: Transaction) -> Counters:
    """Return the maintained counters.

    Raises:
        StoreCorruptError: they are gone.
    """
    row = tx.execute(_SQL["get_counters"]).fetchone()
    if row is None:
        raise StoreCorruptError(COUNTERS_MISSING)
    return counters_of(row)


def grow_counters(
    tx: Transaction,
    *,
    quota: Quota | None = None,
    conversations: int = 0,
    messages: int = 0,
    content_bytes: int = 0,
    chunks: int = 0,
    memories: int = 0,
    documents: int = 0,
    stored_bytes: int = 0,
    file_bytes: int = 0,
) -> None:
    """Add to the counters that writers keep; negative numbers take away.

    Writers of an organisation take turns, so what is checked here is what is committed.

    Raises:
        QuotaExceededError: the counters would pass `quota`.
    """
    row = tx.execute(
        _SQL["add_to_counters"],
        conversations=conversations,
        messages=messages,
        content_bytes=content_bytes,
        chunks=chunks,
        memories=memories,
        documents=documents,
        stored_bytes=stored_bytes,
        file_bytes=file_bytes,
    ).fetchone()
    if quota is not None and row is not None:
        added = Use(messages, stored_bytes + file_bytes)
        before = Use(row[0] - added.messages, row[1] - added.stored_bytes)
        quota.check(before, added=added)


def put_file_bytes(tx: Transaction, total: int) -> None:
    """Count an organisation's files anew, as they were measured."""
    tx.execute(_SQL["put_file_bytes"], file_bytes=total)


def counters_of(row: Sequence[int]) -> Counters:
    """Return counters from the columns of `get_counters` or `count_all`."""
    return Counters(**dict(zip(COUNTER_NAMES, row, strict=True)))


def count_coverage(tx: Transaction) -> Coverage:
    """Count the messages, and those that each index holds."""
    row = tx.execute(_SQL["count_indexed"]).fetchone()
    messages, deep, instant = row
    return Coverage(
        organization_id=tx.tenant.id,
        messages=messages,
        messages_indexed=tx.tenant.words.count(tx.connection, organization_id=tx.tenant.number),
        messages_deep=deep,
        messages_instant=instant,
    )
