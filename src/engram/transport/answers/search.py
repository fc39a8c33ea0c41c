"""The answers of searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired

from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.conversation import Conversation
from engram.model.memory import Category, Memory, MemoryType
from engram.model.search import FoundMessage, Kind, ScoreBreakdown, SearchAnswer, SearchResult
from engram.text.quoting import quote_after, speaker_label
from engram.transport.answers.conversations import MessageView, message_view


class FoundMessageView(MessageView):
    score: float
    score_breakdown: NotRequired[Mapping[str, Any]]


class OwnerView(TypedDict, total=False):
    """Whose text a result is: a conversation's, or a memory's with what is known of it."""

    conversation_id: str
    conversation_title: str | None
    memory_id: str
    document_id: str
    category: Category
    source: str
    memory_type: MemoryType
    importance: int
    project: str
    created_at: str
    updated_at: str
    valid_from: str
    valid_to: str
    expires_at: str


class SearchResultView(OwnerView):
    kind: Kind
    score: float
    chunk_id: str
    tags: list[str]
    start_sequence: int
    end_sequence: int
    chunk_text: str | None
    messages: list[FoundMessageView]
    score_breakdown: NotRequired[Mapping[str, Any]]


class SearchAnswered(TypedDict):
    results: list[SearchResultView]
    total_candidates: int
    tokens: int
    truncated: bool
    pending: int
    degraded: list[str]
    note: NotRequired[str]


def search_answered(answer: SearchAnswer) -> SearchAnswered:
    view: SearchAnswered = {
        "results": [_result_view(result) for result in answer.results],
        "total_candidates": answer.total_candidates,
        "tokens": answer.tokens,
        "truncated": answer.truncated,
        "pending": answer.pending,
        "degraded": list(answer.degraded),
    }
    if answer.note is not None:
        view["note"] = answer.note
    return view


def quoted_text(result: SearchResultView) -> str | None:
    """Return the text of a result for reading; in a window no message can pass for another."""
    if result["chunk_text"] is None or not result["messages"]:
        return result["chunk_text"]
    return "\n".join(map(_quoted_message, result["messages"]))


def _quoted_message(message: MessageView) -> str:
    speaker = speaker_label(role=message["role"], name=message.get("name"))
    return quote_after(f"[{speaker}]:", message["content"])


def _result_view(result: SearchResult) -> SearchResultView:
    view: SearchResultView = {
        "kind": result.kind,
        "score": round(result.score, 4),
        "chunk_id": result.chunk_id,
        **_owner_view(result.owner),
        "tags": list(result.owner.tags),
        "start_sequence": result.start_sequence,
        "end_sequence": result.end_sequence,
        "chunk_text": result.chunk_text,
        "messages": [_found_view(found) for found in result.messages],
    }
    best = result.messages[0].breakdown if result.messages else result.breakdown
    if best is not None:
        view["score_breakdown"] = _breakdown_view(best)
    return view


def _owner_view(owner: Conversation | Memory) -> OwnerView:
    if isinstance(owner, Conversation):
        return {"conversation_id": owner.id, "conversation_title": owner.title}
    view: OwnerView = {
        "memory_id": owner.id,
        "category": owner.category,
        "source": owner.source,
        "memory_type": owner.memory_type,
        "importance": owner.importance,
        "project": owner.project,
        "created_at": format_time(owner.created_at),
        "updated_at": format_time(owner.updated_at),
    }
    if owner.document_id is not None:
        view["document_id"] = owner.document_id
    if owner.valid_from is not None:
        view["valid_from"] = format_time(owner.valid_from)
    if owner.valid_to is not None:
        view["valid_to"] = format_time(owner.valid_to)
    if owner.expires_at is not None:
        view["expires_at"] = format_time(owner.expires_at)
    return view


def _found_view(found: FoundMessage) -> FoundMessageView:
    view: FoundMessageView = {**message_view(found.message), "score": round(found.score, 4)}
    if found.breakdown is not None:
        view["score_breakdown"] = _breakdown_view(found.breakdown)
    return view


def _breakdown_view(breakdown: ScoreBreakdown) -> Mapping[str, Any]:
    view: dict[str, Any] = {
        "raw": dict(breakdown.raw),
        "legs": dict(breakdown.legs),
        "weights": dict(breakdown.weights),
        "fused": breakdown.fused,
        "conversation_best": breakdown.conversation_best,
        "length_charge": breakdown.length_charge,
        "importance_factor": breakdown.importance_factor,
        "usefulness_factor": breakdown.usefulness_factor,
        "order": breakdown.order,
    }
    if breakdown.vector_tier is not None:
        view["vector_tier"] = breakdown.vector_tier
    return view
