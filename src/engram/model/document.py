"""Documents: bodies of up to 50 MiB that memories own, as they arrive and as they are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from engram import limits
from engram.errors import InvalidRequestError, RequestTooLargeError
from engram.model.checks import check_label, check_range
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import Memory, MemoryOptions

DocumentTier = Literal[0, 1, 2]
"""How a document is shown as a memory: 0 as its body, 1 and 2 as a synopsis of it."""

DocumentState = Literal["uploading", "indexing", "indexed", "unreadable", "forgotten"]
"""Unreadable is a body that could not be turned into text: it is kept, and found by its name alone.
Forgotten is one whose memory was: it is kept, and not found."""

DOCUMENT_STATES: tuple[DocumentState, ...] = get_args(DocumentState)
TEXT_MEDIA_TYPE = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentDraft:
    """A document that somebody is about to send."""

    name: str | None = None
    """A file's name, or another that people know it by."""
    media_type: str = TEXT_MEDIA_TYPE
    options: MemoryOptions = field(default_factory=MemoryOptions)
    size_bytes: int | None = None
    """As announced; what arrives must be exactly that much."""

    def __post_init__(self) -> None:
        check_label("name", self.name, characters_max=limits.NAME_CHARACTERS_MAX)
        check_label("media_type", self.media_type, characters_max=limits.NAME_CHARACTERS_MAX)
        if self.size_bytes is not None:
            check_range("size", self.size_bytes, minimum=1, maximum=limits.WHOLE_NUMBER_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLimits:
    """The sizes at which the tiers of an installation end, in bytes of the body."""

    body_bytes_max: int = limits.DOCUMENT_BYTES_MAX
    """Above it a document belongs to tier 2."""
    raw_bytes_max: int = limits.RAW_DOCUMENT_BYTES_MAX
    """Above it a document is refused."""

    def tier_of(self, size_bytes: int) -> DocumentTier:
        """Return the tier of a body, decided by its size alone.

        Raises:
            RequestTooLargeError: it is larger than any document may be.
        """
        self.check(size_bytes)
        if size_bytes <= limits.WHOLE_DOCUMENT_BYTES_MAX:
            return 0
        return 1 if size_bytes <= self.body_bytes_max else 2

    def check(self, size_bytes: int) -> None:
        """Refuse a body that is larger than any document may be."""
        if size_bytes > self.raw_bytes_max:
            raise RequestTooLargeError(
                "document", limit=self.raw_bytes_max, actual=size_bytes, unit="bytes"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A document of which some parts have arrived."""

    id: DocumentId
    parts: int
    received_bytes: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A stored document, without its body."""

    id: DocumentId
    memory_id: MemoryId
    name: str | None
    media_type: str
    tier: DocumentTier
    size_bytes: int
    sha256: str
    """Of the body, in hex."""
    state: DocumentState
    text_bytes: int
    """Of the text that is searched: the body itself, or what it was converted to."""
    text_bytes_indexed: int
    """How much of that text is searched by now."""
    created_at: datetime
    needs_text: bool = False
    """The body is still to be converted to the text that is searched."""
    problem: str | None = None
    """Why the body could not be turned into text, or why it still waits for its index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """Where a document went."""

    document: Document
    is_duplicate: bool = False
    """True when the project had the same bytes already: nothing was stored again."""
    quota_warning: str | None = None
    """Says so when the organisation has used most of its quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedDocument:
    """A document and the memory that owns it."""

    document: Document
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPage:
    """Some of an organisation's documents."""

    documents: tuple[OwnedDocument, ...]
    total: int
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """Bytes of a body from `start` up to but not including `end`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise InvalidRequestError("must begin before it ends", field="range")
