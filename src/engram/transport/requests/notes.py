"""What callers may send about notes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.context import ContextRequest
from engram.model.conversation import DEFAULT_PROJECT
from engram.model.ids import MemoryId
from engram.model.memory import (
    DEFAULT_SOURCE,
    Category,
    MemoryDraft,
    MemoryFilters,
    MemoryQuery,
    note_draft,
)
from engram.model.search import Kind
from engram.transport.requests.fields import (
    WHOLE,
    Offset,
    Project,
    Share,
    Source,
    Tags,
    TokenBudget,
)
from engram.transport.requests.request import Request


class StoreNote(Request):
    content: Annotated[
        str,
        Field(
            min_length=limits.NOTE_CHARACTERS_MIN,
            max_length=limits.NOTE_CHARACTERS_MAX,
            description="One fact, at most 2,000 characters.",
        ),
    ]
    category: Category = "general"
    source: Source = DEFAULT_SOURCE
    tags: Tags = []
    project: Project = DEFAULT_PROJECT

    def to_model(self) -> MemoryDraft:
        return note_draft(
            self.content,
            category=self.category,
            source=self.source,
            tags=tuple(self.tags),
            project=self.project,
        )


class StoreNotes(Request):
    """Notes to keep together, all or none."""

    notes: Annotated[list[StoreNote], Field(min_length=1, max_length=limits.MEMORIES_PER_CALL_MAX)]

    def to_model(self) -> tuple[MemoryDraft, ...]:
        drafts = list[MemoryDraft]()
        for index, note in enumerate(self.notes):
            try:
                drafts.append(note.to_model())
            except InvalidRequestError as exc:
                raise exc.within(f"notes[{index}]") from exc
        return tuple(drafts)


class ListEntries(Request):
    limit: Annotated[int, Field(ge=1, le=limits.NOTE_PAGE_MAX), WHOLE] = 10
    offset: Offset = 0
    category: Category | None = None
    source: Source | None = None

    def to_model(self) -> MemoryQuery:
        filters = MemoryFilters(
            categories=() if self.category is None else (self.category,),
            sources=() if self.source is None else (self.source,),
        )
        return MemoryQuery(limit=self.limit, offset=self.offset, filters=filters)


class RemoveEntry(Request):
    entry_id: str

    def to_model(self) -> MemoryId:
        return MemoryId(self.entry_id)


class FetchContext(Request):
    query: Annotated[
        str,
        Field(
            min_length=limits.CONTEXT_QUERY_CHARACTERS_MIN, description="What you are working on."
        ),
    ]
    top_k: Annotated[int, Field(ge=1, le=limits.CONTEXT_RESULTS_MAX), WHOLE] = 5
    category_filter: Category | None = None
    min_score: Share | None = None
    token_budget: TokenBudget = 1500
    kinds: Annotated[list[Kind], Field(min_length=1)] = ["note"]

    def to_model(self) -> ContextRequest:
        return ContextRequest(
            query=self.query,
            top_k=self.top_k,
            category_filter=self.category_filter,
            min_score=self.min_score,
            token_budget=self.token_budget,
            kinds=tuple(dict.fromkeys(self.kinds)),
        )
