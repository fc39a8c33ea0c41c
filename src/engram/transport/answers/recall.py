"""The answers of recalls: handles, results, or ids alone, in the shapes engram-go's clients know."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from engram import limits
from engram.model.memory import Memory, MemoryType, StorageMode
from engram.model.memory_reading import FetchDetail
from engram.model.recall import ConnectedMemory, Recalled, RecalledMemory, RecallShape
from engram.model.search import ScoreBreakdown
from engram.text.excerpts import Excerpt, brief, fit
from engram.transport.answers.memory_views import DegradedView, MemoryView, memory_view

FETCH_HINT = 'Read a memory with memory_fetch(id, project, detail="full").'
FEEDBACK_HINT = "Say what helped with memory_feedback(memory_ids, event_id, helpful)."


class HandleView(TypedDict):
    id: str
    project: str
    summary: str
    tags: list[str]
    score: float
    storage_mode: StorageMode
    chunk_count: int
    bytes: int
    is_handle: Literal[True]
    fetch_hint: str
    superseded_by: NotRequired[list[str]]


class BriefView(TypedDict):
    id: str
    project: str
    memory_type: MemoryType
    summary: str


class ConnectedView(TypedDict):
    memory: BriefView
    rel_type: str
    direction: Literal["outgoing", "incoming"]
    strength: float
    hops: int


class RecalledView(TypedDict):
    memory: MemoryView
    score: float
    score_breakdown: Mapping[str, float]
    chunk_count: int
    matched_chunk_id: str
    matched_chunk_index: int
    connected: list[ConnectedView]
    matched_chunk: NotRequired[str]
    connected_omitted: NotRequired[int]
    superseded_by: NotRequired[list[str]]


class ConflictView(TypedDict):
    memory: BriefView
    contradicts_id: str
    strength: float


class MemoriesRecalled(TypedDict):
    count: int
    total_candidates: int
    pending: int
    truncated: bool
    degraded: DegradedView
    handles: NotRequired[list[HandleView]]
    results: NotRequired[list[RecalledView]]
    ids: NotRequired[list[str]]
    fetch_hint: NotRequired[str]
    event_id: NotRequired[str]
    feedback_hint: NotRequired[str]
    conflicting_results: NotRequired[list[ConflictView]]
    conflict_count: NotRequired[int]
    warnings: NotRequired[list[str]]


def memories_recalled(
    recalled: Recalled, shape: RecallShape, *, warnings: Sequence[str] = ()
) -> MemoriesRecalled:
    """Return an answer in the shape asked for."""
    match shape.mode:
        case "handle":
            answer = _handles(recalled, shape)
        case "full" | "summary":
            answer = _results(recalled, shape)
        case "id_only":
            answer = _facts(recalled)
            answer["ids"] = [each.memory.id for each in recalled.results]
    if shape.has_conflicts:
        conflicts = _each_once(_conflicts(recalled))
        answer["conflicting_results"] = conflicts
        answer["conflict_count"] = len(conflicts)
    if shape.has_event:
        answer["event_id"] = recalled.event_id
        answer["feedback_hint"] = FEEDBACK_HINT
    if warnings:
        answer["warnings"] = list(warnings)
    return answer


def _handles(recalled: Recalled, shape: RecallShape) -> MemoriesRecalled:
    texts = [_summary(each.memory) for each in recalled.results]
    summaries = fit(texts, token_budget=shape.token_budget)
    pairs = zip(recalled.results, summaries, strict=True)
    return {
        **_facts(recalled),
        "handles": [_handle_view(each, summary.text) for each, summary in pairs],
        "fetch_hint": FETCH_HINT,
        "truncated": any(summary.is_cut for summary in summaries),
    }


def _results(recalled: Recalled, shape: RecallShape) -> MemoriesRecalled:
    """Return results with as much text as was asked for and fits the budget, all texts together."""
    texts = list(_texts(recalled.results, shape))
    shown = fit(texts, token_budget=shape.token_budget)
    parts = iter(shown)
    return {
        **_facts(recalled),
        "results": [_recalled_view(each, parts, shape) for each in recalled.results],
        "truncated": any(part.is_cut for part in shown),
    }


def _facts(recalled: Recalled) -> MemoriesRecalled:
    reason = ", ".join(recalled.degraded) or None
    return {
        "count": len(recalled.results),
        "total_candidates": recalled.total_candidates,
        "pending": recalled.pending,
        "truncated": False,
        "degraded": {"embed": reason is not None, "reason": reason},
    }


def _handle_view(each: RecalledMemory, summary: str) -> HandleView:
    memory = each.memory
    view: HandleView = {
        "id": memory.id,
        "project": memory.project,
        "summary": summary,
        "tags": list(memory.tags),
        "score": round(each.score, 4),
        "storage_mode": memory.storage_mode,
        "chunk_count": each.chunk_count,
        "bytes": len(memory.content.encode()),
        "is_handle": True,
        "fetch_hint": f"memory_fetch(id={json.dumps(memory.id)}"
        f", project={json.dumps(memory.project, ensure_ascii=False)})",
    }
    if each.superseded_by:
        view["superseded_by"] = list(each.superseded_by)
    return view


def _texts(results: Sequence[RecalledMemory], shape: RecallShape) -> Iterator[str]:
    """Yield the texts of results in the order in which `_recalled_view` takes them."""
    for each in results:
        yield _content(each.memory, shape.detail)
        if _shows_chunk(each, shape.detail):
            yield each.matched.text or ""
        for connected in _shown(each, shape.hops):
            yield _summary(connected.memory)


def _recalled_view(
    each: RecalledMemory, texts: Iterator[Excerpt], shape: RecallShape
) -> RecalledView:
    view: RecalledView = {
        "memory": memory_view(each.memory, next(texts)),
        "score": round(each.score, 4),
        "score_breakdown": _flat(each.breakdown),
        "chunk_count": each.chunk_count,
        "matched_chunk_id": each.matched.id,
        "matched_chunk_index": each.matched.index,
        "connected": [],
    }
    if _shows_chunk(each, shape.detail):
        view["matched_chunk"] = next(texts).text
    shown = _shown(each, shape.hops)
    view["connected"] = [_connected_view(item, next(texts).text) for item in shown]
    if omitted := len(_near(each, shape.hops)) - len(shown):
        view["connected_omitted"] = omitted
    if each.superseded_by:
        view["superseded_by"] = list(each.superseded_by)
    return view


def _content(memory: Memory, detail: FetchDetail) -> str:
    match detail:
        case "full":
            return memory.content
        case "summary":
            return _summary(memory)
        case "chunk":
            return ""


def _shows_chunk(each: RecalledMemory, detail: FetchDetail) -> bool:
    """Return True if the matched chunk says something that the content does not."""
    return detail == "chunk" or (detail == "full" and each.chunk_count > 1)


def _near(each: RecalledMemory, hops: int) -> Sequence[ConnectedMemory]:
    return [connected for connected in each.connected if connected.hops <= hops]


def _shown(each: RecalledMemory, hops: int) -> Sequence[ConnectedMemory]:
    return _near(each, hops)[: limits.CONNECTED_MAX]


def _connected_view(connected: ConnectedMemory, summary: str) -> ConnectedView:
    return {
        "memory": _brief_view(connected.memory, summary),
        "rel_type": connected.relation_type,
        "direction": "incoming" if connected.is_source else "outgoing",
        "strength": connected.strength,
        "hops": connected.hops,
    }


def _conflicts(recalled: Recalled) -> Iterator[ConflictView]:
    """Yield what contradicts results: other results, then what is related to them."""
    known = {each.memory.id: each.memory for each in recalled.results}
    for relation in recalled.conflicts:
        yield _conflict_view(known[relation.source_id], relation.target_id, relation.strength)
    for each in recalled.results:
        for other in each.connected:
            if other.relation_type == "contradicts" and other.hops == 1:
                yield _conflict_view(other.memory, each.memory.id, other.strength)


def _each_once(conflicts: Iterable[ConflictView]) -> list[ConflictView]:
    """Return the first conflict of each pair of memories."""
    first: dict[frozenset[str], ConflictView] = {}
    for conflict in conflicts:
        pair = frozenset((conflict["memory"]["id"], conflict["contradicts_id"]))
        first.setdefault(pair, conflict)
    return list(first.values())


def _conflict_view(memory: Memory, contradicts_id: str, strength: float) -> ConflictView:
    return {
        "memory": _brief_view(memory, _summary(memory)),
        "contradicts_id": contradicts_id,
        "strength": strength,
    }


def _brief_view(memory: Memory, summary: str) -> BriefView:
    return {
        "id": memory.id,
        "project": memory.project,
        "memory_type": memory.memory_type,
        "summary": summary,
    }


def _summary(memory: Memory) -> str:
    return memory.summary or brief(memory.content)


def _flat(breakdown: ScoreBreakdown) -> dict[str, float]:
    """Return the parts of a score under one roof, as engram-go's clients read them."""
    parts = {
        **breakdown.legs,
        "fused": breakdown.fused,
        "importance_factor": breakdown.importance_factor,
        "usefulness_factor": breakdown.usefulness_factor,
        "order": breakdown.order,
    }
    return {name: round(value, 4) for name, value in parts.items()}
