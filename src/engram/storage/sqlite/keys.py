"""Row ids that carry their meaning: a conversation's number above, a sequence or window number below.

Messages of a conversation lie side by side in the table and in the word index, and a message's
windows are found by arithmetic instead of a look-up.
"""

from __future__ import annotations

from engram.model.ids import ConversationKey, MessageKey

SEQUENCE_BITS = 24
_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1


def message_key(conversation: int, sequence: int) -> MessageKey:
    """Return the row id of a message."""
    return MessageKey(conversation << SEQUENCE_BITS | sequence)


def window_key(conversation: int, number: int) -> int:
    """Return the row id of a window."""
    return conversation << SEQUENCE_BITS | number


def conversation_of(key: int) -> ConversationKey:
    """Return the conversation number in the row id of a message or window."""
    return ConversationKey(key >> SEQUENCE_BITS)


def position_of(key: int) -> int:
    """Return the sequence of a message's row id, or the number of a window's."""
    return key & _SEQUENCE_MASK
