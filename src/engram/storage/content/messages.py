"""Encode messages for storage, and decode the texts and conversations of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from engram.clock import from_microseconds, to_microseconds
from engram.errors import StoreCorruptError
from engram.model.conversation import (
    Conversation,
    Message,
    MessageDraft,
    Role,
    called,
    is_called_by_title,
)
from engram.model.ids import ConversationId, ConversationKey, MessageKey, message_id
from engram.model.row_keys import SEQUENCE_BITS, conversation_of, position_of
from engram.model.value import Value
from engram.storage.bookkeeping.counters import message_bytes
from engram.storage.bookkeeping.row_hashes import (
    EMPTY_HASH,
    damaged,
    encode_values,
    hash_values,
)
from engram.storage.codec import ContentCodec, ContentError
from engram.storage.content.pieces import PIECE, Pieces, read_bytes, resolve
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.text.analyse import message_words, part_words
from engram.yielding import offload

_SQL = load_queries("content/content.sql")


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
    row_hash: bytes | None


def prove_messages(tx: Transaction, rows: Iterable[MessageRow]) -> None:
    """Check that the fields of messages are as they were stored.

    Raises:
        StoreCorruptError: those of one are not.
    """
    owner, start, encode = tx.tenant.id, EMPTY_HASH.copy, encode_values
    # As `hash_values` does, without calls and look-ups: these take longer than the hash.
    for row in rows:
        hashed = start()
        # All that is before the encoding and the content, and the hash of that: as `MESSAGE` names them.
        hashed.update(encode((owner, "message", (*row[:8], row[9]))))
        if hashed.digest() != row[11] and row[11] is not None:
            number = row.key >> SEQUENCE_BITS
            public_id = read_conversation_ids(tx, [number]).get(number)
            raise damaged(f"message {position_of(row.key)} of conversation {public_id}")


def to_json(value: Mapping[str, Any]) -> str:
    """Serialize metadata for storage."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def decode_row(tx: Transaction, row: MessageRow) -> str:
    """Return the text of a message as `decode_text` does."""
    return decode_text(tx, row.content, encoding=row.content_encoding, sha256=row.sha256)


def decode_text(tx: Transaction, content: bytes, *, encoding: str | None, sha256: bytes) -> str:
    """Decode a stored text, or the part of a document it refers to, and verify its hash.

    Raises:
        ContentError: it cannot be decoded, or does not match its hash.
    """
    if encoding == PIECE:
        data = resolve(tx, content)
        return tx.tenant.codec.decode(data, encoding=None, sha256=sha256)
    missing = tx.tenant.codec.missing_dictionary(encoding)
    if missing is not None:
        learn_dictionary(tx, missing)
    return tx.tenant.codec.decode(content, encoding=encoding, sha256=sha256)


def learn_dictionary(tx: Transaction, number: int) -> None:
    """Load a stored dictionary into the codec, if it exists."""
    row = tx.execute(_SQL["get_dictionary"], id=number).fetchone()
    # A dictionary that is missing or damaged is reported by the messages that need it.
    if row is not None:
        with suppress(ContentError):
            tx.tenant.codec.unpack_dictionary(number, row[0])


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


def expect_rows(tx: Transaction, keys: Sequence[MessageKey]) -> None:
    """Prepare for `find_rows`."""
    tx.ask_ahead(_SQL["load_messages"], keys=json.dumps(keys))


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
    """Return the messages of rows; `known` are conversations that need not be read.

    Raises:
        StoreCorruptError: one of them cannot be read.
    """
    rows = list(rows)
    prove_messages(tx, rows)
    ids = _ids_of(tx, {row.key >> SEQUENCE_BITS for row in rows}, known)
    return {
        MessageKey(row.key): read_message(tx, row, conversation_id=ids[row.key >> SEQUENCE_BITS])
        for row in rows
    }


