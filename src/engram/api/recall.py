"""The operation `memory_recall`, with engram-go's answer formats: handles, results, or ids alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from engram import limits
from engram.api.memories import Degraded, InProject, memory_view
from engram.api.memory_views import summary_of
from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.api.recall_views import (
    BriefView,
    ConflictView,
    ConnectedView,
    HandleView,
    MemoriesRecalled,
    RecalledView,
    recalled_text,
)
from engram.errors import InvalidRequestError
from engram.model.access import Principal
from engram.model.fields import (
    AskedAt,
    Between,
    DayOrMoment,
    Length,
    Project,
    Query,
    Tags,
    TokenBudget,
)
from engram.model.ids import EpisodeId, MemoryId
from engram.model.memory import Importance, Memory, MemoryFilters, MemoryType
from engram.model.recall import (
    READING_TOKENS,
    ConnectedMemory,
    FetchDetail,
    Recalled,
    RecalledMemory,
    RecallMode,
    RecallRequest,
    RecallShape,
)
from engram.model.search import ProfileName, ScoreBreakdown
from engram.model.shape import fields_of
from engram.model.value import derived
from engram.text.excerpts import Excerpt, fit

if TYPE_CHECKING:
    from engram.service import Service

FETCH_HINT = 'Read a memory with memory_fetch(id, project, detail="full").'
FEEDBACK_HINT = "Say what helped with memory_feedback(memory_ids, event_id, helpful)."
NOTHING_RELEVANT = "nothing relevant"
EVERY_PROJECT = "*"

TopK = Annotated[int, Between(1, limits.RECALL_RESULTS_MAX)]


class RecallQuestion(InProject):
    """A query over memories, and the format of the answer."""

    query: Query
    top_k: TopK | None = None
    limit: Annotated[TopK | None, "The same as top_k; 10 without either."] = None
    mode: Annotated[RecallMode | None, "handle, or full where detail asks for text."] = None
    detail: FetchDetail | None = None
    projects: Annotated[
        tuple[Project, ...],
        Length(0, limits.PROJECTS_PER_CALL_MAX),
        'In place of project; ["*"] is all.',
    ] = ()
    memory_types: tuple[MemoryType, ...] = ()
    tags: Annotated[Tags, "All must match."] = ()
    min_importance: Annotated[Importance | None, "1 is critical and important ones."] = None
    since: Annotated[DayOrMoment | None, "Of valid_from; a date will do."] = None
    before: DayOrMoment | None = None
    include_conflicts: bool = False
    include_relations: Annotated[
        int | None,
        Between(0, limits.RELATION_HOPS_MAX),
        "Steps to related memories; 1 in mode full.",
    ] = None
    record_event: Annotated[bool, "Give an event_id for feedback."] = False
    episode_id: Annotated[EpisodeId | None, "Its memories rank higher."] = None
    profile: ProfileName = "default"
    token_budget: TokenBudget = READING_TOKENS
    asked_at: AskedAt = None

    def shape(self) -> RecallShape:
        """Return the format of the answer; a detail that handles lack implies mode `full`."""
        mode = self.mode or ("handle" if self.detail in (None, "summary") else "full")
        is_full = mode == "full"
        hops = self.include_relations
        return RecallShape(
            mode=mode,
            detail=self.detail or ("full" if is_full else "summary"),
            hops=int(is_full) if hops is None else hops,
            token_budget=self.token_budget,
            has_conflicts=self.include_conflicts,
            has_event=self.record_event,
        )

    def asked(self) -> RecallRequest:
        """Return the query itself."""
        return RecallRequest(
            query=self.query,
            top_k=self._top_k(),
            filters=MemoryFilters(
                projects=self._projects(),
                memory_types=tuple(dict.fromkeys(self.memory_types)),
                importance_max=self.min_importance,
            ),
            tags=self.tags,
            since=self.since,
            before=self.before,
            profile=self.profile,
            asked_at=self.asked_at,
            hops=max(self.shape().hops, int(self.include_conflicts)),
            episode_ids=() if self.episode_id is None else (self.episode_id,),
        )

    def _top_k(self) -> int:
        given = {number for number in (self.top_k, self.limit) if number is not None}
        if len(given) > 1:
            raise InvalidRequestError("must be the same as top_k", field="limit")
        return given.pop() if given else 10

    def _projects(self) -> tuple[str, ...] | None:
        """Return the projects to search; None means all."""
        if EVERY_PROJECT in self.projects:
            if len(self.projects) > 1:
                raise InvalidRequestError('cannot combine "*" with names', field="projects")
            return None
        return tuple(dict.fromkeys(self.projects)) or (self.project,)


class RecallMemories(RecallQuestion):
    """A recall as engram-go's clients send it, including switches of its ranking experiments."""

    rerank: Annotated[bool, "No effect, as all after it."] = False
    temporal_window_recall: bool = False
    question_text: str | None = None
    question_date: str | None = None
    atom_recall: bool = False
    atom_recall_as_of: str | None = None
    exact_fact_boost: bool = False
    topic_anchor_boost: bool = False
    session_diversity_n: int = 0
    paraphrase_union: bool = False
    rrf_fusion: bool = False
    evidence_first_pack: bool = False

    def warnings(self) -> tuple[str, ...]:
        """Return a warning for each switch that was set."""
        asked = (name for name in SWITCHES if getattr(self, name))
        return tuple(f"{name} has no effect here" for name in asked)


