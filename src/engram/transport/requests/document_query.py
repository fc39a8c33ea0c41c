"""What callers may ask of documents, in the names that engram-go's clients know."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.document_query import QUERY_TOKENS, QUERY_WINDOW, DocumentQuery, TextFilter
from engram.transport.requests.fields import WHOLE, Query, TokenBudget
from engram.transport.requests.memories import InProject
from engram.transport.requests.request import Request

Substring = Annotated[str, Field(min_length=1, max_length=limits.SUBSTRING_CHARACTERS_MAX)]


class DocumentFilter(Request):
    regex: Annotated[
        str | None,
        Field(min_length=1, max_length=limits.REGEX_CHARACTERS_MAX, description="RE2."),
    ] = None
    substrings: Annotated[
        list[Substring],
        Field(max_length=limits.SUBSTRINGS_MAX, description="Found as they are written."),
    ] = []

    def to_model(self) -> TextFilter:
        return TextFilter(regex=self.regex, substrings=tuple(self.substrings))


class DocumentQuestion(Request):
    """A question; to which document is said beside it."""

    question: Query
    filter: Annotated[
        DocumentFilter | None, Field(description="Spans around what matches any of it.")
    ] = None
    window_chars: Annotated[
        int,
        Field(
            ge=1,
            le=limits.QUERY_WINDOW_CHARACTERS_MAX,
            description="Around each match, half on each side.",
        ),
        WHOLE,
    ] = QUERY_WINDOW
    semantic: Annotated[bool, Field(description="Also spans near to the question.")] = True
    token_budget: TokenBudget = QUERY_TOKENS

    def to_query(self, identifiers: tuple[str, ...], *, project: str | None) -> DocumentQuery:
        return DocumentQuery(
            memory_ids=identifiers,
            question=self.question,
            filter=TextFilter() if self.filter is None else self.filter.to_model(),
            window_chars=self.window_chars,
            semantic=self.semantic,
            token_budget=self.token_budget,
            project=project,
        )


class QueryDocument(DocumentQuestion, InProject):
    memory_id: str | None = None
    memory_ids: Annotated[
        list[str],
        Field(max_length=limits.QUERY_DOCUMENTS_MAX, description="Several, in place of memory_id."),
    ] = []

    def to_model(self) -> DocumentQuery:
        given = [] if self.memory_id is None else [self.memory_id]
        if given and self.memory_ids:
            raise InvalidRequestError("goes without memory_id", field="memory_ids")
        if not given and not self.memory_ids:
            raise InvalidRequestError("is required, or memory_ids", field="memory_id")
        return self.to_query((*given, *self.memory_ids), project=self.project)
