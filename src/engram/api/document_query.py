"""The answer to a query of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from engram import limits
from engram.model.access import Principal
from engram.model.document_query import DocumentQuery, Match, QueriedText, Span
from engram.model.ids import MemoryId
from engram.model.value import Mark, Value

if TYPE_CHECKING:
    from engram.service import Service

MATCH_CHARACTERS = 200
"""How much of a match is quoted; the span contains the whole of it."""


class MatchView(Value):
    """A match of the filter within a span."""

    start: int
    end: int
    text: str


class SpanView(Value, omit_defaults=True):
    """Text around matches."""

    memory_id: MemoryId
    start: int
    """In characters of the whole text, as is `end`."""
    end: int
    start_byte: int
    end_byte: int
    text: str
    matched: tuple[MatchView, ...]
    """The first matches of the filter, each truncated if it is long."""
    match_count: int
    headings: tuple[str, ...] = ()
    score: Annotated[float | None, Mark.ROUNDED] = None
    cut: bool = False


class CitationView(Value):
    """A span that the answer cites."""

    span: int
    """Its number in the answer, from 1."""
    memory_id: MemoryId
    start: int
    end: int


class DocumentQueried(Value, omit_defaults=True):
    """The spans that answer a question."""

    spans: tuple[SpanView, ...]
    truncated: bool
    degraded: tuple[str, ...]
    documents: tuple[QueriedText, ...]
    note: str | None = None
    answer: str | None = None
    citations: tuple[CitationView, ...] | None = None


async def query_document(
    service: Service, principal: Principal, request: DocumentQuery
) -> DocumentQueried:
    queried = await service.search.query_document(principal, request)
    answer = queried.answer
    return DocumentQueried(
        spans=tuple(map(_span, queried.spans)),
        truncated=queried.is_truncated,
        degraded=queried.degraded,
        documents=queried.texts,
        note=queried.note,
        answer=None if answer is None else answer.text,
        citations=None
        if answer is None
        else tuple(_citation(place, queried.spans[place]) for place in answer.cited),
    )


def _span(span: Span) -> SpanView:
    found = [match for match in span.matches if match.score is None and match.start < span.end]
    return SpanView(
        memory_id=span.memory_id,
        start=span.start,
        end=span.end,
        start_byte=span.start_byte,
        end_byte=span.end_byte,
        text=span.text,
        matched=tuple(_match(each, span) for each in found[: limits.MATCHES_SHOWN_MAX]),
        match_count=len(found),
        headings=span.headings,
        score=span.score,
        cut=span.is_cut,
    )


def _match(match: Match, span: Span) -> MatchView:
    start, end = match.start - span.start, match.end - span.start
    text = span.text[start : min(end, start + MATCH_CHARACTERS)]
    return MatchView(start=match.start, end=match.end, text=text)


def _citation(place: int, span: Span) -> CitationView:
    return CitationView(span=place + 1, memory_id=span.memory_id, start=span.start, end=span.end)
