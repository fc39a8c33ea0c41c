"""Reading memories: by id, their history, and as of a moment in the past."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.document import Document
from engram.model.fields import Between, Length, Offset, Project, TokenBudget
from engram.model.ids import ChunkId, MemoryId
from engram.model.memory import Memory, MemoryVersion
from engram.model.request import Request
from engram.model.value import Value

FetchDetail = Literal["summary", "chunk", "full"]

READING_TOKENS = 10_000
"""Default token budget of a response with memories."""


class MemoryFetch(Request):
    """Which memory to read, and how much of it."""

    id: MemoryId
    project: Project | None = None
    """The project of the memory; None means any of the organisation's."""
    detail: FetchDetail = "summary"
    chunk_ids: Annotated[
        tuple[ChunkId, ...], Length(0, limits.CHUNKS_PER_CALL_MAX), "With detail chunk."
    ] = ()
    """The chunks to read with detail `chunk`; empty means all."""
    token_budget: TokenBudget = READING_TOKENS
    from_character: Annotated[
        int, Between(0, limits.MEMORY_BYTES_MAX), "With detail full: begin here, to read on."
    ] = 0

    def check(self) -> None:
        if self.from_character and self.detail != "full":
            raise InvalidRequestError("can only be given with detail full", field="from_character")
        if self.chunk_ids and self.detail != "chunk":
            raise InvalidRequestError("can only be given with detail chunk", field="chunk_ids")


class MemoryChunk(Value):
    """A range of a memory's text."""

    id: ChunkId
    index: int
    start: int
    """In characters of the content; the chunks' ranges are contiguous."""
    end: int
    text: str | None
    """None if it did not fit the token budget."""


class FetchedMemory(Value):
    """A memory with the requested level of detail."""

    memory: Memory
    summary: str
    chunk_count: int
    content: str | None = None
    chunks: tuple[MemoryChunk, ...] | None = None
    document: Document | None = None
    """The document it owns, if any."""
    is_truncated: bool = False
    """True if some of the requested text did not fit the token budget."""


class MemoryHistory(Value):
    """A memory and its earlier versions, oldest first."""

    memory: Memory
    versions: tuple[MemoryVersion, ...]


class TimelineQuery(Request):
    """Selects memories as they were known at a moment in the past."""

    as_of: datetime
    projects: tuple[Project, ...] | None = None
    """None means every project of the organisation."""
    limit: Annotated[int, Between(1, limits.MEMORY_PAGE_MAX)] = 20
    offset: Offset = 0