SWITCHES = sorted(fields_of(RecallMemories).keys() - fields_of(RecallQuestion).keys())
"""Accepted for compatibility with engram-go's clients, without effect."""


async def recall(
    service: Service, principal: Principal, request: RecallMemories
) -> MemoriesRecalled:
    recalled = await service.search.recall(principal, request.asked())
    return memories_recalled(recalled, request.shape(), warnings=request.warnings())


def memories_recalled(
    recalled: Recalled, shape: RecallShape, *, warnings: tuple[str, ...] = ()
) -> MemoriesRecalled:
    """Return an answer in the requested format."""
    reason = ", ".join(recalled.degraded) or None
    fields: dict[str, Any] = {"truncated": False, **_texts_of(recalled, shape)}
    if shape.has_conflicts:
        conflicts = _each_once(_conflicts(recalled))
        fields |= {"conflicting_results": conflicts, "conflict_count": len(conflicts)}
    if shape.has_event:
        fields |= {"event_id": recalled.event_id, "feedback_hint": FEEDBACK_HINT}
    return MemoriesRecalled(
        count=len(recalled.results),
        total_candidates=recalled.total_candidates,
        pending=recalled.pending,
        degraded=Degraded(embed=reason is not None, reason=reason),
        warnings=warnings,
        note=None if recalled.is_relevant else NOTHING_RELEVANT,
        found=recalled,
        shape=shape,
        **fields,
    )


def _texts_of(recalled: Recalled, shape: RecallShape) -> dict[str, Any]:
    match shape.mode:
        case "handle":
            return _handles(recalled, shape)
        case "full" | "summary":
            return _results(recalled, shape)
        case "id_only":
            return {"ids": tuple(each.memory.id for each in recalled.results)}


def _handles(recalled: Recalled, shape: RecallShape) -> dict[str, Any]:
    texts = [summary_of(each.memory) for each in recalled.results]
    summaries = fit(texts, token_budget=shape.token_budget)
    pairs = zip(recalled.results, summaries, strict=True)
    return {
        "handles": tuple(_handle(each, summary.text) for each, summary in pairs),
        "fetch_hint": FETCH_HINT,
        "truncated": any(summary.is_cut for summary in summaries),
    }


def _results(recalled: Recalled, shape: RecallShape) -> dict[str, Any]:
    """Return results with the requested detail, all texts together within the token budget."""
    texts = list(_texts(recalled.results, shape))
    shown = fit(texts, token_budget=shape.token_budget)
    parts = iter(shown)
    return {
        "results": tuple(_recalled(each, parts, shape) for each in recalled.results),
        "truncated": any(part.is_cut for part in shown),
    }


def _handle(each: RecalledMemory, summary: str) -> HandleView:
    memory = each.memory
    project = json.dumps(memory.project, ensure_ascii=False)
    return derived(
        HandleView,
        each,
        memory,
        summary=summary,
        bytes=len(memory.content.encode()),
        is_handle=True,
        fetch_hint=f"memory_fetch(id={json.dumps(memory.id)}, project={project})",
    )


def _texts(results: Sequence[RecalledMemory], shape: RecallShape) -> Iterator[str]:
    """Yield the texts of results in the order in which `_recalled` consumes their excerpts."""
    for each in results:
        yield _content(each.memory, shape.detail)
        if _shows_chunk(each, shape.detail):
            yield each.matched.text or ""
        for connected in _shown(each, shape.hops):
            yield summary_of(connected.memory)


