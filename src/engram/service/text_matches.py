"""Find the parts of texts that a question asks for: by patterns, and by meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from engram import limits
from engram.model.document_query import DocumentQuery, Match
from engram.model.ids import MemoryId
from engram.model.memory import MemoryFilters
from engram.model.search import SearchFilters
from engram.offload import offload
from engram.search.spans import Windows
from engram.service.asked_texts import AskedText
from engram.service.searching import Opened
from engram.text.analyse import query_terms
from engram.text.chunks import chunks_of, matched_chunk
from engram.text.excerpts import CHARACTERS_PER_TOKEN
from engram.text.patterns import Pattern, Scanner, regex, substring

if TYPE_CHECKING:
    from engram.search.score import Scored

NEAR_MAX = 50
"""Parts near to a question that are read; a budget that holds more asks for a filter."""


@dataclass(slots=True, kw_only=True)
class Found:
    """The matches in each text, and what they lack."""

    matches: dict[MemoryId, list[Match]] = field(default_factory=dict[MemoryId, list[Match]])
    is_full: bool = False
    """More would not fit into the answer."""
    is_stopped: bool = False
    """The time was up."""

    @property
    def count(self) -> int:
        """Return how many matches there are."""
        return sum(map(len, self.matches.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """The parts of texts that are nearest to a question."""

    matches: Mapping[MemoryId, Sequence[Match]]
    is_relevant: bool
    pending: int
    degraded: tuple[str, ...]


def patterns_of(query: DocumentQuery) -> list[Pattern]:
    """Return what a query's filter looks for.

    Raises:
        InvalidRequestError: it cannot be looked for; names the field.
    """
    asked = query.filter
    patterns: list[Pattern] = [
        substring(text, field=f"filter.substrings[{place}]")
        for place, text in enumerate(dict.fromkeys(asked.substrings))
    ]
    if asked.regex is not None:
        patterns.append(regex(asked.regex, field="filter.regex"))
    return patterns


async def find_patterns(
    texts: Iterable[AskedText],
    query: DocumentQuery,
    patterns: Sequence[Pattern],
    *,
    is_over: Callable[[], bool],
) -> Found:
    """Return where patterns are in the texts, as many matches as the answer can hold."""
    found = Found()
    room = query.token_budget * CHARACTERS_PER_TOKEN
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


async def _scan(text: AskedText, scanner: Scanner, take: Callable[[Iterable[Match]], bool]) -> bool:
    """Read a text until enough is found in it; return True if that was before its end."""
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
    """Keep matches; say when there are more than the answer can hold."""
    for match in matches:
        windows.add(match)
        if windows.characters > characters_max or windows.count >= matches_max:
            return True
    return False


async def find_near(texts: Sequence[AskedText], query: DocumentQuery, opened: Opened) -> Near:
    """Return the parts that are nearest to the question, over all of the texts.

    Beside what a filter found they must be relevant.
    """
    from engram.search.choose import choose_either_way  # noqa: PLC0415 brings NumPy
    from engram.search.find import Sought, find  # noqa: PLC0415 brings NumPy

    by_id = {text.memory.id: text for text in texts}
    sought = Sought(
        query=query.question,
        filters=SearchFilters(memory=MemoryFilters(ids=tuple(by_id))),
        kinds=("note", "document"),
    )
    wanted = query.token_budget * CHARACTERS_PER_TOKEN // query.window_chars + 1
    choose = partial(
        choose_either_way,
        limit=min(wanted, NEAR_MAX),
        score_min=0.0 if query.filter.is_empty else None,
        now=opened.now,
    )
    best, loaded, degraded = await find(
        sought, opened.store, embed=opened.embed, now=opened.now, choose=choose
    )
    matches: dict[MemoryId, list[Match]] = {}
    for place, item in enumerate(best.ranked):
        text = by_id[loaded.memories[item.conversation].id]
        match = await _near_match(item, text, query, opened)
        if match is not None:
            matches.setdefault(text.memory.id, []).append(replace(match, place=place))
    return Near(
        matches=matches,
        is_relevant=best.is_relevant,
        pending=loaded.pending,
        degraded=degraded,
    )


async def _near_match(
    item: Scored, text: AskedText, query: DocumentQuery, opened: Opened
) -> Match | None:
    """Return the part of a text that was found; None if it is gone by now."""
    if text.document is None:
        characters = len(text.memory.content) + len(query.question)
        work = partial(_in_content, text, query.question, item.score)
        return await offload(work, characters=characters)
    messages = await opened.store.load_range(
        item.conversation, start=item.sequence, end=item.sequence
    )
    for message in messages:
        return _of_chunk(message.metadata or {}, item.score)
    return None


def _in_content(text: AskedText, question: str, score: float) -> Match:
    """Return the chunk of a memory that has most of the question's words."""
    content = text.memory.content
    chunk = matched_chunk(chunks_of(text.memory), frozenset(query_terms(question)))
    start_byte = len(content[: chunk.start].encode())
    end_byte = start_byte + len(content[chunk.start : chunk.end].encode())
    return Match(
        start=chunk.start, end=chunk.end, start_byte=start_byte, end_byte=end_byte, score=score
    )


def _of_chunk(metadata: Mapping[str, Any], score: float) -> Match:
    """Return where a chunk of a document is, as was noted when it was made."""
    return Match(
        start=metadata["start"],
        end=metadata["end"],
        start_byte=metadata["start_byte"],
        end_byte=metadata["end_byte"],
        score=score,
    )
