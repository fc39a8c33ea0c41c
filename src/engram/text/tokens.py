"""What texts cost of a token budget, counted alike wherever a budget is kept."""

from __future__ import annotations

CHARACTERS_PER_TOKEN = 4


def tokens_of(characters: int) -> int:
    """Return the tokens that a text of that length is counted as."""
    return -(-characters // CHARACTERS_PER_TOKEN)
