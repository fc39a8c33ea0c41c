"""The answers of questions to documents."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from engram import limits
from engram.model.document_query import Match, QueriedDocuments, QueriedText, Span

MATCH_CHARACTERS = 200
"""Of a match that is told beside the span that holds it whole."""


class MatchView(TypedDict):
    start: int
    end: int
    text: str


class SpanView(TypedDict):
    memory_id: str
    start: int
    """In characters of the text, as `end`."""
    end: int
    start_byte: int
    end_byte: int
    text: str
    matched: list[MatchView]
    """The first matches of the filter, each from its beginning."""
    match_count: int
    headings: NotRequired[list[str]]
    score: NotRequired[float]
    cut: NotRequired[bool]


class AskedTextView(TypedDict):
    memory_id: str
    text_bytes: int
    indexed: float
    """The share of the text that is found by meaning; filters look through all of it."""
    document_id: NotRequired[str]


class CitationView(TypedDict):
    span: int
    """Its number in the answer, from 1."""
    memory_id: str
    start: int
    end: int


class DocumentQueried(TypedDict):
    spans: list[SpanView]
    truncated: bool
    degraded: list[str]
    documents: list[AskedTextView]
    note: NotRequired[str]
    answer: NotRequired[str]
    citations: NotRequired[list[CitationView]]


def document_queried(queried: QueriedDocuments) -> DocumentQueried:
    view: DocumentQueried = {
        "spans": [_span_view(span) for span in queried.spans],
        "truncated": queried.is_truncated,
        "degraded": list(queried.degraded),
        "documents": [_text_view(text) for text in queried.texts],
    }
    if queried.note is not None:
        view["note"] = queried.note
    if queried.answer is not None:
        view["answer"] = queried.answer.text
        view["citations"] = [
            _citation_view(place, queried.spans[place]) for place in queried.answer.cited
        ]
    return view


def _span_view(span: Span) -> SpanView:
    found = [match for match in span.matches if match.score is None and match.start < span.end]
    view: SpanView = {
        "memory_id": span.memory_id,
        "start": span.start,
        "end": span.end,
        "start_byte": span.start_byte,
        "end_byte": span.end_byte,
        "text": span.text,
        "matched": [_match_view(each, span) for each in found[: limits.MATCHES_SHOWN_MAX]],
        "match_count": len(found),
    }
    if span.headings:
        view["headings"] = list(span.headings)
    if span.score is not None:
        view["score"] = round(span.score, 4)
    if span.is_cut:
        view["cut"] = True
    return view


def _match_view(match: Match, span: Span) -> MatchView:
    start, end = match.start - span.start, match.end - span.start
    return {
        "start": match.start,
        "end": match.end,
        "text": span.text[start : min(end, start + MATCH_CHARACTERS)],
    }


def _text_view(text: QueriedText) -> AskedTextView:
    view: AskedTextView = {
        "memory_id": text.memory_id,
        "text_bytes": text.text_bytes,
        "indexed": round(text.indexed_bytes / text.text_bytes, 4) if text.text_bytes else 1.0,
    }
    if text.document_id is not None:
        view["document_id"] = text.document_id
    return view


def _citation_view(place: int, span: Span) -> CitationView:
    return {
        "span": place + 1,
        "memory_id": span.memory_id,
        "start": span.start,
        "end": span.end,
    }
