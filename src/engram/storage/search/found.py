"""Read what a search found: messages, conversations and memories that still exist."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from engram.model.conversation import Conversation, Message
from engram.model.ids import ConversationKey, MessageKey
from engram.model.row_keys import conversation_of, kind_of
from engram.model.search import Loaded
from engram.storage.content.messages import find_rows, read_conversations, read_rows
from engram.storage.rows.message_cache import CachedMessage
from engram.storage.rows.queries import load_queries
from engram.storage.search.found_memories import read_found_memories
from engram.storage.search.state import SearchState
from engram.storage.tenant import Transaction

_MESSAGES = load_queries("search/messages.sql")


def load_found(
    tx: Transaction,
    messages: Sequence[MessageKey],
    conversations: Sequence[ConversationKey],
    *,
    state: SearchState,
) -> Loaded:
    """Return those of the messages and conversations that still exist; records are memories."""
    records = [number for number in conversations if kind_of(number) != "conversation"]
    said = [key for key in messages if kind_of(conversation_of(key)) != "memory"]
    numbers = [number for number in conversations if kind_of(number) == "conversation"]
    known = read_conversations(tx, numbers)
    return Loaded(
        messages=_read_found(tx, said, known, revision=state.revision),
        conversations=known,
        memories=read_found_memories(tx, records) if records else {},
        chunk_counts=_chunk_counts(tx, records),
        pending=state.pending,
    )


def _read_found(
    tx: Transaction,
    keys: Sequence[MessageKey],
    known: Mapping[ConversationKey, Conversation],
    *,
    revision: int,
) -> dict[MessageKey, Message]:
    """Return the messages that exist among `keys`, as far as they are remembered without decoding."""
    found = _remembered(tx, keys, revision=revision)
    missing = [key for key in keys if key not in found]
    if missing:
        rows = find_rows(tx, missing)
        read = read_rows(tx, rows, known=known)
        for row in rows:
            entry = CachedMessage(read[MessageKey(row.key)], row.sha256, revision)
            tx.tenant.message_cache.put(row.key, entry)
        found |= read
    return found


def _remembered(
    tx: Transaction, keys: Sequence[MessageKey], *, revision: int
) -> dict[MessageKey, Message]:
    """Return the messages that are remembered, and are still there with the same proof."""
    entries = {
        key: entry for key in keys if (entry := tx.tenant.message_cache.get(key)) is not None
    }
    found = {key: entry.message for key, entry in entries.items() if entry.revision == revision}
    unproved = [key for key in entries if key not in found]
    if unproved:
        proofs = tx.execute(_MESSAGES["load_proofs"], keys=json.dumps(unproved))
        for key, proof in proofs:
            message = entries[key].message
            if entries[key].sha256 == proof:
                tx.tenant.message_cache.put(key, CachedMessage(message, proof, revision))
                found[key] = message
    return found


def _chunk_counts(
    tx: Transaction, records: Sequence[ConversationKey]
) -> dict[ConversationKey, int]:
    documents = [number for number in records if kind_of(number) == "document"]
    if not documents:
        return {}
    known = read_conversations(tx, documents)
    return {number: record.message_count for number, record in known.items()}
