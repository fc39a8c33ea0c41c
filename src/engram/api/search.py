"""The operation `search`, over everything that is stored."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from engram import limits
from engram.api.encoding import answer_text
from engram.api.lean import LeanText, date_of, said_at
from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.model.access import Principal
from engram.model.conversation import Conversation, Message
from engram.model.fields import Metadata
from engram.model.ids import ConversationId
from engram.model.memory import Category, Memory, MemoryType
from engram.model.search import (
    CutBy,
    FoundMessage,
    Kind,
    ScoreBreakdown,
    SearchRequest,
    SearchResult,
    TextRange,
)
from engram.model.value import Score, Value, replace
from engram.text.quoting import label, quote_after, speaker_label

if TYPE_CHECKING:
    from engram.service import Service


HANDLES_SHOWN = 3
"""Handles in a lean answer; REST has them all."""


_TIMESTAMP = re.compile(r"[\d:TZ.+ -]{10,40}")
"""A title that says no more than the date beside it."""


class FoundMessageView(Message, omit_defaults=True):
    """A message of a result, with its score; of a long one the part that matches.

    One of a window has empty fields too, as a row has.
    """

    tool_call_id: str | UnsetType | None = UNSET  # pyright: ignore[reportIncompatibleVariableOverride] it can be left out
    tool_name: str | UnsetType | None = UNSET  # pyright: ignore[reportIncompatibleVariableOverride] as above
    metadata: Metadata | UnsetType | None = UNSET  # pyright: ignore[reportIncompatibleVariableOverride] as above
    conversation_id: ConversationId | UnsetType = UNSET
    score: Score
    range: TextRange | None = None
    score_breakdown: ScoreBreakdown | None = None


class SearchResultView(Value, omit_defaults=True):
    """The best messages of one conversation, or a memory with its fields."""

    kind: Kind
    score: Score
    chunk_id: str
    tags: tuple[str, ...]
    start_sequence: int
    end_sequence: int
    chunk_text: str | None
    messages: tuple[FoundMessageView, ...]
    conversation_id: str | None = None
    conversation_title: str | UnsetType | None = UNSET
    memory_id: str | None = None
    document_id: str | None = None
    category: Category | None = None
    source: str | None = None
    memory_type: MemoryType | None = None
    importance: int | None = None
    project: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    found_sequence: int | None = None
    range: TextRange | None = None
    score_breakdown: ScoreBreakdown | None = None


class SearchAnswered(Value, omit_defaults=True):
    """Results, best first, their token cost, and what was left out or degraded."""

    results: tuple[SearchResultView, ...]
    total_candidates: int
    tokens: int
    truncated: bool
    pending: int
    degraded: tuple[str, ...]
    weaker: int = 0
    cut_by: CutBy | None = None
    note: str | None = None


async def search(service: Service, principal: Principal, request: SearchRequest) -> SearchAnswered:
    answer = await service.search.search(principal, request)
    return SearchAnswered(
        results=tuple(map(_result, answer.results)),
        total_candidates=answer.total_candidates,
        tokens=answer.tokens,
        truncated=answer.truncated,
        pending=answer.pending,
        degraded=answer.degraded,
        weaker=answer.weaker,
        cut_by=answer.cut_by,
        note=answer.note,
    )


def _result(result: SearchResult) -> SearchResultView:
    return SearchResultView(
        kind=result.kind,
        score=result.score,
        chunk_id=result.chunk_id,
        tags=result.owner.tags,
        start_sequence=result.start_sequence,
        end_sequence=result.end_sequence,
        chunk_text=result.chunk_text,
        messages=tuple(_found(each, **_columns(result)) for each in result.messages),
        found_sequence=result.found_sequence,
        range=result.range,
        score_breakdown=result.messages[0].breakdown if result.messages else result.breakdown,
        **_owner(result.owner),
    )


def _owner(owner: Conversation | Memory) -> dict[str, Any]:
    """Return the fields of the conversation or memory that a result belongs to."""
    if isinstance(owner, Conversation):
        return {"conversation_id": owner.id, "conversation_title": owner.title}
    names = OWNED_FIELDS
    return {"memory_id": owner.id, **{name: getattr(owner, name) for name in names}}


OWNED_FIELDS = (
    "document_id",
    "category",
    "source",
    "memory_type",
    "importance",
    "project",
    "created_at",
    "updated_at",
    "valid_from",
    "valid_to",
    "expires_at",
)
"""The fields of a memory that a result repeats."""


def _columns(result: SearchResult) -> dict[str, Any]:
    """Return what each message of a window has, where it has nothing of its own."""
    if result.chunk_text is None or not isinstance(result.owner, Conversation):
        return {}
    empty = dict.fromkeys(("tool_call_id", "tool_name", "metadata"))
    return {**empty, "conversation_id": result.owner.id}


def _found(found: FoundMessage, **columns: Any) -> FoundMessageView:
    given = {name: value for name, value in asdict(found.message).items() if value is not None}
    return FoundMessageView(
        **{**columns, **given},
        score=found.score,
        range=found.range,
        score_breakdown=found.breakdown,
    )


def quoted_text(result: SearchResultView) -> str | None:
    """Return the text of a result, quoted so that no message in a window can fake another."""
    if result.chunk_text is None or not result.messages:
        return result.chunk_text
    return "\n".join(map(_quoted, result.messages))


def _quoted(message: Message) -> str:
    speaker = speaker_label(role=message.role, name=message.name)
    return quote_after(f"[{speaker}]:", message.content)


def _show(answer: SearchAnswered) -> str:
    quoted = [replace(result, chunk_text=quoted_text(result)) for result in answer.results]
    return answer_text(replace(answer, results=tuple(quoted)))


def search_text(answer: SearchAnswered, token_budget: int) -> str:
    """Return what was found, best first, a line for each message or memory.

    A line begins with the number of its source; the sources are listed after the last line, because
    a reader who stops early has then read answers and not ids. If nothing is relevant, only places
    of what came nearest are listed.
    """
    text = LeanText(token_budget)
    sources = _Sources(answer.results)
    shown = [result for result in answer.results if not is_handle(result)]
    handles = [result for result in answer.results if is_handle(result)][:HANDLES_SHOWN]
    hidden = sum(not _add_line(text, sources, line) for result in shown for line in _lines(result))
    places = [place for each in handles if (place := _add_place(text, sources, each)) is not None]
    notes = [answer.note] if answer.note else []
    if places:
        notes.append(f"{'nearest' if answer.note else 'also found'}: {', '.join(places)}")
    if hidden or answer.cut_by:
        notes.append(f"more was found: raise {'token_budget' if hidden else answer.cut_by}")
    if answer.weaker and not answer.note:
        notes.append(f"{answer.weaker} weaker: min_score=0 shows them")
    return text.finish([*notes, *_state_notes(answer)])


class _Line(NamedTuple):
    """A line of an answer: a message, or the text of a memory."""

    result: SearchResultView
    content: str
    range: TextRange | None
    message: Message | None = None


def _lines(result: SearchResultView) -> list[_Line]:
    if not result.messages:
        return [_Line(result, result.chunk_text or "", result.range)]
    return [_Line(result, each.content, each.range, each) for each in result.messages]


class _Sources:
    """The conversations and memories of an answer, numbered in the order in which they come."""

    def __init__(self, results: Iterable[SearchResultView]) -> None:
        self._numbers: dict[str, int] = {}
        self._days = defaultdict[str, set[str]](set)
        for result in results:
            for message in result.messages:
                self._days[source_id(result)].add(date_of(said_at(message)))

    def number_of(self, result: SearchResultView) -> tuple[int, str | None]:
        """Return the number of a result's source, and the line that introduces it if it is new."""
        source = source_id(result)
        known = self._numbers.get(source)
        if known is not None:
            return known, None
        number = len(self._numbers) + 1
        return number, f"{number}: {_described(result, self._day_of(source))}"

    def keep(self, result: SearchResultView, number: int) -> None:
        """Record that a source has been introduced."""
        self._numbers[source_id(result)] = number

    def date_in_line(self, result: SearchResultView, message: Message) -> str:
        """Return the date for the line of a message, unless its source has the same for all."""
        if result.conversation_id is None or self._day_of(source_id(result)):
            return ""
        return f" {date_of(said_at(message))}"

    def _day_of(self, source: str) -> str | None:
        days = self._days[source]
        return min(days) if len(days) == 1 else None


