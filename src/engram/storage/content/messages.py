"""Turn rows into the values of `engram.model`, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from engram.clock import from_microseconds
from engram.errors import StoreCorruptError
from engram.model.conversation import Conversation, Message, Role, called, is_called_by_title
from engram.model.ids import ConversationId, ConversationKey, MessageKey, message_id
from engram.model.row_keys import SEQUENCE_BITS, conversation_of, position_of
from engram.storage.codec import ContentError
from engram.storage.content.dictionaries import learn_dictionary
from engram.storage.content.pieces import PIECE, resolve
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("content/messages.sql")


class MessageRow(NamedTuple):
    """The columns of `load_range` and `load_messages`."""

    key: int
    role: Role
    occurred_at: int | None
    created_at: int
    name: str | None
    tool_call_id: str | None
    tool_name: str | None
    metadata: str | None
    content_encoding: str | None
    sha256: bytes
    content: bytes


def to_json(value: Mapping[str, Any]) -> str:
    """Return metadata as it is stored."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def decode_row(tx: Transaction, row: MessageRow) -> str:
    """Return the proved text of a message.

    Raises:
        ContentError: it cannot be read back.
    """
    return decode_text(tx, row.content, encoding=row.content_encoding, sha256=row.sha256)


def decode_text(tx: Transaction, content: bytes, *, encoding: str | None, sha256: bytes) -> str:
    """Return the proved text of its stored form, or of the document it refers to.

    Raises:
        ContentError: it cannot be read back.
    """
    if encoding == PIECE:
        data = resolve(tx, content)
        return tx.tenant.codec.decode(data, encoding=None, sha256=sha256)
    missing = tx.tenant.codec.missing_dictionary(encoding)
    if missing is not None:
        learn_dictionary(tx, missing)
    return tx.tenant.codec.decode(content, encoding=encoding, sha256=sha256)


def read_message(tx: Transaction, row: MessageRow, *, conversation_id: ConversationId) -> Message:
    """Return the message of a row.

    Raises:
        StoreCorruptError: its bytes do not match its hash.
    """
    sequence = position_of(row.key)
    try:
        content = decode_row(tx, row)
    except ContentError as exc:
        raise StoreCorruptError(
            f"message {sequence} of conversation {conversation_id} cannot be read: {exc}"
        ) from exc
    return Message(
        id=message_id(conversation_id, sequence),
        sequence=sequence,
        role=row.role,
        content=content,
        name=row.name,
        tool_call_id=row.tool_call_id,
        tool_name=row.tool_name,
        occurred_at=None if row.occurred_at is None else from_microseconds(row.occurred_at),
        metadata=None if row.metadata is None else json.loads(row.metadata),
        created_at=from_microseconds(row.created_at),
    )


def message_rows(tx: Transaction, *, first: int, last: int) -> Iterable[MessageRow]:
    """Yield the rows of the messages with keys `first` to `last`, in order."""
    cursor = tx.execute(_SQL["load_range"], first=first, last=last)
    return map(MessageRow._make, cursor)


def find_rows(tx: Transaction, keys: Sequence[MessageKey]) -> list[MessageRow]:
    """Return the rows of the messages that exist among `keys`."""
    cursor = tx.execute(_SQL["load_messages"], keys=json.dumps(keys))
    return list(map(MessageRow._make, cursor))


def read_rows(
    tx: Transaction,
    rows: Iterable[MessageRow],
    *,
    known: Mapping[ConversationKey, Conversation] = MappingProxyType({}),
) -> dict[MessageKey, Message]:
    """Return the messages of rows; `known` are conversations read before.

    Raises:
        StoreCorruptError: one of them cannot be read.
    """
    rows = list(rows)
    ids = _ids_of(tx, {row.key >> SEQUENCE_BITS for row in rows}, known)
    return {
        MessageKey(row.key): read_message(tx, row, conversation_id=ids[row.key >> SEQUENCE_BITS])
        for row in rows
    }


def read_messages(tx: Transaction, keys: Sequence[MessageKey]) -> dict[MessageKey, Message]:
    """Return the messages that exist among `keys`.

    Raises:
        StoreCorruptError: one of them cannot be read.
    """
    return read_rows(tx, find_rows(tx, keys))


def read_readable(
    tx: Transaction, keys: Iterable[MessageKey]
) -> tuple[dict[MessageKey, Message], dict[MessageKey, str]]:
    """Return the messages that exist and can be read, and why others cannot."""
    found: dict[MessageKey, Message] = {}
    damaged: dict[MessageKey, str] = {}
    for key in keys:
        try:
            found |= read_messages(tx, [key])
        except StoreCorruptError as exc:
            damaged[key] = exc.message
    return found, damaged


def read_conversation_ids(tx: Transaction, numbers: Sequence[int]) -> dict[int, ConversationId]:
    """Return the public ids of the conversations that exist among `numbers`."""
    cursor = tx.execute(_SQL["conversation_ids"], numbers=json.dumps(numbers))
    return dict(cursor.fetchall())


def _ids_of(
    tx: Transaction, numbers: set[int], known: Mapping[ConversationKey, Conversation]
) -> dict[int, ConversationId]:
    ids: dict[int, ConversationId] = {number: one.id for number, one in known.items()}
    unknown = sorted(numbers - ids.keys())
    if unknown:
        ids |= read_conversation_ids(tx, unknown)
    if numbers - ids.keys():
        raise StoreCorruptError("messages belong to a conversation that is missing")
    return ids


def read_title(tx: Transaction, number: int) -> str | None:
    """Return the title of a conversation."""
    row = tx.execute(_SQL["get_title"], number=number).fetchone()
    return None if row is None else row[0]


def read_names(
    tx: Transaction, messages: Mapping[MessageKey, Message]
) -> dict[MessageKey, str | None]:
    """Return what each message is called in searches."""
    titles = {
        number: read_title(tx, number)
        for number in {
            conversation_of(key) for key, each in messages.items() if is_called_by_title(each)
        }
    }
    return {
        key: called(each, title=titles.get(conversation_of(key))) for key, each in messages.items()
    }


def read_conversations(
    tx: Transaction, numbers: Iterable[int]
) -> dict[ConversationKey, Conversation]:
    """Return the conversations that exist among `numbers`, in the order asked for."""
    wanted = list(numbers)
    cursor = tx.execute(_SQL["load_conversations"], numbers=json.dumps(wanted))
    found = {row[0]: _conversation(row) for row in cursor}
    return {ConversationKey(number): found[number] for number in wanted if number in found}


def _conversation(row: Sequence[Any]) -> Conversation:
    _, public_id, title, agent_id, project, metadata, message_count, created, updated, tags = row
    return Conversation(
        id=ConversationId(public_id),
        title=title,
        agent_id=agent_id,
        project=project,
        tags=() if tags == "[]" else tuple(json.loads(tags)),
        metadata={} if metadata == "{}" else json.loads(metadata),
        message_count=message_count,
        created_at=from_microseconds(created),
        updated_at=from_microseconds(updated),
    )
