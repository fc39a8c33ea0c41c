"""Add and remove records whole: they are stored as conversations are, and never change in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from engram.errors import StoreCorruptError
from engram.model.row_keys import message_key
from engram.model.vectors import Indexing
from engram.storage.bookkeeping.state import State, read_state
from engram.storage.content.preparation import PreparedMessage
from engram.storage.conversations.creation import add_tags
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.rows import index_appended, remove_conversation
from engram.storage.words.rebuild import BATCH_CHARACTERS, rebuild_words
from engram.storage.words.rows import (
    Stretch,
    add_rows,
    batches_of_rows,
    known_words,
    remove_rows,
    words_in_windows,
    words_of,
)

_CONVERSATIONS = load_queries("conversations/conversations.sql")
_MESSAGES = load_queries("conversations/messages.sql")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A text to be stored as a record of one message."""

    number: int
    id: str
    project: str
    tags: Sequence[str]
    message: PreparedMessage


def add_records(
    tx: Transaction,
    records: Sequence[NewRecord],
    *,
    indexing: Indexing | None,
    state: State,
    now: int,
) -> None:
    """Store records of one message each with all that is derived from them, but for the counters.

    None for `indexing` leaves their vectors, too, to the caller.
    """
    _add_owners(tx, records, now=now)
    keys = [message_key(record.number, 1) for record in records]
    tx.execute_many(
        _MESSAGES["add_message"],
        [
            {"key": key, "created_at": now, **record.message.values}
            for key, record in zip(keys, records, strict=True)
        ],
    )
    rows = [
        MessageWords(key, *record.message.words) for key, record in zip(keys, records, strict=True)
    ]
    add_rows(
        tx,
        rows,
        # Their only window holds the message and nothing else.
        window_words=sum(row.telling_words for row in rows),
        # New numbers are above those of their kind: a rebuild holds all of them or none.
        also_next=state.is_in_next(records[0].number),
    )
    if indexing is not None:
        index_appended(tx, keys, indexing)


def remove_record(
    tx: Transaction, stretch: Stretch, *, known: Sequence[MessageWords], skip_damaged: bool
) -> int:
    """Remove a conversation or record from every table and index; return how many vectors it had.

    The counters of conversations, messages and bytes are left to the caller.
    """
    is_in_next = read_state(tx).is_in_next(stretch.conversation)
    for rows in batches_of_rows(tx, stretch, known=known, skip_damaged=skip_damaged):
        lost = words_in_windows(rows, last_sequence=stretch.last_sequence)
        remove_rows(tx, rows, window_words=lost, also_next=is_in_next)
    _delete_rows(tx, stretch.conversation)
    return remove_conversation(tx, stretch.conversation, last_sequence=stretch.last_sequence)


def read_words(tx: Transaction, stretch: Stretch, *, skip_damaged: bool) -> list[MessageWords]:
    """Return the words to remove a conversation or record by, as many as memory may hold at once.

    Most of the work of a removal is to analyse the messages again, so this is done before the
    write lock is held.
    """
    words = words_of(tx, stretch, skip_damaged=skip_damaged)
    return known_words(words, characters_max=BATCH_CHARACTERS)


def replace_tags(tx: Transaction, number: int, tags: Sequence[str]) -> None:
    """Give a record other tags."""
    tx.execute(_CONVERSATIONS["delete_tags"], conversation=number)
    add_tags(tx, number, tags)


async def despite_damage(tenant: Tenant, remove: Callable[..., Awaitable[T]]) -> T:
    """Return what `remove(skip_damaged=…)` returns, also where a message cannot be read.

    The words of a damaged message cannot be made again; new indexes hold none of it.
    """
    try:
        return await remove(skip_damaged=False)
    except StoreCorruptError:
        await rebuild_words(tenant)
        return await remove(skip_damaged=True)


def _add_owners(tx: Transaction, records: Sequence[NewRecord], *, now: int) -> None:
    """Add the rows that the messages of records belong to, with their tags."""
    tx.execute_many(
        _CONVERSATIONS["add_record"],
        [
            {
                "number": record.number,
                "id": record.id,
                "project": record.project,
                "content_bytes": record.message.content_bytes,
                "now": now,
            }
            for record in records
        ],
    )
    for record in records:
        add_tags(tx, record.number, record.tags)


def _delete_rows(tx: Transaction, number: int) -> None:
    tx.execute(
        _MESSAGES["delete_messages"],
        first=message_key(number, 0),
        last=message_key(number + 1, 0) - 1,
    )
    tx.execute(_CONVERSATIONS["delete_conversation"], conversation=number)
