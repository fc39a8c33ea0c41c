"""Chunks of memories: deterministic ranges that join back to the text, matched or fitted to a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from engram import limits
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.conversation import MessageDraft
from engram.model.ids import ChunkId, chunk_id
from engram.model.memory import Memory
from engram.model.recall import FetchedMemory, MemoryChunk, MemoryFetch
from engram.model.value import replace
from engram.text.analyse import message_words
from engram.text.excerpts import brief, cut_tokens
from engram.text.passages import Passage, split_passages
from engram.text.tokens import count_tokens


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


def read_memory(memory: Memory, request: MemoryFetch) -> FetchedMemory:
    """Return a memory in the requested detail, within the token budget.

    Raises:
        NotFoundError: it has no such chunk.
        InvalidRequestError: it has no such character.
    """
    chunks = chunks_of(memory)
    fetched = FetchedMemory(
        memory=memory, summary=memory.summary or brief(memory.content), chunk_count=len(chunks)
    )
    match request.detail:
        case "summary":
            return fetched
        case "full":
            shown = cut_tokens(_from_character(memory, request), request.token_budget)
            return replace(fetched, content=shown.text, is_truncated=shown.is_cut)
        case "chunk":
            wanted = _select(chunks, request.chunk_ids) if request.chunk_ids else chunks
            fitting = _fit_chunks(wanted, request.token_budget)
            is_truncated = any(chunk.text is None for chunk in fitting)
            return replace(fetched, chunks=tuple(fitting), is_truncated=is_truncated)


def _from_character(memory: Memory, request: MemoryFetch) -> str:
    if request.from_character > len(memory.content):
        message = f"must be at most {len(memory.content):,}, where the memory ends"
        raise InvalidRequestError(message, field="from_character")
    return memory.content[request.from_character :]


def _select(chunks: Sequence[MemoryChunk], chunk_ids: Sequence[ChunkId]) -> list[MemoryChunk]:
    by_id = {chunk.id: chunk for chunk in chunks}
    for unknown in (each for each in chunk_ids if each not in by_id):
        raise NotFoundError("chunk", unknown)
    return [by_id[each] for each in dict.fromkeys(chunk_ids)]


def _fit_chunks(chunks: Sequence[MemoryChunk], token_budget: int) -> list[MemoryChunk]:
    """Return the chunks, those that exceed the budget without their texts."""
    shown: list[MemoryChunk] = []
    left = token_budget
    for chunk in chunks:
        left -= count_tokens(chunk.text or "") if left >= 0 else 0
        shown.append(chunk if left >= 0 else replace(chunk, text=None))
    return shown


def _words_of(chunk: MemoryChunk) -> set[str]:
    return set(message_words(MessageDraft(role="document", content=chunk.text or "")).split())
