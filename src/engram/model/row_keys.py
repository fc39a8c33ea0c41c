"""The layout of row keys: a conversation's number above, a sequence or window number below.

Messages of one conversation have adjacent keys, so a range of keys is a conversation, and the
neighbours and windows of a message are found by arithmetic. What is not a conversation but is stored as
one, the text of a memory or of a document, is known by the range its number lies in.
"""

from __future__ import annotations

from typing import Literal

from engram.model.ids import ConversationKey, MessageKey

SEQUENCE_BITS = 24
"""`CONVERSATION_MESSAGES_MAX` is the highest sequence number that fits."""

SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1

RecordKind = Literal["conversation", "memory", "document"]
"""What holds messages."""

KINDS: tuple[RecordKind, ...] = ("conversation", "memory", "document")
"""In the order of their numbers."""

_PIECE_BITS = 24
_TEXT_PART = 1 << _PIECE_BITS - 1

KIND_BITS = 32
"""Each kind has so many numbers; statements write the bounds out, so that indexes can know them."""


def kind_of(number: int) -> RecordKind:
    """Return what has that number: the range it lies in says so."""
    return KINDS[number >> KIND_BITS]


def record_number(kind: RecordKind, place: int) -> int:
    """Return the number of the `place`-th of a kind, counted from 1."""
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
    """Return the row id of a piece of a document's body, or of the text made of it."""
    return document << _PIECE_BITS | (_TEXT_PART if is_text else 0) | place


def conversation_of(key: int) -> ConversationKey:
    """Return the conversation number in the row id of a message or window."""
    return ConversationKey(key >> SEQUENCE_BITS)


def position_of(key: int) -> int:
    """Return the sequence of a message's row id, or the number of a window's."""
    return key & SEQUENCE_MASK
