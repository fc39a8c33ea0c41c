"""What callers may ask of a recall, in the names that engram-go's clients know."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.memory import MemoryFilters, MemoryType, check_project
from engram.model.memory_reading import READING_TOKENS, FetchDetail
from engram.model.recall import RecallMode, RecallRequest, RecallShape
from engram.model.search import ProfileName
from engram.transport.requests.fields import (
    WHOLE,
    DayOrMoment,
    Project,
    Query,
    Tags,
    TokenBudget,
)
from engram.transport.requests.memories import Importance, InProject

TopK = Annotated[int, Field(ge=1, le=limits.RECALL_RESULTS_MAX), WHOLE]

EVERY_PROJECT = "*"


class RecallQuestion(InProject):
    query: Query
    top_k: TopK | None = None
    limit: Annotated[TopK | None, Field(description="The same as top_k; 10 without either.")] = None
    mode: Annotated[
        RecallMode | None, Field(description="handle, or full where detail asks for text.")
    ] = None
    detail: FetchDetail | None = None
    projects: Annotated[
        list[Project],
        Field(
            max_length=limits.PROJECTS_PER_CALL_MAX,
            description='In place of project; ["*"] is all.',
        ),
    ] = []
    memory_types: list[MemoryType] = []
    tags: Annotated[Tags, Field(description="All must match.")] = []
    min_importance: Annotated[
        Importance | None, Field(description="1 is critical and important ones.")
    ] = None
    since: Annotated[DayOrMoment | None, Field(description="Of valid_from; a date will do.")] = None
    before: DayOrMoment | None = None
    include_conflicts: bool = False
    include_relations: Annotated[
        int | None,
        Field(
            ge=0,
            le=limits.RELATION_HOPS_MAX,
            description="Steps to related memories; 1 in mode full.",
        ),
        WHOLE,
    ] = None
    record_event: Annotated[bool, Field(description="Give an event_id for feedback.")] = False
    profile: ProfileName = "default"
    token_budget: TokenBudget = READING_TOKENS

    def to_shape(self) -> RecallShape:
        """Return how the answer looks; a detail that no handle has asks for full results."""
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

    def to_model(self) -> RecallRequest:
        return RecallRequest(
            query=self.query,
            top_k=self._top_k(),
            filters=self._filters(),
            tags=tuple(self.tags),
            since=self.since,
            before=self.before,
            profile=self.profile,
            hops=max(self.to_shape().hops, int(self.include_conflicts)),
        )

    def _top_k(self) -> int:
        given = {number for number in (self.top_k, self.limit) if number is not None}
        if len(given) > 1:
            raise InvalidRequestError("must be the same as top_k", field="limit")
        return given.pop() if given else 10

    def _filters(self) -> MemoryFilters:
        return MemoryFilters(
            projects=self._projects(),
            memory_types=tuple(dict.fromkeys(self.memory_types)),
            importance_max=self.min_importance,
        )

    def _projects(self) -> tuple[str, ...] | None:
        """Return where to look; None is everywhere."""
        check_project(self.project)
        if EVERY_PROJECT in self.projects:
            if len(self.projects) > 1:
                raise InvalidRequestError('must be ["*"] alone, or names', field="projects")
            return None
        return tuple(dict.fromkeys(self.projects)) or (self.project,)


class RecallMemories(RecallQuestion):
    """A recall as engram-go's clients call it, with the switches of experiments with its ranking."""

    rerank: Annotated[bool, Field(description="No effect, as all after it.")] = False
    temporal_window_recall: bool = False
    question_text: str | None = None
    question_date: str | None = None
    atom_recall: bool = False
    atom_recall_as_of: str | None = None
    exact_fact_boost: bool = False
    topic_anchor_boost: bool = False
    session_diversity_n: Annotated[int, WHOLE] = 0
    paraphrase_union: bool = False
    rrf_fusion: bool = False
    evidence_first_pack: bool = False

    def to_warnings(self) -> list[str]:
        """Say which switches were asked for in vain."""
        switches = RecallMemories.model_fields.keys() - RecallQuestion.model_fields.keys()
        return [f"{name} has no effect here" for name in sorted(switches) if getattr(self, name)]
