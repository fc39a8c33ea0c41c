"""Operations on projects, on many memories at once, and taking such acts back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from engram.api.account import EmptyRequest
from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.model.access import Principal
from engram.model.changes import ManyChanged, ManyMemories, Undone
from engram.model.fields import Project
from engram.model.project import ChangeId, ProjectMerged, ProjectRule
from engram.model.request import Request
from engram.model.value import Value

if TYPE_CHECKING:
    from engram.service import Service

GROUP = "projects"
TOOLSET = "maintenance"


class NamedProject(Request):
    """Names one project."""

    project: Project


class ProjectAlias(NamedProject):
    """A name, and the project that it stands for."""

    same_as: Annotated[Project, "The project that it is kept in."]


class ProjectMerge(NamedProject):
    """The project to merge, and the one that takes it."""

    into: Annotated[Project, "The project that takes it."]


class ChangeReference(Request):
    """Names an act on many things."""

    change_id: Annotated[ChangeId, "As the answer of the act names it."]


class RulesOfProjects(Value):
    """Aliases and exclusions, by name."""

    rules: tuple[ProjectRule, ...]


async def list_rules(service: Service, principal: Principal, _: EmptyRequest) -> RulesOfProjects:
    return RulesOfProjects(rules=await service.projects.rules(principal))


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="project_rules",
        description="List the aliases and exclusions of projects.",
        request=EmptyRequest,
        answer=RulesOfProjects,
        run=list_rules,
        group=GROUP,
        scopes=("read",),
        routes=(Route(method="GET", path="/api/v1/projects/rules"),),
        command=Command(words=("projects", "rules")),
    ),
    Operation(
        name="project_alias",
        description="Keep sessions that are captured or imported for a project in another one, from now on.",
        request=ProjectAlias,
        answer=ProjectRule,
        run=lambda service, me, request: service.projects.alias(
            me, request.project, same_as=request.same_as
        ),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="POST", path="/api/v1/projects/alias"),),
        command=Command(words=("projects", "alias"), arguments=("project", "same_as")),
    ),
    Operation(
        name="project_exclude",
        description="Capture, import and remind nothing of a project from now on; what is stored stays.",
        request=NamedProject,
        answer=ProjectRule,
        run=lambda service, me, request: service.projects.exclude(me, request.project),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="POST", path="/api/v1/projects/exclude"),),
        command=Command(words=("projects", "exclude"), arguments=("project",)),
    ),
    Operation(
        name="project_reset",
        description="Remove the alias or the exclusion of a project.",
        request=NamedProject,
        answer=ProjectRule,
        run=lambda service, me, request: service.projects.reset(me, request.project),
        group=GROUP,
        scopes=("admin",),
        routes=(Route(method="POST", path="/api/v1/projects/reset"),),
        command=Command(words=("projects", "reset"), arguments=("project",)),
    ),
    Operation(
        name="project_merge",
        description="Move everything of a project to another one, and make its name an alias of it.",
        request=ProjectMerge,
        answer=ProjectMerged,
        run=lambda service, me, request: service.projects.merge(
            me, request.project, into=request.into
        ),
        group=GROUP,
        scopes=("write", "admin"),
        toolset=TOOLSET,
        tool=Tool(title="Merge projects", hints=("repeatable",), is_listed=False),
        routes=(Route(method="POST", path="/api/v1/projects/merge"),),
        command=Command(words=("projects", "merge"), arguments=("project", "into")),
    ),
    Operation(
        name="memory_change",
        description="Change the importance of the newest memories that the filters select, or move them to"
        " the trash, at most 500 at once.",
        request=ManyMemories,
        answer=ManyChanged,
        run=lambda service, me, request: service.changes.change_memories(me, request),
        group="memories",
        scopes=("read",),
        toolset="memories",
        routes=(Route(method="POST", path="/api/v1/memories/change"),),
        command=Command(words=("memories", "change"), arguments=("change",)),
    ),
    Operation(
        name="undo_change",
        description="Undo a merge of projects or a change of many memories; what was changed since stays.",
        request=ChangeReference,
        answer=Undone,
        run=lambda service, me, request: service.changes.undo(me, request.change_id),
        group=GROUP,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Undo a change", is_listed=False),
        routes=(Route(method="POST", path="/api/v1/changes/{change_id}/undo"),),
        command=Command(words=("undo",), arguments=("change_id",)),
    ),
)