def source_id(result: SearchResultView) -> str:
    """Return the id of the conversation or memory that a result belongs to."""
    return result.conversation_id or result.memory_id or ""


def _described(result: SearchResultView, day: str | None) -> str:
    """Return the id of a source with its title and date, or with the fields of a memory."""
    if result.conversation_id is None:
        dated = result.valid_from or result.created_at
        date = "" if dated is None else f", {date_of(dated)}"
        return f"{result.memory_id} {result.kind}, {result.category}{date}"
    title = result.conversation_title or ""
    if day and _TIMESTAMP.fullmatch(title):
        title = ""
    described = ", ".join(filter(None, (label(title), day)))
    reference = result.conversation_id[: limits.CONVERSATION_REFERENCE_CHARACTERS]
    return f"{reference} {described}".rstrip()


def _add_line(text: LeanText, sources: _Sources, line: _Line) -> bool:
    number, footer = sources.number_of(line.result)
    content = marked_text(line.content, line.range)
    is_added = text.add(_label_of(number, line, sources), content, footer=footer)
    if is_added:
        sources.keep(line.result, number)
    return is_added


def _label_of(number: int, line: _Line, sources: _Sources) -> str:
    message, place = line.message, f"{number}"
    if message is not None:
        place += f"#{message.sequence}{sources.date_in_line(line.result, message)}"
        if line.result.conversation_id is not None:
            place += f" {label(message.name or message.tool_name or message.role)}"
    if line.range is not None:
        place += f" ({range_text(line.range)})"
    return f"{place}:"


