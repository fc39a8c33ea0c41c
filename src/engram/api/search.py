"""The operation `search`, over everything that is stored."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from engram.api.encoding import answer_text
from engram.api.lean import LeanText, date_of, said_at
from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.model.access import Principal
from engram.model.conversation import Conversation, Message
from engram.model.fields import Metadata
from engram.model.ids import ConversationId, conversation_reference
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
from engram.model.value import Score, Value, derived, replace
from engram.text.quoting import label, quote_after, speaker_label

if TYPE_CHECKING:
    from engram.service import Service


HANDLES_SHOWN = 3
"""Handles in a lean answer; REST has them all."""


_TIMESTAMP = re.compile(r"[\d:TZ.+ -]{10,40}")
"""A title that says no more than the date beside it."""

_YEAR_CHARACTERS = len("2024")


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
    repeated: int = 0
    cut_by: CutBy | None = None
    note: str | None = None


async def search(service: Service, principal: Principal, request: SearchRequest) -> SearchAnswered:
    answer = await service.search.search(principal, request)
    return derived(SearchAnswered, answer, results=tuple(map(_result, answer.results)))


def _result(result: SearchResult) -> SearchResultView:
    owner = result.owner
    shown = {
        "tags": owner.tags,
        "messages": tuple(_found(each, **_columns(result)) for each in result.messages),
        "score_breakdown": result.messages[0].breakdown if result.messages else result.breakdown,
    }
    if isinstance(owner, Memory):
        return derived(SearchResultView, result, owner, memory_id=owner.id, **shown)
    title = {"conversation_id": owner.id, "conversation_title": owner.title}
    return derived(SearchResultView, result, **title, **shown)


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

    A line begins with the letter of its source; the sources are listed after the last line, because
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
    if answer.repeated:
        notes.append(f"{answer.repeated} repeated")
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
    """The conversations and memories of an answer, lettered in the order in which they come.

    A date that follows one of the same year, among the lines or among the sources, is month and day alone.
    """

    def __init__(self, results: Iterable[SearchResultView]) -> None:
        self._letters: dict[str, str] = {}
        self._year_listed = self._year_said = ""
        self._days = defaultdict[str, set[str]](set)
        for result in results:
            for message in result.messages:
                self._days[source_id(result)].add(date_of(said_at(message)))

    def letter_of(self, result: SearchResultView) -> tuple[str, str | None]:
        """Return the letter of a result's source, and the line that introduces it if it is new."""
        known = self._letters.get(source_id(result))
        if known is not None:
            return known, None
        letter = letter_at(len(self._letters))
        date = _after_year(self._date_of(result), self._year_listed)
        return letter, f"{letter}: {_described(result, date)}"

    def date_in_line(self, line: _Line) -> str:
        """Return the date for the line of a message, if its source has others too."""
        date = self._date_said(line)
        return f" {_after_year(date, self._year_said)}" if date else ""

    def keep(self, result: SearchResultView, letter: str) -> None:
        """Record that a source has been introduced."""
        if source_id(result) not in self._letters:
            self._letters[source_id(result)] = letter
            self._year_listed = _year_of(self._date_of(result)) or self._year_listed

    def keep_line(self, line: _Line, letter: str) -> None:
        """Record that a line has been added, and its source introduced."""
        self.keep(line.result, letter)
        self._year_said = _year_of(self._date_said(line)) or self._year_said

    def _date_said(self, line: _Line) -> str:
        days = self._days[source_id(line.result)]
        if line.message is None or line.result.conversation_id is None or len(days) == 1:
            return ""
        return date_of(said_at(line.message))

    def _date_of(self, result: SearchResultView) -> str:
        """Return the date of a source; none if its lines have several."""
        if result.conversation_id is None:
            dated = result.valid_from or result.created_at
            return "" if dated is None else date_of(dated)
        days = self._days[source_id(result)]
        return min(days) if len(days) == 1 else ""


def _year_of(date: str) -> str:
    return date[:_YEAR_CHARACTERS]


def _after_year(date: str, year: str) -> str:
    """Return a date without its year if that is known."""
    return date[_YEAR_CHARACTERS + 1 :] if year and _year_of(date) == year else date


def letter_at(place: int) -> str:
    """Return a, b … z, aa, ab …: shorter to read before a sequence than a number and a mark."""
    before, last = divmod(place, len(ascii_lowercase))
    return (letter_at(before - 1) if before else "") + ascii_lowercase[last]


def source_id(result: SearchResultView) -> str:
    """Return the id of the conversation or memory that a result belongs to."""
    return result.conversation_id or result.memory_id or ""


def _described(result: SearchResultView, date: str) -> str:
    """Return the id of a source with its title and date, or with the fields of a memory."""
    if result.conversation_id is None:
        fields = (f"{result.memory_id} {result.kind}", result.category, date)
        return ", ".join(filter(None, fields))
    title = result.conversation_title or ""
    if result.messages and _TIMESTAMP.fullmatch(title):
        title = ""
    described = ", ".join(filter(None, (label(title), date)))
    reference = conversation_reference(ConversationId(result.conversation_id))
    return f"{reference} {described}".rstrip()


def _add_line(text: LeanText, sources: _Sources, line: _Line) -> bool:
    letter, footer = sources.letter_of(line.result)
    content = marked_text(line.content, line.range)
    is_added = text.add(_label_of(letter, line, sources), content, footer=footer)
    if is_added:
        sources.keep_line(line, letter)
    return is_added


def _label_of(letter: str, line: _Line, sources: _Sources) -> str:
    message, place = line.message, letter
    if message is not None:
        place += f"{message.sequence}{sources.date_in_line(line)}"
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
    letter, footer = sources.letter_of(handle)
    if footer is not None and not text.add_footer(footer):
        return None
    sources.keep(handle, letter)
    is_single = handle.conversation_id is None and handle.document_id is None
    return letter if is_single else f"{letter}{handle.found_sequence}"


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


def places_found(answer: SearchAnswered) -> tuple[str, ...]:
    """Return the messages and memories whose text is in an answer."""
    found = [each for each in answer.results if not is_handle(each)]
    return tuple(dict.fromkeys(place for each in found for place in _places_of(each)))


def _places_of(result: SearchResultView) -> list[str]:
    if result.conversation_id is None:
        return [result.memory_id] if result.memory_id else []
    sequences = [message.sequence for message in result.messages] or [result.start_sequence]
    return [f"{result.conversation_id}#{sequence}" for sequence in sequences]


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="search",
        description="Find what was said in any earlier conversation, verbatim. Use it before you"
        " answer what may rest on the past. `a12` is message 12 of source a, listed at the end: read"
        " on with get_conversation(around_sequence=12).",
        request=SearchRequest,
        answer=SearchAnswered,
        run=search,
        scopes=("search",),
        toolset="conversations",
        tool=Tool(
            title="Search memory",
            hints=("reads",),
            show=_show,
            lean=search_text,
            places=places_found,
        ),
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
