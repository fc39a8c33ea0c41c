"""Documents, which are large bodies owned by memories: uploads, stored values, and queries over their texts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from engram import limits
from engram.errors import InvalidRequestError, RequestTooLargeError
from engram.model.fields import DEFAULT_PROJECT, Between, Length, Name, Project, Query, TokenBudget
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import Memory, MemoryOptions
from engram.model.request import Request
from engram.model.value import INTERNAL, Score, Value, computed

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


QUERY_WINDOW = 4_000
QUERY_TOKENS = 6_000

Substring = Annotated[str, Length(1, limits.SUBSTRING_CHARACTERS_MAX)]


class TextFilter(Request):
    """A filter on a text: a span qualifies if it matches the pattern or any substring."""

    regex: Annotated[str | None, Length(1, limits.REGEX_CHARACTERS_MAX), "RE2."] = None
    substrings: Annotated[
        tuple[Substring, ...], Length(0, limits.SUBSTRINGS_MAX), "Found as they are written."
    ] = ()

    @property
    def is_empty(self) -> bool:
        """Return True if it has neither a pattern nor substrings."""
        return self.regex is None and not self.substrings


class DocumentQuery(Request):
    """A question about the texts of some memories."""

    question: Query
    filter: Annotated[TextFilter | None, "Spans around what matches any of it."] = None
    window_chars: Annotated[
        int,
        Between(1, limits.QUERY_WINDOW_CHARACTERS_MAX),
        "Around each match, half on each side.",
    ] = QUERY_WINDOW
    semantic: Annotated[bool, "Also spans near to the question."] = True
    token_budget: TokenBudget = QUERY_TOKENS
    project: Project | None = DEFAULT_PROJECT
    """The project of the memories; None means any."""
    memory_id: str | None = None
    """The id of a memory, or of the document that it owns."""
    memory_ids: Annotated[
        tuple[str, ...],
        Length(0, limits.QUERY_DOCUMENTS_MAX),
        "Several, in place of memory_id.",
    ] = ()

    def check(self) -> None:
        if self.memory_id is not None and self.memory_ids:
            raise InvalidRequestError("cannot be combined with memory_id", field="memory_ids")
        if self.memory_id is None and not self.memory_ids:
            raise InvalidRequestError("is required unless memory_ids is given", field="memory_id")

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the ids of all memories and documents to query."""
        return self.memory_ids if self.memory_id is None else (self.memory_id,)

    @property
    def wanted(self) -> TextFilter:
        """Return the filter, or an empty one if none is given."""
        return self.filter or TextFilter()


class TextRange(Value):
    """A half-open range of a text, in characters and in bytes of its UTF-8."""

    start: int
    end: int
    start_byte: int
    end_byte: int


class Match(TextRange):
    """A range found by the filter, or by its similarity to the question."""

    score: float | None = None
    """Similarity to the question; None for a match of the filter."""
    place: int = -1
    """Rank by similarity to the question, from 0; matches of the filter have -1 and come first."""


class Span(TextRange):
    """Text around matches, whose ranges are relative to the whole text."""

    memory_id: MemoryId
    text: str
    matches: tuple[Match, ...]
    headings: tuple[str, ...] = ()
    """Known headings above its focus, the outermost first."""
    is_cut: bool = False
    """True if the token budget cut it short."""

    @property
    def focus(self) -> Match:
        """Return the best match, which is kept when the span is cut."""
        return min(self.matches, key=lambda match: match.place)

    @property
    def score(self) -> float | None:
        """Return the highest similarity of its matches; None if only the filter matched."""
        return max((each.score for each in self.matches if each.score is not None), default=None)


class QueriedText(Value, omit_defaults=True):
    """A text that was searched."""

    memory_id: MemoryId
    text_bytes: int
    """0 while the document is being converted to text, or if it has no text."""
    indexed_bytes: Annotated[int, INTERNAL]
    """How much of it is searched by meaning; the filter searches all of it."""
    document_id: DocumentId | None = None

    @computed
    def indexed(self) -> Score:
        """Return the share of the text that is searched by meaning."""
        return self.indexed_bytes / self.text_bytes if self.text_bytes else 1.0


class CitedAnswer(Value):
    """An answer that a language model gave from spans."""

    text: str
    cited: tuple[int, ...]
    """Indexes, from 0, of the spans it cites."""
    dropped: tuple[str, ...] = ()
    """Citations of spans that do not exist, which were removed from the text."""


class QueriedDocuments(Value):
    """The spans that answer a question, in the order of the texts."""

    spans: tuple[Span, ...]
    texts: tuple[QueriedText, ...]
    is_truncated: bool
    """True if the token budget or the timeout left out further spans."""
    degraded: tuple[str, ...]
    note: str | None = None
    answer: CitedAnswer | None = None