def read_readable(
    tx: Transaction, keys: Iterable[MessageKey]
) -> tuple[dict[MessageKey, Message], dict[MessageKey, str]]:
    """Return the messages that can be read, and the errors of the others that exist."""
    found: dict[MessageKey, Message] = {}
    damaged: dict[MessageKey, str] = {}
    for key in keys:
        try:
            found |= read_rows(tx, find_rows(tx, [key]))
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
    """Return the name that each message has in searches."""
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
    """Return the conversations that exist among `numbers`, in the order requested.

    Raises:
        StoreCorruptError: one of them is not as it was stored.
    """
    wanted = list(numbers)
    cursor = tx.execute(_SQL["load_conversations"], numbers=json.dumps(wanted))
    found = {row[0]: _conversation(tx.tenant.id, row) for row in cursor}
    return {ConversationKey(number): found[number] for number in wanted if number in found}


def _conversation(owner: str, row: Sequence[Any]) -> Conversation:
    _, public_id, title, agent_id, project, metadata, _, message_count, *rest = row
    created, updated, row_hash, tags_json = rest
    tags = () if tags_json == "[]" else tuple(json.loads(tags_json))
    hashed = (*row[:7], created, tags)
    if row_hash is not None and row_hash != hash_values(owner, "conversation", hashed):
        raise damaged(f"conversation {public_id}")
    return Conversation(
        id=ConversationId(public_id),
        title=title,
        agent_id=agent_id,
        project=project,
        tags=tags,
        metadata={} if metadata == "{}" else json.loads(metadata),
        message_count=message_count,
        created_at=from_microseconds(created),
        updated_at=from_microseconds(updated),
    )


class PreparedMessage(Value):
    """A message ready to be stored, except for its key."""

    values: Mapping[str, Any]
    words: tuple[str, str]
    """As `part_words` splits them."""
    content_bytes: int


class PreparedMessages(Value):
    """The messages of one append."""

    messages: Sequence[PreparedMessage]
    content_bytes: int
    stored_bytes: int
    """Their stored size, as messages of a conversation."""


async def prepare_messages(
    drafts: Sequence[MessageDraft], codec: ContentCodec, *, title: str | None = None
) -> PreparedMessages:
    """Analyse, hash and compress messages, before the write lock and off the event loop if large.

    `title` is that of the conversation they are for, if a document is among them.
    """
    characters = sum(len(draft.content) for draft in drafts)
    return await offload(partial(_prepare_all, drafts, codec, title), characters=characters)


def _prepare_all(
    drafts: Sequence[MessageDraft], codec: ContentCodec, title: str | None
) -> PreparedMessages:
    prepared = [_prepare(draft, codec, title) for draft in drafts]
    content_bytes = sum(message.content_bytes for message in prepared)
    return PreparedMessages(
        messages=prepared,
        content_bytes=content_bytes,
        stored_bytes=content_bytes + sum(message_bytes(message.values) for message in prepared),
    )


def _prepare(draft: MessageDraft, codec: ContentCodec, title: str | None) -> PreparedMessage:
    stored = codec.encode(draft.content)
    values = {
        "role": draft.role,
        "characters": len(draft.content),
        "occurred_at": None if draft.occurred_at is None else to_microseconds(draft.occurred_at),
        "name": draft.name,
        "tool_call_id": draft.tool_call_id,
        "tool_name": draft.tool_name,
        "content_encoding": stored.encoding,
        "sha256": stored.sha256,
        "metadata": None if draft.metadata is None else to_json(draft.metadata),
        "content": stored.content,
    }
    return PreparedMessage(
        values=values,
        words=part_words(message_words(draft, title=title)),
        content_bytes=stored.content_bytes,
    )


def document_content(tx: Transaction, document_id: str, *, sha256: bytes) -> str:
    """Return the content of the memory that owns a document, verified against its hash.

    Raises:
        ContentError: it cannot be decoded, or does not match its hash.
    """
    row = tx.execute(_SQL["content_of"], id=document_id).fetchone()
    if row is None:
        raise ContentError("its document is missing")
    encoding, content, number, size_bytes = row
    if content is None:
        content = read_bytes(tx, Pieces(document=number), 0, size_bytes)
    return decode_text(tx, content, encoding=encoding, sha256=sha256)
