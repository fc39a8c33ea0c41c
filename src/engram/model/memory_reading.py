"""How a memory is asked for by its id, and what is shown of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.checks import check_choice, check_moment, check_range
from engram.model.document import Document
from engram.model.ids import ChunkId, MemoryId
from engram.model.memory import Memory, MemoryVersion, check_project

FetchDetail = Literal["summary", "chunk", "full"]
FETCH_DETAILS: tuple[FetchDetail, ...] = get_args(FetchDetail)

READING_TOKENS = 10_000
"""What the answer of one reading costs at most, unless it is asked for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFetch:
    """Which memory to read, and how much of it."""

    memory_id: MemoryId
    project: str | None = None
    """The project it must be of; None is any of the organisation's."""
    detail: FetchDetail = "summary"
    chunk_ids: tuple[ChunkId, ...] = ()
    """With detail `chunk` only these; none are all."""
    token_budget: int = READING_TOKENS

    def __post_init__(self) -> None:
        if self.project is not None:
            check_project(self.project)
        check_choice("detail", self.detail, FETCH_DETAILS)
        if self.chunk_ids and self.detail != "chunk":
            raise InvalidRequestError("goes with detail chunk", field="chunk_ids")
        check_token_budget(self.token_budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChunk:
    """A range of a memory's text."""

    id: ChunkId
    index: int
    start: int
    """In characters of the content; the ranges of all chunks join up."""
    end: int
    text: str | None
    """None when it did not fit the token budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedMemory:
    """A memory, as much of it as was asked for."""

    memory: Memory
    summary: str
    chunk_count: int
    content: str | None = None
    chunks: tuple[MemoryChunk, ...] | None = None
    document: Document | None = None
    """The one it owns."""
    is_truncated: bool = False
    """Whether something that was asked for did not fit the token budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHistory:
    """A memory as it is, and as it was before, oldest first."""

    memory: Memory
    versions: tuple[MemoryVersion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineQuery:
    """At which moment to look back, and how far."""

    as_of: datetime
    projects: tuple[str, ...] | None = None
    """None is every project of the organisation."""
    limit: int = 20

    def __post_init__(self) -> None:
        check_moment("as_of", self.as_of)
        for project in self.projects or ():
            check_project(project)
        check_range("limit", self.limit, minimum=1, maximum=limits.MEMORY_PAGE_MAX)


def check_token_budget(value: int) -> None:
    """Refuse a budget that nothing fits, or that no client can read."""
    check_range(
        "token_budget", value, minimum=limits.TOKEN_BUDGET_MIN, maximum=limits.TOKEN_BUDGET_MAX
    )
