"""What callers may ask of a search."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engram import limits
from engram.model.conversation import Role
from engram.model.ids import ConversationId
from engram.model.search import (
    KINDS,
    Detail,
    Kind,
    ProfileName,
    SearchFilters,
    SearchRequest,
)
from engram.transport.requests.fields import WHOLE, Moment, Name, Project, Query, Tags
from engram.transport.requests.request import Request


class Search(Request):
    query: Query
    limit: Annotated[int, Field(ge=1, le=limits.SEARCH_RESULTS_MAX), WHOLE] = 5
    conversation_id: str | None = None
    tags: Annotated[Tags, Field(description="All must match.")] = []
    agent_id: Name | None = None
    project: Project | None = None
    role: Role | None = None
    since: Moment | None = None
    before: Moment | None = None
    kinds: Annotated[list[Kind], Field(min_length=1)] = list(KINDS)
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    token_budget: Annotated[
        int, Field(ge=limits.TOKEN_BUDGET_MIN, le=limits.TOKEN_BUDGET_MAX), WHOLE
    ] = 2000
    detail: Annotated[
        Detail, Field(description="The best messages, whole windows, or handles without text.")
    ] = "messages"
    profile: Annotated[
        ProfileName, Field(description="How words, meaning and recency are weighed.")
    ] = "default"
    explain: bool = False

    def to_model(self) -> SearchRequest:
        return SearchRequest(
            query=self.query,
            limit=self.limit,
            filters=self._filters(),
            kinds=tuple(dict.fromkeys(self.kinds)),
            min_score=self.min_score,
            token_budget=self.token_budget,
            detail=self.detail,
            profile=self.profile,
            explain=self.explain,
        )

    def _filters(self) -> SearchFilters:
        conversation_id = self.conversation_id
        return SearchFilters(
            conversation_id=None if conversation_id is None else ConversationId(conversation_id),
            tags=tuple(self.tags),
            agent_id=self.agent_id,
            project=self.project,
            role=self.role,
            since=self.since,
            before=self.before,
        )
