"""The layout of a message's row key: the conversation number above, the sequence number below.

Messages of one conversation have adjacent keys, so a range of keys is a conversation and the
neighbours of a message are found by arithmetic.
"""

from __future__ import annotations

SEQUENCE_BITS = 24
"""`CONVERSATION_MESSAGES_MAX` is the highest sequence number that fits."""

SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
