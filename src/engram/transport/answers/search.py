"""The answers of searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired

from typing_extensions import TypedDict

from engram.model.search import FoundMessage, Kind, ScoreBreakdown, SearchAnswer, SearchResult
from engram.transport.answers.conversations import MessageView, message_view


class FoundMessageView(MessageView):
    score: float
    score_breakdown: NotRequired[Mapping[str, Any]]


class SearchResultView(TypedDict):
    kind: Kind
    score: float
    chunk_id: str
    conversation_id: str
    conversation_title: str | None
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


def _result_view(result: SearchResult) -> SearchResultView:
    view: SearchResultView = {
        "kind": result.kind,
        "score": round(result.score, 4),
        "chunk_id": result.chunk_id,
        "conversation_id": result.conversation.id,
        "conversation_title": result.conversation.title,
        "tags": list(result.conversation.tags),
        "start_sequence": result.start_sequence,
        "end_sequence": result.end_sequence,
        "chunk_text": result.chunk_text,
        "messages": [_found_view(found) for found in result.messages],
    }
    if result.messages and (best := result.messages[0].breakdown):
        view["score_breakdown"] = _breakdown_view(best)
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
        "order": breakdown.order,
    }
    if breakdown.vector_tier is not None:
        view["vector_tier"] = breakdown.vector_tier
    return view
