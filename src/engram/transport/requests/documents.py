"""What callers may say of documents; their bodies come beside it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engram import limits
from engram.model.document import TEXT_MEDIA_TYPE, DocumentDraft
from engram.model.memory import MemoryFilters, MemoryQuery
from engram.transport.requests.fields import WHOLE, Name, Offset, Project, Tags
from engram.transport.requests.memories import InProject, MemoryFields
from engram.transport.requests.request import Request


class DocumentFields(MemoryFields, InProject):
    """What may be said of a document: its name, and all that may be said of a memory."""

    name: Annotated[Name | None, Field(description="Its file name, or another.")] = None

    def to_draft(self, *, media_type: str, size_bytes: int | None) -> DocumentDraft:
        return DocumentDraft(
            name=self.name,
            media_type=media_type,
            options=self.to_options(self.project),
            size_bytes=size_bytes,
        )


class BeginUpload(DocumentFields):
    """A document that will come in parts."""

    media_type: Name = TEXT_MEDIA_TYPE
    size_bytes: Annotated[
        int | None,
        Field(ge=1, le=limits.WHOLE_NUMBER_MAX, description="Exactly as much must arrive."),
        WHOLE,
    ] = None

    def to_model(self) -> DocumentDraft:
        return self.to_draft(media_type=self.media_type, size_bytes=self.size_bytes)


class ListDocuments(Request):
    limit: Annotated[int, Field(ge=1, le=limits.DOCUMENT_PAGE_MAX), WHOLE] = 20
    offset: Offset = 0
    project: Annotated[Project | None, Field(description="Of this project alone.")] = None
    tags: Annotated[Tags, Field(description="Any may match.")] = []

    def to_model(self) -> MemoryQuery:
        filters = MemoryFilters(
            projects=None if self.project is None else (self.project,), tags=tuple(self.tags)
        )
        return MemoryQuery(limit=self.limit, offset=self.offset, filters=filters)
