"""The operation `search`, over everything that is stored."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from engram.api.encoding import answer_text
from engram.api.lean import LeanText, add_messages, date_of
from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.model.access import Principal
from engram.model.conversation import Conversation, Message
from engram.model.fields import Metadata
from engram.model.ids import ConversationId
from engram.model.memory import Category, Memory, MemoryType
from engram.model.search import (
    FoundMessage,
    Kind,
    ScoreBreakdown,
    SearchRequest,
    SearchResult,
)
from engram.model.value import Score, Value, replace
from engram.text.quoting import label, quote_after, speaker_label

if TYPE_CHECKING:
    from engram.service import Service


NEAR_MISSES = 3
"""Handles that are shown where nothing is relevant."""


class FoundMessageView(Message, omit_defaults=True):
    """A message of a result, with its score; one of a window has empty fields too, as a row has."""

    tool_call_id: str | UnsetType | None = UNSET  # pyright: ignore[reportIncompatibleVariableOverride] it can be left out
    tool_name: str | UnsetType | None = UNSET  # pyright: ignore[reportIncompatibleVariableOverride] as above
    metadata: Metadata | UnsetType | None = UNSET  # pyright: ignore[reportIncompatibleVariableOverride] as above
    conversation_id: ConversationId | UnsetType = UNSET
    score: Score
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
    score_breakdown: ScoreBreakdown | None = None


class SearchAnswered(Value, omit_defaults=True):
    """Results, best first, their token cost, and what was left out or degraded."""

    results: tuple[SearchResultView, ...]
    total_candidates: int
    tokens: int
    truncated: bool
    pending: int
    degraded: tuple[str, ...]
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
        **{**columns, **given}, score=found.score, score_breakdown=found.breakdown
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
    """Return what was found, best first: messages by conversation, memories, then handles.

    If nothing is relevant, the nearest misses come as handles, without their text.
    """
    text = LeanText(token_budget)
    if answer.note:
        for result in answer.results[:NEAR_MISSES]:
            text.add(_handle(result))
        return text.finish([answer.note, *_notes_of_search(answer)])
    shown = [result for result in answer.results if not _is_handle(result)]
    handles = [result for result in answer.results if _is_handle(result)]
    hidden = 0
    for result in shown:
        if result.messages:
            hidden += add_messages(text, _head_of(result), result.messages)
        else:
            hidden += not text.add(f"{_head_of(result)}:", result.chunk_text or "")
    hidden += sum(not text.add(_handle(result)) for result in handles)
    notes = _notes_of_search(answer)
    if hidden:
        notes.append(f"{hidden} more did not fit: raise token_budget or narrow the query")
    if handles:
        notes.append(
            "read what is not shown with get_conversation(around_sequence) or memory_fetch"
        )
    return text.finish(notes)


def _is_handle(result: SearchResultView) -> bool:
    return result.chunk_text is None and not result.messages


def _handle(result: SearchResultView) -> str:
    """Return one line that says where something was found."""
    if result.messages:
        return f"{_head_of(result)} #{result.messages[0].sequence}: not shown"
    return f"{_head_of(result)} {_range_of(result)}: not shown"


def _head_of(result: SearchResultView) -> str:
    if result.conversation_id is not None:
        title = result.conversation_title
        return f"{result.conversation_id} {label(title)}" if title else result.conversation_id
    date = result.valid_from or result.created_at
    dated = "" if date is None else f" {date_of(date)}"
    return f"{result.memory_id}{dated} {result.kind}, {result.category}"


def _range_of(result: SearchResultView) -> str:
    if result.start_sequence == result.end_sequence:
        return f"#{result.start_sequence}"
    return f"#{result.start_sequence}-{result.end_sequence}"


def _notes_of_search(answer: SearchAnswered) -> list[str]:
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
        " answer what may rest on the past. Read around a result with"
        " get_conversation(around_sequence).",
        request=SearchRequest,
        answer=SearchAnswered,
        run=search,
        scopes=("search",),
        toolset="conversations",
        tool=Tool(title="Search memory", hints=("reads",), show=_show, lean=search_text),
        routes=(
            Route(method="POST", path="/api/v1/search"),
            Route(
                method="GET",
                path="/api/v1/search",
                name="search_by_address",
                aliases={"query": "q"},
                description="Find what was said; the same as `search`, with its fields in the"
                " address.",
            ),
        ),
        command=Command(words=("search",), arguments=("query",)),
    ),
)
