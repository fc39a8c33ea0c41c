"""The chunks in which a long memory is read: deterministic ranges that join back to its text."""

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
    """Return the ranges of a memory's chunks: one, unless it is long."""
    if len(content.encode()) <= limits.MEMORY_CHUNK_BYTES:
        return [Passage(0, len(content))]
    return split_passages(content, tokens_max=limits.MEMORY_CHUNK_TOKENS)


def chunks_of(memory: Memory) -> list[MemoryChunk]:
    """Return the chunks of a memory; their ids follow from its id and their ranges alone."""
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
    """Return the chunk that holds most of a query's terms, rare ones counting more; else the first."""
    if len(chunks) == 1:
        return chunks[0]
    held = [terms & _words_of(chunk) for chunk in chunks]
    holding = Counter(term for found in held for term in found)
    worths = [sum(1 / holding[term] for term in sorted(found)) for found in held]
    return chunks[worths.index(max(worths))]


def _words_of(chunk: MemoryChunk) -> set[str]:
    return set(message_words(MessageDraft(role="document", content=chunk.text or "")).split())
