"""The layout of row keys holds every message that a conversation may have."""

from __future__ import annotations

from engram.limits import CONVERSATION_MESSAGES_MAX
from engram.model.row_keys import SEQUENCE_MASK


def test_every_sequence_number_of_a_conversation_fits_its_row_key() -> None:
    assert SEQUENCE_MASK == CONVERSATION_MESSAGES_MAX
