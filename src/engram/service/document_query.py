"""Asking documents: the parts of their text that answer a question, and an answer where one is written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import monotonic

from engram import limits
from engram.errors import LanguageModelError
from engram.language.citing import checked_answer, cited_prompt
from engram.language.port import LanguageModel
from engram.model.access import Principal
from engram.model.document_query import CitedAnswer, DocumentQuery, Match, QueriedDocuments, Span
from engram.offload import offload
from engram.search.spans import fit_spans, span_of, windows_around
from engram.service.asked_texts import AskedText, find_texts
from engram.service.searching import Searching
from engram.service.text_matches import Found, Near, find_near, find_patterns, patterns_of
from engram.text.excerpts import CHARACTERS_PER_TOKEN
from engram.text.patterns import Pattern

logger = logging.getLogger(__name__)

NO_ANSWER = "language_model"
CITATIONS_DROPPED = "citations_dropped"
NOT_CITED = "answer_without_citations"


NO_MATCH = "nothing matches the filter; without it the parts nearest to the question are given"
TIME_UP = "the time was up before all was looked through: a simpler pattern gets further"
NO_TEXT = "there is no text to look at"
NOT_INDEXED = "nothing of it can be found by meaning yet: name a filter, or ask again later"
NOT_NEAR = "nothing relevant: these are the nearest parts"
THE_BEGINNING = "this is how the text begins: name a filter, or ask with semantic"
FILTER_TIMEOUT = "filter_timeout"
INDEXING = "indexing"

SCANS_AT_ONCE = 2
"""Texts that are looked through at the same time; each takes a processor."""

_BEGINNING = Match(start=0, end=0, start_byte=0, end_byte=0)


class DocumentQueries:
    """The use case `memory_query_document`."""

    def __init__(self, searching: Searching, language: LanguageModel | None) -> None:
        self._searching = searching
        self._language = language
        self._scans = asyncio.Semaphore(SCANS_AT_ONCE)

    async def query(self, principal: Principal, query: DocumentQuery) -> QueriedDocuments:
        """Return the parts of texts that answer a question, within its token budget.

        With a filter these are the parts around its matches and, if room is left and `semantic` is
        asked for, others that are relevant to the question. Without a filter they are the parts
        nearest to the question, or how the text begins.

        Raises:
            InvalidRequestError: the filter cannot be looked for.
            NotFoundError: there is no such memory in the project.
        """
        patterns = patterns_of(query)
        async with self._searching.open(principal) as opened:
            texts = await find_texts(opened.store, query.memory_ids, project=query.project)
            async with self._scans:
                found = await _look_for(texts, query, patterns)
            near = None
            if query.semantic and (not patterns or found.count) and not found.is_full:
                near = await find_near(texts, query, opened)
            spans = await _read_spans(texts, query, found, near)
            room = query.token_budget * CHARACTERS_PER_TOKEN
            fitting, is_cut = fit_spans(spans, characters_max=room)
            fitting = await _with_headings(texts, fitting)
        queried = QueriedDocuments(
            spans=fitting,
            texts=tuple(text.described() for text in texts),
            is_truncated=is_cut or found.is_full or found.is_stopped,
            degraded=self._degraded(texts, found, near),
            note=_note(fitting, query, found, near),
        )
        return await self._answered(queried, query)

    def _degraded(
        self, texts: Sequence[AskedText], found: Found, near: Near | None
    ) -> tuple[str, ...]:
        missing = [] if near is None else [*near.degraded, *self._searching.missing(near.pending)]
        if found.is_stopped:
            missing.append(FILTER_TIMEOUT)
        is_indexing = any(text.document and text.document.state == "indexing" for text in texts)
        return (*missing, INDEXING) if is_indexing and near is not None else tuple(missing)

    async def _answered(self, queried: QueriedDocuments, query: DocumentQuery) -> QueriedDocuments:
        if self._language is None or not queried.spans:
            return queried
        answer, failures = await answer_from(self._language, query.question, queried.spans)
        return replace(queried, answer=answer, degraded=(*queried.degraded, *failures))


async def _look_for(
    texts: Sequence[AskedText], query: DocumentQuery, patterns: Sequence[Pattern]
) -> Found:
    """Return what a filter finds; without one, and without meaning, the beginning of each text."""
    if patterns:
        until = monotonic() + limits.REGEX_S
        return await find_patterns(texts, query, patterns, is_over=lambda: monotonic() > until)
    if query.semantic:
        return Found()
    return Found(matches={text.memory.id: [_BEGINNING] for text in texts})


async def _read_spans(
    texts: Sequence[AskedText], query: DocumentQuery, found: Found, near: Near | None
) -> list[Span]:
    """Return the text around all matches; what has no text there is left out."""
    spans: list[Span] = []
    # A beginning has text on one side only.
    is_beginning = query.filter.is_empty and not query.semantic
    window_chars = query.window_chars * (2 if is_beginning else 1)
    for text in texts:
        memory_id = text.memory.id
        matches = [
            *found.matches.get(memory_id, ()),
            *(() if near is None else near.matches.get(memory_id, ())),
        ]
        for window in windows_around(matches, window_chars=window_chars):
            data = await text.read(*window.wanted_bytes)
            spans.append(span_of(window, data, memory_id=memory_id))
    return [span for span in spans if span.text]


async def _with_headings(texts: Sequence[AskedText], spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return spans that say what they stand under; they are in the order of the texts."""
    told: list[Span] = []
    for text in texts:
        own = [span for span in spans if span.memory_id == text.memory.id]
        found = await text.headings_at([span.focus.start_byte for span in own])
        told += [replace(span, headings=each) for span, each in zip(own, found, strict=True)]
    return tuple(told)


def _note(
    spans: Sequence[Span], query: DocumentQuery, found: Found, near: Near | None
) -> str | None:
    """Return what a reader should know of the spans."""
    if found.is_stopped:
        return TIME_UP
    if not query.filter.is_empty:
        return None if found.count else NO_MATCH
    if near is None:
        return THE_BEGINNING if spans else NO_TEXT
    if not spans:
        return NOT_INDEXED
    return None if near.is_relevant else NOT_NEAR


async def answer_from(
    model: LanguageModel, question: str, spans: Sequence[Span]
) -> tuple[CitedAnswer | None, tuple[str, ...]]:
    """Return what a model answers from spans, and what is amiss with that."""
    characters = sum(len(span.text) for span in spans)
    prompt, told = await offload(partial(cited_prompt, question, spans), characters=characters)
    try:
        written = await model.complete(prompt)
    except LanguageModelError as exc:
        logger.warning("a question to a document is not answered: %s", exc.message)
        return None, (NO_ANSWER,)
    answer = await offload(partial(checked_answer, written, told=told), characters=len(written))
    if not answer.text:
        return None, (NO_ANSWER,)
    amiss = [
        *([CITATIONS_DROPPED] if answer.dropped else []),
        *([] if answer.cited else [NOT_CITED]),
    ]
    return answer, tuple(amiss)
