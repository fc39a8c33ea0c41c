"""The chunks in which a long memory is read: deterministic ranges that join back to its text."""

from __future__ import annotations

from engram import limits
from engram.text.passages import Passage, split_passages


def memory_chunks(content: str) -> list[Passage]:
    """Return the ranges of a memory's chunks: one, unless it is long."""
    if len(content.encode()) <= limits.MEMORY_CHUNK_BYTES:
        return [Passage(0, len(content))]
    return split_passages(content, tokens_max=limits.MEMORY_CHUNK_TOKENS)
