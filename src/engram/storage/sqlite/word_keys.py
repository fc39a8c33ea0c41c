"""Row ids of the word index, made of the keys of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.model.row_keys import SEQUENCE_BITS, conversation_of, position_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_BITS = 12
BLOCK_MASK = (1 << BLOCK_BITS) - 1
_CONVERSATION_BITS = 34
_CONVERSATION_MASK = (1 << _CONVERSATION_BITS) - 1


def word_row(key: int) -> int:
    """Return the row id in a word index of the message with that key.

    FTS5 stores what lies between the row ids of a word, so the first 4,096 positions of all
    conversations come side by side: measured 14 to 19 % less index for conversations of 100 and
    of 20 messages, and the same for one of 10,000. `words.sql` says this as SQL.
    """
    block = position_of(key) >> BLOCK_BITS
    row = block << _CONVERSATION_BITS | conversation_of(key)
    return row << BLOCK_BITS | key & BLOCK_MASK


def keys_of_word_rows(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the keys of the messages in those rows of a word index."""
    conversations = rows >> BLOCK_BITS & _CONVERSATION_MASK
    blocks = rows >> (BLOCK_BITS + _CONVERSATION_BITS)
    return conversations << SEQUENCE_BITS | blocks << BLOCK_BITS | rows & BLOCK_MASK


def key_of_word_row(row: int) -> int:
    """Return the key of the message in that row of a word index."""
    conversation = row >> BLOCK_BITS & _CONVERSATION_MASK
    block = row >> (BLOCK_BITS + _CONVERSATION_BITS)
    return conversation << SEQUENCE_BITS | block << BLOCK_BITS | row & BLOCK_MASK
