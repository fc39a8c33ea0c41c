"""Add and remove records, and the rows that they have in common with conversations.

A record holds the searched text of a memory or document. It is stored as a conversation is, under a
number of another range, and is never changed: it is added whole and removed whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from engram import limits
from engram.errors import InvalidRequestError, NotFoundError, StoreCorruptError
from engram.model.ids import CONVERSATION_PREFIX, ConversationId, ConversationKey
from engram.model.row_keys import message_key
from engram.model.vectors import Indexing
from engram.storage.bookkeeping.chain import note_appended
from engram.storage.bookkeeping.holds import Thing, refuse_held
from engram.storage.bookkeeping.row_hashes import MESSAGE, hash_values
from engram.storage.bookkeeping.state import State, take_numbers
from engram.storage.content.dictionaries import without_dropped
from engram.storage.content.messages import PreparedMessage
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.rows import index_appended, remove_conversation
from engram.storage.words.rebuild import BATCH_CHARACTERS, rebuild_words
from engram.storage.words.rows import (
    Stretch,
    add_rows,
    append_rows,
    batches_of_rows,
    first_words,
    merge_when_due,
    remove_rows,
    words_in_windows,
    words_of,
)

_SQL = load_queries("conversations/conversations.sql")

T = TypeVar("T")


AFTER_ID_CHARACTERS = "~"
"""Sorts after every character of an id."""


class NewRecord(NamedTuple):
    """A text to store as a record of one message."""

    number: int
    id: str
    project: str
    tags: Sequence[str]
    message: PreparedMessage


class FoundConversation(NamedTuple):
    """A conversation as a writer finds it."""

    stretch: Stretch
    content_bytes: int
    updated_at: int


def refuse_held_conversation(tx: Transaction, number: int) -> None:
    """Raise `HeldError` if a conversation is under a legal hold."""
    row = tx.execute(_SQL["labels_of"], number=number).fetchone()
    if row is not None:
        conversation_id, project, agent_id = row
        refuse_held(tx, Thing(conversation_id, "conversation", project, agent_id))


def found_of(row: Sequence[Any]) -> FoundConversation:
    """Return the conversation in a row of `find_conversation`."""
    return FoundConversation(Stretch(*row[:3]), *row[3:])


def expect_conversation(tx: Transaction, conversation_id: ConversationId) -> None:
    """Prepare for `find_conversation`."""
    tx.ask_ahead(_SQL["find_conversation"], id=conversation_id)


def find_conversation(tx: Transaction, conversation_id: ConversationId) -> FoundConversation:
    """Return the extent of a conversation, the bytes of its texts and its last change.

    Raises:
        NotFoundError: there is no such conversation here.
    """
    row = tx.execute(_SQL["find_conversation"], id=conversation_id).fetchone()
    if row is None:
        raise NotFoundError("conversation", conversation_id)
    return found_of(row)


def expect_readable(tx: Transaction, reference: str) -> None:
    """Prepare for `find_readable`."""
    between = _ids_beginning(reference)
    if between is None:
        expect_conversation(tx, ConversationId(reference))
    else:
        tx.ask_ahead(_SQL["find_conversations_by_beginning"], **between)


def _ids_beginning(reference: str) -> dict[str, str] | None:
    """Return the bounds of the ids that begin so; None if it is too short for a beginning."""
    random = reference.removeprefix(CONVERSATION_PREFIX)
    if len(random) < limits.CONVERSATION_REFERENCE_CHARACTERS:
        return None
    first = CONVERSATION_PREFIX + random
    return {"first": first, "last": first + AFTER_ID_CHARACTERS}


def find_readable(tx: Transaction, reference: str) -> ConversationKey:
    """Return the conversation with this id, or the only one whose id begins so.

    Lean answers name conversations by the beginnings of their ids, without the prefix that all have.
    Only reading takes them: what changes a conversation needs its whole id.

    Raises:
        NotFoundError: there is no such conversation here.
        InvalidRequestError: several ids begin so.
    """
    between = _ids_beginning(reference)
    if between is None:
        found = find_conversation(tx, ConversationId(reference))
        return ConversationKey(found.stretch.conversation)
    rows = tx.execute(_SQL["find_conversations_by_beginning"], **between)
    numbers = [number for (number,) in rows]
    if not numbers:
        raise NotFoundError("conversation", reference)
    if len(numbers) > 1:
        raise InvalidRequestError(
            "begins the ids of several conversations; give the whole id, which"
            " list_conversations shows",
            field="conversation_id",
        )
    return ConversationKey(numbers[0])


def add_records(
    tx: Transaction,
    records: Sequence[NewRecord],
    *,
    indexing: Indexing | None,
    state: State,
    now: int,
) -> None:
    """Store records of one message each with all that is derived from them, except the counters.

    With None for `indexing` the caller stores their vectors.
    """
    for number, record_id, project, tags, message in records:
        values = {"number": number, "id": record_id, "project": project, "now": now}
        tx.execute(_SQL["add_record"], messages=1, content_bytes=message.content_bytes, **values)
        add_tags(tx, number, tags)
    keys = [message_key(record.number, 1) for record in records]
    _add_messages(tx, keys, [record.message for record in records], created_at=now)
    rows = [
        MessageWords(key, *record.message.words) for key, record in zip(keys, records, strict=True)
    ]
    add_rows(
        tx,
        rows,
        # Their only window contains the message and nothing else.
        window_words=sum(row.telling_words for row in rows),
        # New numbers are above those of their kind: a rebuild has indexed all of them or none.
        also_next=state.is_in_next(records[0].number),
    )
    merge_when_due(tx, state, now=now)
    if indexing is not None:
        index_appended(tx, keys, indexing)


def add_empty_record(tx: Transaction, record_id: str, *, project: str, now: int) -> int:
    """Store a record that will take the chunks of a document; return its number."""
    number = take_numbers(tx, "document", 1).start
    values = {"number": number, "id": record_id, "project": project, "now": now}
    tx.execute(_SQL["add_record"], messages=0, content_bytes=0, **values)
    return number


def _add_messages(
    tx: Transaction, keys: Sequence[int], messages: Sequence[PreparedMessage], *, created_at: int
) -> None:
    owner, rows = tx.tenant.id, list[dict[str, Any]]()
    for key, message in zip(keys, messages, strict=True):
        values = {"key": key, "created_at": created_at, **message.values}
        hashed = [values[name] for name in MESSAGE.columns]
        values["row_hash"] = hash_values(owner, "message", hashed)
        rows.append(values)
    tx.execute_many(_SQL["add_message"], without_dropped(tx, rows))
    note_appended(message.values["sha256"] for message in messages)


def extend_record(
    tx: Transaction,
    stretch: Stretch,
    messages: Sequence[PreparedMessage],
    *,
    indexing: Indexing,
    state: State,
    created_at: int,
    now: int,
) -> int:
    """Append messages to a conversation or record; return how many windows that adds.

    The counters are left to the caller.
    """
    number = stretch.conversation
    first = message_key(number, stretch.last_sequence + 1)
    keys = range(first, first + len(messages))
    _add_messages(tx, keys, messages, created_at=created_at)
    words = [message.words for message in messages]
    windows = append_rows(tx, stretch, words, also_next=state.is_in_next(number))
    merge_when_due(tx, state, now=now)
    index_appended(tx, keys, indexing)
    size = {"messages": len(keys), "content_bytes": sum(each.content_bytes for each in messages)}
    tx.execute(_SQL["grow_conversation"], conversation=number, now=now, **size)
    return windows


def remove_record(
    tx: Transaction,
    stretch: Stretch,
    *,
    known: Sequence[MessageWords],
    state: State,
    skip_damaged: bool,
) -> int:
    """Remove a conversation or record from every table and index; return how many vectors it had.

    The counters of conversations, messages and bytes are left to the caller.
    """
    number = stretch.conversation
    for rows in batches_of_rows(tx, stretch, known=known, skip_damaged=skip_damaged):
        lost = words_in_windows(rows, last_sequence=stretch.last_sequence)
        remove_rows(
            tx,
            rows,
            window_words=lost,
            also_next=state.is_in_next(number),
            may_return=False,
        )
    first, last = message_key(number, 0), message_key(number + 1, 0) - 1
    tx.execute(_SQL["delete_messages"], first=first, last=last)
    tx.execute(_SQL["delete_conversation"], conversation=number)
    return remove_conversation(tx, number, last_sequence=stretch.last_sequence)


def read_words(tx: Transaction, stretch: Stretch, *, skip_damaged: bool) -> list[MessageWords]:
    """Return the words to remove a conversation or record by, up to a bound of memory.

    Most of the work of a removal is to analyse the messages again, so this is done before the
    write lock is taken.
    """
    words = words_of(tx, stretch, skip_damaged=skip_damaged)
    return first_words(words, characters_max=BATCH_CHARACTERS)


def add_tags(tx: Transaction, number: int, tags: Sequence[str]) -> None:
    """Give tags to a conversation or record that has none."""
    rows = [
        {"conversation": number, "position": position, "tag": tag}
        for position, tag in enumerate(tags)
    ]
    tx.execute_many(_SQL["add_tag"], rows)


def replace_tags(tx: Transaction, number: int, tags: Sequence[str]) -> None:
    """Give a record other tags."""
    tx.execute(_SQL["delete_tags"], conversation=number)
    add_tags(tx, number, tags)


def move_record(tx: Transaction, number: int, project: str) -> None:
    """Move a record or conversation to another project; the hash of a conversation is the caller's."""
    tx.execute(_SQL["move_record"], record=number, project=project)


async def despite_damage(tenant: Tenant, remove: Callable[..., Awaitable[T]]) -> T:
    """Return what `remove(skip_damaged=…)` returns, even where a message cannot be read.

    The words of a damaged message cannot be derived again; a rebuilt index has none of them.
    """
    try:
        return await remove(skip_damaged=False)
    except StoreCorruptError:
        await rebuild_words(tenant)
        return await remove(skip_damaged=True)
