"""What callers may send about notes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engram import limits
from engram.errors import InvalidRequestError
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
from engram.transport.requests.fields import WHOLE, Offset, Project, Source, Tags
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
