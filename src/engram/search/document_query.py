"""Query documents: find the spans of their text that match a filter or are nearest to a question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from engram import limits
from engram.model.document import DocumentQuery, Match, QueriedDocuments, Span
from engram.model.ids import MemoryId
from engram.model.memory import MemoryFilters
from engram.model.search import SearchFilters
from engram.model.value import Value, replace
from engram.search.candidates import CandidateQuery, SearchSession, find
from engram.search.choose import choose_either_way
from engram.search.document_texts import SourceText, find_texts
from engram.search.score import Scored
from engram.search.spans import Windows, fit_spans, span_of, windows_around
from engram.text.analyse import query_terms
from engram.text.chunks import chunks_of, matched_chunk
from engram.text.excerpts import CHARACTERS_PER_TOKEN
from engram.text.patterns import Pattern, Scanner, regex, substring
from engram.yielding import offload

NO_MATCH = "nothing matches the filter; without it the parts nearest to the question are given"
TIME_UP = "the time was up before all was looked through: a simpler pattern gets further"
NO_TEXT = "there is no text to look at"
NOT_INDEXED = "nothing of it can be found by meaning yet: name a filter, or ask again later"
NOT_NEAR = "nothing relevant: these are the nearest parts"
THE_BEGINNING = "this is how the text begins: name a filter, or ask with semantic"
FILTER_TIMEOUT = "filter_timeout"
INDEXING = "indexing"

NEAR_MAX = 50
"""The most chunks near to a question that are read; a budget that holds more calls for a filter."""

_BEGINNING = Match(start=0, end=0, start_byte=0, end_byte=0)


@dataclass(slots=True, kw_only=True)
class FilterMatches:
    """The matches of a filter in each text, and whether some are missing."""

    matches: dict[MemoryId, list[Match]] = field(default_factory=dict[MemoryId, list[Match]])
    is_full: bool = False
    """More matches would not fit into the answer."""
    is_stopped: bool = False
    """The scan was stopped by its timeout."""

    @property
    def count(self) -> int:
        """Return the number of matches."""
        return sum(map(len, self.matches.values()))


class NearestChunks(Value):
    """The chunks of the texts that are nearest to a question."""

    matches: Mapping[MemoryId, Sequence[Match]]
    is_relevant: bool
    degraded: tuple[str, ...]


async def query_documents(
    query: DocumentQuery,
    patterns: Sequence[Pattern],
    session: SearchSession,
    *,
    scans: AbstractAsyncContextManager[Any],
) -> QueriedDocuments:
    """Return the spans of texts that answer a question, within its token budget.

    With a filter these are the spans around its matches and, if room is left and `semantic` is set,
    others that are relevant to the question. Without one they are the spans nearest to the question, or
    the beginning of each text.

    Args:
        query: the question, with the texts to read.
        patterns: what the filter of the query looks for, from `patterns_of`.
        session: where to search.
        scans: held while texts are scanned for patterns.

    Raises:
        NotFoundError: there is no such memory in the project.
    """
    texts = await find_texts(session.store, query.asked, project=query.project)
    async with scans:
        filtered = await _match_filter(texts, query, patterns)
    nearest = None
    if query.semantic and (not patterns or filtered.count) and not filtered.is_full:
        nearest = await _find_nearest(texts, query, session)
    spans = await _read_spans(texts, query, filtered, nearest)
    fit = partial(fit_spans, spans, token_budget=query.token_budget)
    fitting, is_cut = await offload(fit, characters=sum(len(span.text) for span in spans))
    fitting = await _add_headings(texts, fitting)
    return QueriedDocuments(
        spans=fitting,
        texts=tuple(text.described() for text in texts),
        is_truncated=is_cut or filtered.is_full or filtered.is_stopped,
        degraded=_degradations(texts, filtered, nearest),
        note=_note(fitting, query, filtered, nearest),
    )


def patterns_of(query: DocumentQuery) -> list[Pattern]:
    """Return the patterns of a query's filter.

    Raises:
        InvalidRequestError: a pattern is malformed; names the field.
    """
    wanted = query.wanted
    patterns: list[Pattern] = [
        substring(text, field=f"filter.substrings[{place}]")
        for place, text in enumerate(dict.fromkeys(wanted.substrings))
    ]
    if wanted.regex is not None:
        patterns.append(regex(wanted.regex, field="filter.regex"))
    return patterns


async def _find_patterns(
    texts: Iterable[SourceText],
    query: DocumentQuery,
    patterns: Sequence[Pattern],
    *,
    is_over: Callable[[], bool],
) -> FilterMatches:
    """Return the matches of patterns in the texts, as many as the answer can hold."""
    found = FilterMatches()
    # Twice what the budget is likely to hold: a text with long words has more characters per token.
    room = 2 * query.token_budget * CHARACTERS_PER_TOKEN
    for text in texts:
        windows = Windows(window_chars=query.window_chars)
        scanner = Scanner(patterns, is_over=is_over)
        matches_max = limits.QUERY_MATCHES_MAX - found.count
        take = partial(_take, windows=windows, characters_max=room, matches_max=matches_max)
        found.is_full = await _scan(text, scanner, take)
        found.is_stopped = scanner.is_stopped
        found.matches[text.memory.id] = [each for window in windows.all for each in window.matches]
        room -= windows.characters
        if found.is_full or found.is_stopped:
            break
    return found


async def _scan(
    text: SourceText, scanner: Scanner, take: Callable[[Iterable[Match]], bool]
) -> bool:
    """Scan a text until `take` is full; return True if it was."""
    async with aclosing(text.stream()) as pieces:
        async for piece in pieces:
            if await asyncio.to_thread(_feed, scanner, piece, take):
                return True
            if scanner.is_stopped:
                return False
    return await asyncio.to_thread(lambda: take(scanner.finish()))


def _feed(scanner: Scanner, piece: bytes, take: Callable[[Iterable[Match]], bool]) -> bool:
    return take(scanner.feed(piece))


def _take(
    matches: Iterable[Match], *, windows: Windows, characters_max: int, matches_max: int
) -> bool:
    """Add matches to the windows; return True if there are more than the answer can hold."""
    for match in matches:
        windows.add(match)
        if windows.characters > characters_max or windows.count >= matches_max:
            return True
    return False


async def _match_filter(
    texts: Sequence[SourceText], query: DocumentQuery, patterns: Sequence[Pattern]
) -> FilterMatches:
    """Return the matches of a filter; without one, nothing or the beginning of each text."""
    if patterns:
        until = monotonic() + limits.REGEX_S
        return await _find_patterns(texts, query, patterns, is_over=lambda: monotonic() > until)
    if query.semantic:
        return FilterMatches()
    return FilterMatches(matches={text.memory.id: [_BEGINNING] for text in texts})


async def _find_nearest(
    texts: Sequence[SourceText], query: DocumentQuery, session: SearchSession
) -> NearestChunks:
    """Return the chunks nearest to the question, over all of the texts.

    Beside the matches of a filter they must be relevant.
    """
    by_id = {text.memory.id: text for text in texts}
    wanted = query.token_budget * CHARACTERS_PER_TOKEN // query.window_chars + 1
    best, loaded, degraded = await find(
        CandidateQuery(
            text=query.question,
            filters=SearchFilters(memory=MemoryFilters(ids=tuple(by_id))),
            kinds=("note", "document"),
        ),
        session,
        choose=partial(
            choose_either_way,
            limit=min(wanted, NEAR_MAX),
            score_min=0.0 if query.wanted.is_empty else None,
        ),
    )
    matches: dict[MemoryId, list[Match]] = {}
    for place, item in enumerate(best.ranked):
        text = by_id[loaded.memories[item.conversation].id]
        match = await _near_match(item, text, query, session)
        if match is not None:
            matches.setdefault(text.memory.id, []).append(replace(match, place=place))
    return NearestChunks(matches=matches, is_relevant=best.is_relevant, degraded=degraded)


async def _near_match(
    item: Scored, text: SourceText, query: DocumentQuery, session: SearchSession
) -> Match | None:
    """Return the place of a chunk in its text; None if it has been deleted meanwhile."""
    if text.document is None:
        characters = len(text.memory.content) + len(query.question)
        work = partial(_in_content, text, query.question, item.score)
        return await offload(work, characters=characters)
    messages = await session.store.load_range(
        item.conversation, start=item.sequence, end=item.sequence
    )
    for message in messages:
        return _of_chunk(message.metadata or {}, item.score)
    return None


def _in_content(text: SourceText, question: str, score: float) -> Match:
    """Return the chunk of a memory that has most of the question's words."""
    content = text.memory.content
    chunk = matched_chunk(chunks_of(text.memory), frozenset(query_terms(question)))
    start_byte = len(content[: chunk.start].encode())
    end_byte = start_byte + len(content[chunk.start : chunk.end].encode())
    return Match(
        start=chunk.start, end=chunk.end, start_byte=start_byte, end_byte=end_byte, score=score
    )


