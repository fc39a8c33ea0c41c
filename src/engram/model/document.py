"""Documents, which are large bodies owned by memories: uploads, and the stored values."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from engram import limits
from engram.errors import InvalidRequestError, RequestTooLargeError
from engram.model.fields import Between, Name
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import Memory, MemoryOptions
from engram.model.request import Request
from engram.model.value import Value

DocumentTier = Literal[0, 1, 2]
"""What the owning memory contains: the whole body (0), or a synopsis of it (1 and 2)."""

DocumentState = Literal["uploading", "indexing", "indexed", "unreadable", "forgotten"]
"""An unreadable body could not be converted to text: it is stored, and found by its name alone.
A forgotten one belongs to a forgotten memory: it is stored, and not searched."""

TEXT_MEDIA_TYPE = "text/plain"


class DocumentDraft(Request):
    """A document about to be uploaded."""

    name: Name | None = None
    """Its file name, or another name that people know it by."""
    media_type: Name = TEXT_MEDIA_TYPE
    options: MemoryOptions = MemoryOptions()
    size_bytes: Annotated[int, Between(1, limits.WHOLE_NUMBER_MAX)] | None = None
    """The announced size, which the upload must match exactly."""


class DocumentLimits(Value):
    """Upper bounds of the document tiers of an installation, in bytes of the body."""

    body_bytes_max: int = limits.DOCUMENT_BYTES_MAX
    """Larger documents belong to tier 2."""
    raw_bytes_max: int = limits.RAW_DOCUMENT_BYTES_MAX
    """Larger documents are rejected."""

    def tier_of(self, size_bytes: int) -> DocumentTier:
        """Return the tier of a body, which depends on its size alone.

        Raises:
            RequestTooLargeError: the body is larger than any document may be.
        """
        self.check(size_bytes)
        if size_bytes <= limits.WHOLE_DOCUMENT_BYTES_MAX:
            return 0
        return 1 if size_bytes <= self.body_bytes_max else 2

    def check(self, size_bytes: int) -> None:
        """Reject a body that is larger than any document may be."""
        if size_bytes > self.raw_bytes_max:
            raise RequestTooLargeError(
                "document", limit=self.raw_bytes_max, actual=size_bytes, unit="bytes"
            )


class Upload(Value):
    """An unfinished upload in parts."""

    id: DocumentId
    parts: int
    received_bytes: int
    expires_at: datetime


class Document(Value):
    """A stored document, without its body."""

    id: DocumentId
    memory_id: MemoryId
    name: str | None
    media_type: str
    tier: DocumentTier
    size_bytes: int
    sha256: str
    """SHA-256 of the body, in hex."""
    state: DocumentState
    text_bytes: int
    """Size of the searchable text: the body itself, or what it was converted to."""
    text_bytes_indexed: int
    """How much of that text is indexed."""
    created_at: datetime
    needs_text: bool = False
    """True until the body has been converted to text."""
    problem: str | None = None
    """Why the body could not be converted to text, or why indexing is delayed."""


class StoredDocument(Value):
    """Result of storing a document."""

    document: Document
    is_duplicate: bool = False
    """True if the project already has the same bytes: nothing was stored."""
    quota_warning: str | None = None
    """Set when the organisation has used most of its quota."""


class OwnedDocument(Value):
    """A document and the memory that owns it."""

    document: Document
    memory: Memory


class DocumentPage(Value):
    """One page of documents and the total count."""

    documents: tuple[OwnedDocument, ...]
    total: int
    next_offset: int | None


class ByteRange(Value):
    """A half-open range of bytes of a body: from `start` up to `end`, exclusive."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise InvalidRequestError("must start before it ends", field="range")
