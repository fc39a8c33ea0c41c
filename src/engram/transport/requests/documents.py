"""What callers may say of documents; their bodies come beside it."""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated, Literal

from pydantic import Field

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.checks import check_text
from engram.model.document import TEXT_MEDIA_TYPE, DocumentDraft
from engram.model.ids import DocumentId
from engram.model.memory import MemoryFilters, MemoryQuery, check_project
from engram.transport.requests.fields import WHOLE, Name, Offset, Project, Tags
from engram.transport.requests.memories import InProject, MemoryFields, WithContent
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


class StoreDocument(DocumentFields, WithContent):
    media_type: Name = TEXT_MEDIA_TYPE

    def to_model(self) -> tuple[DocumentDraft, bytes]:
        """Return what is said of the document, and its body."""
        check_text("content", self.content, bytes_max=limits.BODY_BYTES_MAX)
        body = self.content.encode()
        return self.to_draft(media_type=self.media_type, size_bytes=len(body)), body


class StreamDocument(BeginUpload):
    """One step of a document that comes in parts."""

    action: Literal["start", "append", "finish"]
    upload_id: Annotated[str | None, Field(description="As start gave it.")] = None
    part: Annotated[
        int | None,
        Field(ge=0, le=limits.WHOLE_NUMBER_MAX, description="0, 1, 2 …; may be repeated."),
        WHOLE,
    ] = None
    data: Annotated[str | None, Field(description="Base64.")] = None
    text: Annotated[str | None, Field(description="In place of data.")] = None

    def to_upload_id(self) -> DocumentId:
        """Return which upload goes on; what is said of the document was said when it began."""
        check_project(self.project)
        late = self.model_fields_set & (BeginUpload.model_fields.keys() - {"project"})
        for name in sorted(late):
            raise InvalidRequestError("goes with action start", field=name)
        if self.upload_id is None:
            raise InvalidRequestError(f"is required to {self.action}", field="upload_id")
        return DocumentId(self.upload_id)

    def to_part(self) -> tuple[int, bytes]:
        """Return which part it is, and its bytes."""
        if self.part is None:
            raise InvalidRequestError("is required to append", field="part")
        if (self.data is None) == (self.text is None):
            raise InvalidRequestError("is required to append, or text", field="data")
        return self.part, self._decoded() if self.text is None else self._encoded(self.text)

    def _decoded(self) -> bytes:
        try:
            return b64decode(self.data or "", validate=True)
        except ValueError as exc:
            raise InvalidRequestError("must be base64", field="data") from exc

    def _encoded(self, text: str) -> bytes:
        check_text("text", text, bytes_max=limits.UPLOAD_PART_BYTES_MAX)
        return text.encode()