def _of_chunk(metadata: Mapping[str, Any], score: float) -> Match:
    """Return the place of a document's chunk, which was stored when it was indexed."""
    places = ("start", "end", "start_byte", "end_byte")
    return Match(score=score, **{name: metadata[name] for name in places})


async def _read_spans(
    texts: Sequence[SourceText],
    query: DocumentQuery,
    filtered: FilterMatches,
    nearest: NearestChunks | None,
) -> list[Span]:
    """Return the spans around all matches, without empty ones."""
    spans: list[Span] = []
    # The beginning of a text has nothing before it.
    is_beginning = query.wanted.is_empty and not query.semantic
    window_chars = query.window_chars * (2 if is_beginning else 1)
    for text in texts:
        memory_id = text.memory.id
        matches = [
            *filtered.matches.get(memory_id, ()),
            *(() if nearest is None else nearest.matches.get(memory_id, ())),
        ]
        for window in windows_around(matches, window_chars=window_chars):
            data = await text.read(*window.wanted_bytes)
            spans.append(span_of(window, data, memory_id=memory_id))
    return [span for span in spans if span.text]


async def _add_headings(texts: Sequence[SourceText], spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans with the headings above them; spans are in the order of the texts."""
    headed: list[Span] = []
    for text in texts:
        own = [span for span in spans if span.memory_id == text.memory.id]
        found = await text.headings_at([span.focus.start_byte for span in own])
        headed += [replace(span, headings=each) for span, each in zip(own, found, strict=True)]
    return tuple(headed)


def _note(
    spans: Sequence[Span],
    query: DocumentQuery,
    filtered: FilterMatches,
    nearest: NearestChunks | None,
) -> str | None:
    """Return a remark that helps to judge the spans, if one is due."""
    if filtered.is_stopped:
        return TIME_UP
    if not query.wanted.is_empty:
        return None if filtered.count else NO_MATCH
    if nearest is None:
        return THE_BEGINNING if spans else NO_TEXT
    if not spans:
        return NOT_INDEXED
    return None if nearest.is_relevant else NOT_NEAR


def _degradations(
    texts: Sequence[SourceText], filtered: FilterMatches, nearest: NearestChunks | None
) -> tuple[str, ...]:
    reasons = [] if nearest is None else [*nearest.degraded]
    if filtered.is_stopped:
        reasons.append(FILTER_TIMEOUT)
    is_indexing = any(text.document and text.document.state == "indexing" for text in texts)
    return (*reasons, INDEXING) if is_indexing and nearest is not None else tuple(reasons)