def _recalled(each: RecalledMemory, texts: Iterator[Excerpt], shape: RecallShape) -> RecalledView:
    memory = memory_view(each.memory, next(texts))
    chunk = next(texts).text if _shows_chunk(each, shape.detail) else None
    shown = _shown(each, shape.hops)
    return RecalledView(
        memory=memory,
        score=each.score,
        score_breakdown={**_flat(each.breakdown), "episode_boost": each.episode_boost},
        chunk_count=each.chunk_count,
        matched_chunk_id=each.matched.id,
        matched_chunk_index=each.matched.index,
        matched_chunk=chunk,
        connected=tuple(_connected(item, next(texts).text) for item in shown),
        connected_omitted=len(_near(each, shape.hops)) - len(shown),
        superseded_by=each.superseded_by,
    )


def _content(memory: Memory, detail: FetchDetail) -> str:
    match detail:
        case "full":
            return memory.content
        case "summary":
            return summary_of(memory)
        case "chunk":
            return ""


def _shows_chunk(each: RecalledMemory, detail: FetchDetail) -> bool:
    """Return True if the matched chunk is shown beside, or instead of, the content."""
    return detail == "chunk" or (detail == "full" and each.chunk_count > 1)


def _near(each: RecalledMemory, hops: int) -> Sequence[ConnectedMemory]:
    return [connected for connected in each.connected if connected.hops <= hops]


def _shown(each: RecalledMemory, hops: int) -> Sequence[ConnectedMemory]:
    return _near(each, hops)[: limits.CONNECTED_MAX]


def _connected(connected: ConnectedMemory, summary: str) -> ConnectedView:
    return ConnectedView(
        memory=_brief(connected.memory, summary),
        rel_type=connected.relation_type,
        direction="incoming" if connected.is_source else "outgoing",
        strength=connected.strength,
        hops=connected.hops,
    )


def _conflicts(recalled: Recalled) -> Iterator[ConflictView]:
    """Yield memories that contradict results: other results first, then related memories."""
    known = {each.memory.id: each.memory for each in recalled.results}
    for relation in recalled.conflicts:
        yield _conflict(known[relation.source_id], relation.target_id, relation.strength)
    for each in recalled.results:
        for other in each.connected:
            if other.relation_type == "contradicts" and other.hops == 1:
                yield _conflict(other.memory, each.memory.id, other.strength)


def _each_once(conflicts: Iterable[ConflictView]) -> tuple[ConflictView, ...]:
    """Return the first conflict of each pair of memories."""
    first: dict[frozenset[str], ConflictView] = {}
    for conflict in conflicts:
        first.setdefault(frozenset((conflict.memory.id, conflict.contradicts_id)), conflict)
    return tuple(first.values())


def _conflict(memory: Memory, contradicts_id: MemoryId, strength: float) -> ConflictView:
    shown = _brief(memory, summary_of(memory))
    return ConflictView(memory=shown, contradicts_id=contradicts_id, strength=strength)


def _brief(memory: Memory, summary: str) -> BriefView:
    return derived(BriefView, memory, summary=summary)


def _flat(breakdown: ScoreBreakdown) -> dict[str, float]:
    """Return the parts of a score as one flat object, as engram-go's clients expect."""
    parts = {
        **breakdown.legs,
        **({"time_bonus": breakdown.time_bonus} if breakdown.time_bonus else {}),
        "fused": breakdown.fused,
        "importance_factor": breakdown.importance_factor,
        "usefulness_factor": breakdown.usefulness_factor,
        "order": breakdown.order,
    }
    return {name: round(value, 4) for name, value in parts.items()}


def places_recalled(answer: MemoriesRecalled) -> tuple[str, ...]:
    """Return the memories that an answer shows; none if it names only the nearest."""
    if answer.note is not None:
        return ()
    return tuple(each.memory.id for each in answer.found.results)


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="memory_recall",
        description="Find memories that answer a question. Handles cost little: fetch what you need.",
        request=RecallMemories,
        answer=MemoriesRecalled,
        run=recall,
        scopes=("search",),
        toolset="memories",
        tool=Tool(
            title="Recall memories", hints=("reads",), lean=recalled_text, places=places_recalled
        ),
        routes=(Route(method="POST", path="/api/v1/memories/recall"),),
        command=Command(
            words=("memories", "recall"),
            arguments=("query",),
            hidden=("project", "limit", "detail", "record_event", *SWITCHES),
            fixed={"mode": "full", "include_conflicts": True},
            help={
                "projects": "Where to look; * is every project, default is `default`.",
                "min_importance": "Only this important, or more.",
                "since": "Only what holds from then on.",
                "include_relations": "Steps to related memories shown beside them; 1 by default.",
            },
        ),
    ),
)
