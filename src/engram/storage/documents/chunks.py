"""Store the chunks of a document as the messages of its record, with all that is derived from them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from engram.clock import from_microseconds
from engram.model.conversation import Message
from engram.model.ids import ConversationId, message_id
from engram.model.row_keys import message_key
from engram.model.vectors import Indexing
from engram.storage.bodies.records import record_size
from engram.storage.bodies.rows import DocumentRow
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.content.messages import to_json
from engram.storage.content.pieces import PIECE
from engram.storage.content.preparation import PreparedMessage
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.storage.vectors.rows import index_appended
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch, append_rows
from engram.text.analyse import message_words, part_words
from engram.text.documents import DocumentChunk, chunk_name

_CONVERSATIONS = load_queries("conversations/conversations.sql")
_MESSAGES = load_queries("conversations/messages.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunks:
    """What is to be added to a document's record."""

    row: DocumentRow
    record: int
    messages: Sequence[PreparedMessage]
    indexing: Indexing

    @property
    def content_bytes(self) -> int:
        """Return the bytes that are stored with the messages themselves."""
        return sum(message.content_bytes for message in self.messages)


def prepare_chunk(row: DocumentRow, chunk: DocumentChunk) -> PreparedMessage:
    """Return a chunk ready to be stored: its text stays where it is, in the document."""
    message = Message(
        id=message_id(ConversationId(row.memory_id or ""), chunk.index + 1),
        sequence=chunk.index + 1,
        role="document",
        content=chunk.text,
        name=chunk_name(chunk, row.name),
        occurred_at=None if row.valid_from is None else from_microseconds(row.valid_from),
        created_at=from_microseconds(row.created_at),
    )
    metadata = {
        "start": chunk.start,
        "end": chunk.end,
        "start_byte": chunk.start_byte,
        "end_byte": chunk.end_byte,
        "headings": chunk.headings,
    }
    values = {
        "role": message.role,
        "characters": len(chunk.text),
        "occurred_at": row.valid_from,
        "name": message.name,
        "tool_call_id": None,
        "tool_name": None,
        "content_encoding": PIECE,
        "sha256": hashlib.sha256(chunk.text.encode()).digest(),
        "metadata": to_json(metadata),
        "content": row.text_pieces.refer(chunk.start_byte, chunk.end_byte),
    }
    words = part_words(message_words(message))
    return PreparedMessage(values=values, words=words, content_bytes=0)


def add_chunks(tx: Transaction, new: NewChunks) -> None:
    """Add messages to a document's record."""
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    messages, _ = record_size(tx, new.record)
    stretch = Stretch(new.record, ConversationId(new.row.memory_id or ""), messages)
    first = message_key(new.record, stretch.last_sequence + 1)
    keys = range(first, first + len(new.messages))
    tx.execute_many(
        _MESSAGES["add_message"],
        [
            {"key": key, "created_at": new.row.created_at, **message.values}
            for key, message in zip(keys, new.messages, strict=True)
        ],
    )
    chunks = append_rows(
        tx,
        stretch,
        [message.words for message in new.messages],
        also_next=state.is_in_next(new.record),
    )
    tx.execute(
        _CONVERSATIONS["grow_conversation"],
        conversation=new.record,
        messages=len(new.messages),
        content_bytes=new.content_bytes,
        now=now,
    )
    grow_counters(tx, chunks=chunks, content_bytes=new.content_bytes)
    index_appended(tx, keys, new.indexing)
