"""Operations that look through all projects, for people: their sizes, memories by any field, and ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from engram import limits
from engram.api.account import EmptyRequest
from engram.api.memories import TOOLSET, memories_listed
from engram.api.memory_views import MemoriesListed
from engram.api.operation import KeyOperation, Operation, Route
from engram.model.access import Principal
from engram.model.changes import MemorySelection
from engram.model.fields import Between, Offset, TokenBudget
from engram.model.ids import MemoryId
from engram.model.memory import FeedbackCounts, MemoryQuery, ProjectCounts
from engram.model.recall import READING_TOKENS
from engram.model.request import Request
from engram.model.value import Value

if TYPE_CHECKING:
    from engram.service import Service

GROUP = "memories"


class BrowseMemories(MemorySelection):
    """Filters and page of a list of memories of all projects, newest first."""

    limit: Annotated[int, Between(1, limits.MEMORY_PAGE_MAX)] = 50
    offset: Offset = 0
    token_budget: TokenBudget = READING_TOKENS


class MemoryReference(Request):
    """Names one memory."""

    memory_id: MemoryId


class ProjectsCounted(Value):
    """Projects by name."""

    projects: tuple[ProjectCounts, ...]


async def browse(service: Service, principal: Principal, request: BrowseMemories) -> MemoriesListed:
    query = MemoryQuery(
        limit=request.limit,
        offset=request.offset,
        filters=request.filters,
        validity=request.validity,
    )
    page = await service.memories.list(principal, query)
    return await memories_listed(page, token_budget=request.token_budget)


async def count_projects(
    service: Service, principal: Principal, _: EmptyRequest
) -> ProjectsCounted:
    return ProjectsCounted(projects=await service.projects.count(principal))


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="memory_browse",
        description="List memories of all projects by any of their fields, newest first.",
        request=BrowseMemories,
        answer=MemoriesListed,
        run=browse,
        group=GROUP,
        scopes=("read",),
        toolset=TOOLSET,
        routes=(Route(method="GET", path="/api/v1/memories/browse"),),
    ),
    Operation(
        name="count_projects",
        description="List the projects that have conversations or memories, and how many.",
        request=EmptyRequest,
        answer=ProjectsCounted,
        run=count_projects,
        group=GROUP,
        scopes=("read",),
        toolset=TOOLSET,
        routes=(Route(method="GET", path="/api/v1/projects/counts"),),
    ),
    Operation(
        name="count_feedback",
        description="Count how often a memory helped, and how often it did not.",
        request=MemoryReference,
        answer=FeedbackCounts,
        run=lambda service, me, request: service.memories.count_feedback(me, request.memory_id),
        group=GROUP,
        scopes=("read",),
        toolset=TOOLSET,
        routes=(Route(method="GET", path="/api/v1/memories/{memory_id:memory_id}/feedback"),),
    ),
)
