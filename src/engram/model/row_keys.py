"""The bit layout of row keys: conversation number above, sequence or window number below.

Messages of one conversation have adjacent keys, so a conversation is a range of keys, and the
neighbours and windows of a message are found by arithmetic. The texts of memories and documents are
stored like conversations, with numbers from ranges of their own.
"""

from __future__ import annotations

from typing import Literal

from engram.model.ids import ConversationKey, MessageKey

SEQUENCE_BITS = 24
"""`CONVERSATION_MESSAGES_MAX` is the highest sequence number that fits."""

SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1

RecordKind = Literal["conversation", "memory", "document"]
"""What a record, which owns messages, belongs to."""

KINDS: tuple[RecordKind, ...] = ("conversation", "memory", "document")
"""In ascending order of their number ranges."""

_PIECE_BITS = 24
_TEXT_PART = 1 << _PIECE_BITS - 1
"""The highest bit of a piece number separates pieces of the text from those of the body."""

KIND_BITS = 32
"""Numbers per kind are 2**32. SQL spells the bounds out as literals, which partial indexes need."""


def kind_of(number: int) -> RecordKind:
    """Return the kind of a record, which is the range that its number lies in."""
    return KINDS[number >> KIND_BITS]


def record_number(kind: RecordKind, place: int) -> int:
    """Return the number of the `place`-th record of a kind, counted from 1."""
    if not 0 < place < 1 << KIND_BITS:
        raise ValueError(f"there is no {kind} number {place:,}")
    return (KINDS.index(kind) << KIND_BITS) + place


def message_key(conversation: int, sequence: int) -> MessageKey:
    """Return the row id of a message."""
    return MessageKey(conversation << SEQUENCE_BITS | sequence)


def window_key(conversation: int, number: int) -> int:
    """Return the row id of a window."""
    return conversation << SEQUENCE_BITS | number


def piece_key(document: int, *, is_text: bool, place: int) -> int:
    """Return the row id of a piece of a document's body, or of the text converted from it."""
    return document << _PIECE_BITS | (_TEXT_PART if is_text else 0) | place


def conversation_of(key: int) -> ConversationKey:
    """Return the conversation number in the row id of a message or window."""
    return ConversationKey(key >> SEQUENCE_BITS)


def position_of(key: int) -> int:
    """Return the sequence in a message's row id, or the window number in a window's."""
    return key & SEQUENCE_MASK
