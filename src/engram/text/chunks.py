"""Chunks of memories: deterministic ranges that join back to the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from engram import limits
from engram.model.conversation import MessageDraft
from engram.model.ids import chunk_id
from engram.model.memory import Memory
from engram.model.memory_reading import MemoryChunk
from engram.text.analyse import message_words
from engram.text.passages import Passage, split_passages


def memory_chunks(content: str) -> list[Passage]:
    """Return the ranges of a memory's chunks; a short memory has one."""
    if len(content.encode()) <= limits.MEMORY_CHUNK_BYTES:
        return [Passage(0, len(content))]
    return split_passages(content, tokens_max=limits.MEMORY_CHUNK_TOKENS)


def chunks_of(memory: Memory) -> list[MemoryChunk]:
    """Return the chunks of a memory; their ids derive from its id and their ranges."""
    return [
        MemoryChunk(
            id=chunk_id(memory.id, start=passage.start, end=passage.end),
            index=index,
            start=passage.start,
            end=passage.end,
            text=memory.content[passage.start : passage.end],
        )
        for index, passage in enumerate(memory_chunks(memory.content))
    ]


def matched_chunk(chunks: Sequence[MemoryChunk], terms: AbstractSet[str]) -> MemoryChunk:
    """Return the chunk that matches a query best, by terms weighted by rarity; else the first."""
    if len(chunks) == 1:
        return chunks[0]
    matches = [terms & _words_of(chunk) for chunk in chunks]
    frequency = Counter(term for found in matches for term in found)
    # Sorted, because the sum of floats depends on their order.
    scores = [sum(1 / frequency[term] for term in sorted(found)) for found in matches]
    return chunks[scores.index(max(scores))]


def _words_of(chunk: MemoryChunk) -> set[str]:
    return set(message_words(MessageDraft(role="document", content=chunk.text or "")).split())
