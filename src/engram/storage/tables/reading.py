"""Read conversations and messages, each message proved against its hash."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate

from engram import limits
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.conversation import Conversation, Message, MessagePage, MessageQuery
from engram.model.ids import ConversationId, ConversationKey, MessageKey
from engram.model.search import Loaded
from engram.storage.tables.database import Connection
from engram.storage.tables.found_memories import read_found_memories
from engram.storage.tables.keys import conversation_of, kind_of, message_key
from engram.storage.tables.message_cache import KnownMessage
from engram.storage.tables.queries import load_queries
from engram.storage.tables.rows import (
    find_rows,
    message_rows,
    read_conversation_ids,
    read_conversations,
    read_message,
    read_rows,
)
from engram.storage.tables.search_state import SearchState
from engram.storage.tables.tenant import Tenant

_CONVERSATIONS = load_queries("conversations.sql")
_MESSAGES = load_queries("messages.sql")


def get_conversation(connection: Connection, tenant: Tenant, query: MessageQuery) -> MessagePage:
    """Return a conversation and one page of its messages."""
    number = find_number(connection, tenant, query.conversation_id)
    conversation = read_conversations(connection, tenant, [number])[number]
    total = conversation.message_count
    page = _fitting(connection, tenant, number, _page_of(query, total), query.around_sequence)
    return MessagePage(
        conversation=conversation,
        messages=load_range(connection, tenant, number, start=page.start, end=page.stop - 1),
        total=total,
        next_offset=page.stop - 1 if page.stop <= total else None,
    )


def find_number(
    connection: Connection, tenant: Tenant, conversation_id: ConversationId
) -> ConversationKey:
    """Return a conversation's number.

    Raises:
        NotFoundError: there is no such conversation here.
    """
    row = tenant.execute(
        connection, _CONVERSATIONS["find_conversation"], id=conversation_id
    ).fetchone()
    if row is None:
        raise NotFoundError("conversation", conversation_id)
    return ConversationKey(row[0])


def load_found(
    connection: Connection,
    tenant: Tenant,
    messages: Sequence[MessageKey],
    conversations: Sequence[ConversationKey],
    *,
    state: SearchState,
) -> Loaded:
    """Return those of the messages and conversations that still exist; records are memories."""
    records = [number for number in conversations if kind_of(number) != "conversation"]
    said = [key for key in messages if kind_of(conversation_of(key)) != "memory"]
    numbers = [number for number in conversations if kind_of(number) == "conversation"]
    known = read_conversations(connection, tenant, numbers)
    return Loaded(
        messages=_read_found(connection, tenant, said, known, revision=state.revision),
        conversations=known,
        memories=read_found_memories(connection, tenant, records) if records else {},
        chunk_counts=_chunk_counts(connection, tenant, records),
        pending=state.pending,
    )


def _read_found(
    connection: Connection,
    tenant: Tenant,
    keys: Sequence[MessageKey],
    known: Mapping[ConversationKey, Conversation],
    *,
    revision: int,
) -> dict[MessageKey, Message]:
    """Return the messages that exist among `keys`, as far as they are remembered without decoding."""
    found = _remembered(connection, tenant, keys, revision=revision)
    missing = [key for key in keys if key not in found]
    if missing:
        rows = find_rows(connection, tenant, missing)
        read = read_rows(connection, tenant, rows, known=known)
        for row in rows:
            entry = KnownMessage(read[MessageKey(row.key)], row.sha256, revision)
            tenant.messages.put(row.key, entry)
        found |= read
    return found


def _remembered(
    connection: Connection, tenant: Tenant, keys: Sequence[MessageKey], *, revision: int
) -> dict[MessageKey, Message]:
    """Return the messages that are remembered, and are still there with the same proof."""
    entries = {key: entry for key in keys if (entry := tenant.messages.get(key)) is not None}
    found = {key: entry.message for key, entry in entries.items() if entry.revision == revision}
    unproved = [key for key in entries if key not in found]
    if unproved:
        proofs = tenant.execute(connection, _MESSAGES["load_proofs"], keys=json.dumps(unproved))
        for key, proof in proofs:
            message = entries[key].message
            if entries[key].sha256 == proof:
                tenant.messages.put(key, KnownMessage(message, proof, revision))
                found[key] = message
    return found


def _chunk_counts(
    connection: Connection, tenant: Tenant, records: Sequence[ConversationKey]
) -> dict[ConversationKey, int]:
    documents = [number for number in records if kind_of(number) == "document"]
    if not documents:
        return {}
    known = read_conversations(connection, tenant, documents)
    return {number: record.message_count for number, record in known.items()}


def load_range(
    connection: Connection,
    tenant: Tenant,
    conversation: ConversationKey,
    *,
    start: int,
    end: int,
) -> tuple[Message, ...]:
    """Return the messages `start` to `end` of a conversation, in order."""
    ids = read_conversation_ids(connection, tenant, [conversation])
    start, end = max(start, 1), min(end, limits.CONVERSATION_MESSAGES_MAX)
    if conversation not in ids or start > end:
        return ()
    rows = message_rows(
        connection,
        tenant,
        first=message_key(conversation, start),
        last=message_key(conversation, end),
    )
    return tuple(
        read_message(connection, tenant, row, conversation_id=ids[conversation]) for row in rows
    )


def _page_of(query: MessageQuery, total: int) -> range:
    """Return the sequences of the page that a query asks for."""
    if query.around_sequence is None:
        first = query.message_offset + 1
    elif query.around_sequence > total:
        raise InvalidRequestError(
            f"must be at most {total:,}, where the conversation ends", field="around_sequence"
        )
    else:
        # Centred, but never cut short by an end of the conversation that a shift would fill.
        centred = query.around_sequence - query.message_limit // 2
        first = max(1, min(centred, total - query.message_limit + 1))
    return range(first, max(first, min(first + query.message_limit, total + 1)))


def _fitting(
    connection: Connection,
    tenant: Tenant,
    number: ConversationKey,
    page: range,
    centre: int | None,
) -> range:
    """Return what of a page fits into memory; the rest follows at `next_offset`."""
    if not page:
        return page
    sizes = [
        row[0]
        for row in tenant.execute(
            connection,
            _MESSAGES["message_sizes"],
            first=message_key(number, page.start),
            last=message_key(number, page.stop - 1),
        )
    ]
    if sum(sizes) <= limits.PAGE_CHARACTERS_MAX:
        return page
    first = page.start if centre is None else centre
    return range(first, first + _fitting_count(sizes[first - page.start :]))


def _fitting_count(sizes: Sequence[int]) -> int:
    fitting = sum(total <= limits.PAGE_CHARACTERS_MAX for total in accumulate(sizes))
    return max(1, fitting)
