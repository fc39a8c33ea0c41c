"""The answer to a query of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from engram import limits
from engram.api.lean import EXCERPT_CHARACTERS_MIN, LeanText, short_title
from engram.model.access import Principal
from engram.model.document import DocumentQuery, Match, QueriedText, Span
from engram.model.ids import MemoryId
from engram.model.value import Mark, Value, derived
from engram.text.excerpts import fit, longest
from engram.text.quoting import quote_after
from engram.text.tokens import count_tokens

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


def queried_text(answer: DocumentQueried, token_budget: int) -> str:
    """Return the answer if there is one, and the spans, each after its place in the text."""
    text = LeanText(token_budget)
    if answer.answer is not None:
        text.add_shared([quote_after("answer:", answer.answer)])
    labels = [_label(answer, number) for number in range(1, len(answer.spans) + 1)]
    lines = [
        quote_after(label, span.text) for label, span in zip(labels, answer.spans, strict=True)
    ]
    parts = fit(lines, token_budget=text.left - len(lines))
    hidden = 0
    for label, span, line, part in zip(labels, answer.spans, lines, parts, strict=True):
        cut = _cut_around(label, span, count_tokens(part.text)) if part.is_cut else line
        hidden += not (cut and text.add(cut))
    return text.finish(_notes(answer, hidden, is_cut=any(part.is_cut for part in parts)))


def _label(answer: DocumentQueried, number: int) -> str:
    """Return where a span is: its memory, if there are several, its range and its heading."""
    span = answer.spans[number - 1]
    memory = "" if len(answer.documents) == 1 else f" {span.memory_id}"
    heading = f" {short_title(span.headings[-1])}" if span.headings else ""
    return f"[{number}]{memory} {span.start}-{span.end}{heading}:"


def _cut_around(label: str, span: SpanView, tokens_max: int) -> str | None:
    """Return a line with the part of a span around its first match, or else its middle.

    None if not even a match would fit.
    """
    place = span.matched[0].start - span.start if span.matched else len(span.text) // 2

    def around(characters: int) -> str:
        start = min(max(place - characters // 2, 0), len(span.text) - characters)
        return quote_after(label, span.text[start : start + characters])

    fitting = longest(
        len(span.text), cost=lambda most: count_tokens(around(most)), tokens_max=tokens_max
    )
    return around(fitting) if fitting >= min(EXCERPT_CHARACTERS_MIN, len(span.text)) else None


def _notes(answer: DocumentQueried, hidden: int, *, is_cut: bool) -> list[str]:
    notes = [answer.note] if answer.note else []
    if hidden:
        notes.append(f"{hidden} of {len(answer.spans)} spans did not fit: raise token_budget")
    elif answer.truncated or is_cut:
        notes.append("token_budget cut what was found: raise it, or ask for less")
    if answer.degraded:
        notes.append(f"degraded: {', '.join(answer.degraded)}")
    return notes


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
    matched = tuple(_match(each, span) for each in found[: limits.MATCHES_SHOWN_MAX])
    return derived(SpanView, span, matched=matched, match_count=len(found), cut=span.is_cut)


def _match(match: Match, span: Span) -> MatchView:
    start, end = match.start - span.start, match.end - span.start
    text = span.text[start : min(end, start + MATCH_CHARACTERS)]
    return MatchView(start=match.start, end=match.end, text=text)


def _citation(place: int, span: Span) -> CitationView:
    return CitationView(span=place + 1, memory_id=span.memory_id, start=span.start, end=span.end)
