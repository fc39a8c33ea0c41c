"""Documents: how much of each is searched, asking one for its passages, and storing another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engram.api.document_query import DocumentQueried, SpanView
from engram.api.documents import DocumentsListed, DocumentView
from engram.model.fields import parse_whole_number
from engram.model.value import Value
from engram.page.chips import Chip, chips_of
from engram.page.comparing import Piece
from engram.page.view import Act, Done, Menu, Undo, View
from engram.page.visit import Download, Visit

PAGE = 50
FILTERS = ("project", "tags")
LISTS = frozenset({"tags"})
ANY_PROJECT = {"project": None}

TIERS = (
    "whole: its memory has all of its text",
    "long: its memory has a synopsis, and all of its text is searched",
    "very long: its memory has a synopsis, and all of its text is searched",
)


class DocumentsPage(Value):
    """One page of documents."""

    found: DocumentsListed
    offset: int
    chips: tuple[Chip, ...]
    bytes_max: int
    """A larger document is refused."""


class Passage(Value):
    """A passage of a document, in pieces: marked are those that were asked for."""

    span: SpanView
    pieces: tuple[Piece, ...]


class DocumentPage(Value):
    """A document, and the passages that answer a question."""

    document: DocumentView
    tier: str
    question: str | None
    contains: str | None
    answer: DocumentQueried | None
    passages: tuple[Passage, ...]


async def load(visit: Visit) -> DocumentsPage:
    """Return a page of documents, newest first."""
    offset = parse_whole_number("offset", visit.given("offset") or "0")
    found = await visit.call(
        "list_documents",
        limit=PAGE,
        offset=offset,
        project=visit.given("project"),
        tags=visit.all_given("tags") or None,
    )
    return DocumentsPage(
        found=found,
        offset=offset,
        chips=chips_of(visit, FILTERS, lists=LISTS, labels={"tags": "tag"}),
        bytes_max=visit.service.documents.bounds.raw_bytes_max,
    )


async def load_one(visit: Visit) -> DocumentPage:
    """Return a document, and what it says to the question of the address."""
    document_id = visit.parameters["document_id"]
    document: DocumentView = await visit.call("document_status", document_id=document_id)
    question, contains = visit.given("q"), visit.given("contains")
    answer = await _ask(visit, document_id, question, contains) if question or contains else None
    return DocumentPage(
        document=document,
        tier=TIERS[document.tier],
        question=question,
        contains=contains,
        answer=answer,
        passages=() if answer is None else tuple(map(_passage, answer.spans)),
    )


async def _ask(
    visit: Visit, document_id: str, question: str | None, contains: str | None
) -> DocumentQueried:
    filters: dict[str, Any] | None = None if contains is None else {"substrings": [contains]}
    return await visit.call(
        "memory_query_document",
        ANY_PROJECT,
        memory_id=document_id,
        question=question or contains,
        filter=filters,
        semantic=question is not None,
    )


def _passage(span: SpanView) -> Passage:
    return Passage(span=span, pieces=tuple(_pieces(span)))


def _pieces(span: SpanView) -> Iterator[Piece]:
    """Yield the text of a span, with the matches of the filter marked."""
    at = 0
    for match in span.matched:
        start = max(at, match.start - span.start)
        end = max(start, min(match.end - span.start, len(span.text)))
        if start > at:
            yield Piece(text=span.text[at:start])
        if end > start:
            yield Piece(text=span.text[start:end], is_marked=True)
        at = end
    if at < len(span.text):
        yield Piece(text=span.text[at:])


async def download(visit: Visit) -> Download:
    """Return the body of a document, byte for byte."""
    return await visit.read_document(visit.parameters["document_id"])


async def upload(visit: Visit) -> Done:
    """Store the file of a form as a document."""
    given = {name: value for name, value in visit.form if value.strip() and name == "project"}
    name = visit.file and visit.file.name
    stored = await visit.store_document(name=name, **given)
    if stored.duplicate_of is not None:
        notice, undo = "The project has this document already.", None
    else:
        notice = "The document is stored."
        undo = Undo(action="/trash", fields={"id": stored.id})
    return Done(to=f"/documents/{stored.document_id}", notice=notice, undo=undo)


VIEWS = (
    View(
        path="/documents",
        template="documents.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Documents"),
    ),
    View(
        path="/documents/{document_id}", template="document.html", load=load_one, scopes=("read",)
    ),
    View(path="/documents/{document_id}/body", load=download, scopes=("read",)),
)
ACTS = (Act(path="/documents", run=upload, scopes=("write",), reads_file=True),)
