"""Questions to the texts of documents and memories, and the parts of them that answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError
from engram.model.checks import check_range, check_text
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import check_project

QUERY_WINDOW = 4_000
QUERY_TOKENS = 6_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFilter:
    """What must stand in the parts of a text that are wanted; any of it is enough."""

    regex: str | None = None
    """In the syntax of RE2."""
    substrings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.substrings) > limits.SUBSTRINGS_MAX:
            raise LimitExceededError(
                "filter.substrings",
                limit=limits.SUBSTRINGS_MAX,
                actual=len(self.substrings),
                unit="texts",
            )

    @property
    def is_empty(self) -> bool:
        """Return True if the request asks for nothing."""
        return self.regex is None and not self.substrings


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentQuery:
    """A question to the texts of some memories."""

    memory_ids: tuple[str, ...]
    """Of memories, or of the documents that they own."""
    question: str
    filter: TextFilter = field(default_factory=TextFilter)
    window_chars: int = QUERY_WINDOW
    """Text around each match, half of it on each side."""
    semantic: bool = True
    """Whether parts that are near to the question are wanted too."""
    token_budget: int = QUERY_TOKENS
    project: str | None = None
    """Where the memories must be; None is anywhere."""

    def __post_init__(self) -> None:
        if not self.memory_ids:
            raise InvalidRequestError("must not be empty", field="memory_ids")
        if len(self.memory_ids) > limits.QUERY_DOCUMENTS_MAX:
            raise LimitExceededError(
                "memory_ids",
                limit=limits.QUERY_DOCUMENTS_MAX,
                actual=len(self.memory_ids),
                unit="memories",
            )
        if not self.question.strip():
            raise InvalidRequestError("must not be empty", field="question")
        check_text("question", self.question, bytes_max=limits.QUERY_BYTES_MAX)
        window_max = limits.QUERY_WINDOW_CHARACTERS_MAX
        check_range("window_chars", self.window_chars, minimum=1, maximum=window_max)
        least, most = limits.TOKEN_BUDGET_MIN, limits.TOKEN_BUDGET_MAX
        check_range("token_budget", self.token_budget, minimum=least, maximum=most)
        if self.project is not None:
            check_project(self.project)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRange:
    """A part of a text, in characters and in bytes of its UTF-8."""

    start: int
    end: int
    start_byte: int
    end_byte: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Match(TextRange):
    """A part of a text that a question is answered by."""

    score: float | None = None
    """How near it is to the question; None for what a filter found."""
    place: int = -1
    """Among all that are near to the question, from 0; before these comes what a filter found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span(TextRange):
    """Text around matches, which are given as ranges of the whole text."""

    memory_id: MemoryId
    text: str
    matches: tuple[Match, ...]
    headings: tuple[str, ...] = ()
    """The headings that its focus stands under, the outermost first, as far as they are known."""
    is_cut: bool = False
    """Whether the budget did not hold all of it."""

    @property
    def focus(self) -> Match:
        """Return the match that is shown whatever else has to give way."""
        return min(self.matches, key=lambda match: match.place)

    @property
    def score(self) -> float | None:
        """Return how near its nearest match is to the question, if that was asked."""
        return max((each.score for each in self.matches if each.score is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriedText:
    """A text that was asked."""

    memory_id: MemoryId
    text_bytes: int
    """0 while the text is made of the document, or if it has none."""
    indexed_bytes: int
    """How much of it can be found by its meaning; patterns are looked for in all of it."""
    document_id: DocumentId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedAnswer:
    """What a language model answered from spans."""

    text: str
    cited: tuple[int, ...]
    """The spans it names, as their places among those it was given, from 0."""
    dropped: tuple[str, ...] = ()
    """What it named beside them, which is nowhere; taken out of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriedDocuments:
    """The parts of texts that answer a question, in the order of the texts."""

    spans: tuple[Span, ...]
    texts: tuple[QueriedText, ...]
    is_truncated: bool
    """Whether more was found than the budget, or the time, allowed for."""
    degraded: tuple[str, ...]
    note: str | None = None
    answer: CitedAnswer | None = None
