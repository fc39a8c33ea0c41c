"""Show of a memory what is asked for, within a token budget."""

from __future__ import annotations

from collections.abc import Sequence

from engram.errors import NotFoundError
from engram.model.ids import ChunkId
from engram.model.memory import Memory
from engram.model.memory_reading import FetchedMemory, MemoryChunk, MemoryFetch
from engram.text.chunks import chunks_of
from engram.text.excerpts import CHARACTERS_PER_TOKEN, brief, cut, tokens_of


def read_memory(memory: Memory, request: MemoryFetch) -> FetchedMemory:
    """Return a memory in the detail asked for.

    Raises:
        NotFoundError: it has no such chunk.
    """
    chunks = chunks_of(memory)
    summary = memory.summary or brief(memory.content)
    match request.detail:
        case "summary":
            return FetchedMemory(memory=memory, summary=summary, chunk_count=len(chunks))
        case "full":
            shown = cut(memory.content, request.token_budget * CHARACTERS_PER_TOKEN)
            return FetchedMemory(
                memory=memory,
                summary=summary,
                chunk_count=len(chunks),
                content=shown.text,
                is_truncated=shown.is_cut,
            )
        case "chunk":
            asked = _asked(chunks, request.chunk_ids) if request.chunk_ids else chunks
            fitting = _within(asked, request.token_budget)
            return FetchedMemory(
                memory=memory,
                summary=summary,
                chunk_count=len(chunks),
                chunks=tuple(fitting),
                is_truncated=any(chunk.text is None for chunk in fitting),
            )


def _asked(chunks: Sequence[MemoryChunk], chunk_ids: Sequence[ChunkId]) -> list[MemoryChunk]:
    by_id = {chunk.id: chunk for chunk in chunks}
    for unknown in (each for each in chunk_ids if each not in by_id):
        raise NotFoundError("chunk", unknown)
    return [by_id[each] for each in dict.fromkeys(chunk_ids)]


def _within(chunks: Sequence[MemoryChunk], token_budget: int) -> list[MemoryChunk]:
    """Return the chunks with the texts of those that fit; the others are handles."""
    shown: list[MemoryChunk] = []
    left = token_budget
    for chunk in chunks:
        left -= tokens_of(len(chunk.text or ""))
        shown.append(chunk if left >= 0 else _handle(chunk))
    return shown


def _handle(chunk: MemoryChunk) -> MemoryChunk:
    return MemoryChunk(id=chunk.id, index=chunk.index, start=chunk.start, end=chunk.end, text=None)
