"""Counters of what an organisation stores, and the stored size of rows as the quota counts it.

Every row counts `STORED_ROW_BYTES` and the texts that a caller gave, in UTF-8 and not compressed, so
that both databases agree. New rows are sized before they are stored; what changes or is removed is
measured by statements with the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engram.errors import StoreCorruptError
from engram.limits import STORED_ROW_BYTES
from engram.model.access import Quota, Use
from engram.model.row_keys import message_key
from engram.model.status import Counters, Coverage
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("bookkeeping/counters.sql")
_NO_VERSION = 2**62


COUNTERS_MISSING = "the counters are missing: run `engram doctor --repair`"
COUNTER_NAMES = Counters.__struct_fields__
"""Also the columns of the table, in its order."""


def read_counters(tx: Transaction) -> Counters:
    """Return the maintained counters, or raise `StoreCorruptError` if they are missing."""
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
    trashed_messages: int = 0,
) -> None:
    """Add to the counters; negative numbers subtract.

    Writers of an organisation are serialised, so the totals checked here are those committed.

    Raises:
        QuotaExceededError: the totals exceed `quota`.
    """
    row = tx.row_later(
        _SQL["add_to_counters"],
        conversations=conversations,
        messages=messages,
        content_bytes=content_bytes,
        chunks=chunks,
        memories=memories,
        documents=documents,
        stored_bytes=stored_bytes,
        file_bytes=file_bytes,
        trashed_messages=trashed_messages,
    )
    if quota is None or quota.is_unbounded:
        return
    if (totals := row()) is not None:
        added = Use(messages + trashed_messages, stored_bytes + file_bytes)
        before = Use(totals[0] - added.messages, totals[1] - added.stored_bytes)
        quota.check(before, added=added)


def put_file_bytes(tx: Transaction, total: int) -> None:
    """Set the bytes of an organisation's files, as they were measured."""
    tx.execute(_SQL["put_file_bytes"], file_bytes=total)


def counters_of(row: Sequence[int]) -> Counters:
    """Return the counters of a row of `get_counters` or `count_all`."""
    return Counters(**dict(zip(COUNTER_NAMES, row, strict=True)))


def count_coverage(tx: Transaction) -> Coverage:
    """Count the messages, and those that each index contains."""
    row = tx.execute(_SQL["count_indexed"]).fetchone()
    messages, deep, instant = row
    return Coverage(
        organization_id=tx.tenant.id,
        messages=messages,
        messages_indexed=tx.tenant.words.count(tx.connection, organization_id=tx.tenant.number),
        messages_deep=deep,
        messages_instant=instant,
    )


def row_bytes(*texts: str | None) -> int:
    """Return the stored size of a row with these texts."""
    return STORED_ROW_BYTES + sum(len(text.encode()) for text in texts if text is not None)


def message_bytes(values: Mapping[str, Any]) -> int:
    """Return the stored size of a message without its content, from the values of `add_message`."""
    return row_bytes(
        values["name"], values["tool_call_id"], values["tool_name"], values["metadata"]
    )


def memory_bytes(values: Mapping[str, Any], *, tags: Sequence[str]) -> int:
    """Return the stored size of a memory without its content, from the values of its row."""
    texts = map(values.get, ("project", "source", "tags", "reason", "summary"))
    return STORED_ROW_BYTES * len(tags) + row_bytes(*texts)


def measure(tx: Transaction, what: str, **values: Any) -> int:
    """Return the stored size of the rows that the statement `size_of_…` selects; 0 if there are none."""
    row = tx.execute(_SQL[f"size_of_{what}"], row=STORED_ROW_BYTES, **values).fetchone()
    return 0 if row is None or row[0] is None else row[0]


def measure_conversation(tx: Transaction, number: int) -> int:
    """Return the size of a conversation, with its tags, messages and idempotency keys."""
    first, last = message_key(number, 0), message_key(number + 1, 0) - 1
    return measure(tx, "conversation", conversation=number, first=first, last=last)


def measure_memory(tx: Transaction, number: int, *, since: int = _NO_VERSION) -> int:
    """Return the size of a memory with its present text and its versions from `since` on."""
    return measure(tx, "memory", number=number, since=since)


def measure_document(tx: Transaction, number: int) -> int:
    """Return the size of a document or upload without its pieces, 0 if there is none."""
    return measure(tx, "document", number=number)


def measure_all(tx: Transaction) -> int:
    """Return the size of everything, by reading every row."""
    return measure(tx, "all")