def range_text(shown: TextRange) -> str:
    """Return which part of a text is shown."""
    return f"characters {shown.start}-{shown.end} of {shown.of}"


def marked_text(content: str, shown: TextRange | None) -> str:
    """Return a text with marks where its beginning and its end were left out."""
    if shown is None:
        return content
    before = "… " if shown.start else ""
    after = " …" if shown.end < shown.of else ""
    return f"{before}{content}{after}"


def _add_place(text: LeanText, sources: _Sources, handle: SearchResultView) -> str | None:
    """Return where something was found whose text is not shown; None if there is no room."""
    number, footer = sources.number_of(handle)
    if footer is not None and not text.add_footer(footer):
        return None
    sources.keep(handle, number)
    is_single = handle.conversation_id is None and handle.document_id is None
    return f"{number}" if is_single else f"{number}#{handle.found_sequence}"


def is_handle(result: SearchResultView) -> bool:
    """Return True if the text of a result is left out."""
    return result.chunk_text is None and not result.messages


def _state_notes(answer: SearchAnswered) -> list[str]:
    notes = list[str]()
    if answer.pending:
        notes.append(f"pending: {answer.pending}")
    if answer.degraded:
        notes.append(f"degraded: {', '.join(answer.degraded)}")
    return notes


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="search",
        description="Find what was said in any earlier conversation, verbatim. Use it before you"
        " answer what may rest on the past. `1#12` is message 12 of source 1, listed at the end: read"
        " on with get_conversation(around_sequence=12).",
        request=SearchRequest,
        answer=SearchAnswered,
        run=search,
        scopes=("search",),
        toolset="conversations",
        tool=Tool(title="Search memory", hints=("reads",), show=_show, lean=search_text),
        routes=(
            Route(
                method="POST",
                path="/api/v1/search",
                description="Find what was said in any earlier conversation, verbatim.",
            ),
            Route(
                method="GET",
                path="/api/v1/search",
                name="search_by_address",
                aliases={"query": "q"},
                description="Find what was said; the same as `search`, with its fields in the"
                " address.",
            ),
        ),
        command=Command(
            words=("search",),
            arguments=("query",),
            help={
                "limit": "Maximum number of messages and notes.",
                "min_score": "Minimum score; 0 shows everything. [default: what is relevant]",
                "detail": "The best messages, whole windows, or handles without text.",
                "profile": "Weighting of words, meaning and recency.",
            },
        ),
    ),
)
