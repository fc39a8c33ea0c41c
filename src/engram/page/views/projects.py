"""Projects: how much is in each, what their names stand for, merging one into another, excluding one."""

from __future__ import annotations

from engram.errors import NotFoundError
from engram.model.memory import ProjectCounts
from engram.model.project import ProjectMerged, ProjectRule
from engram.model.value import Value
from engram.page.view import Act, Done, Menu, Undo, View
from engram.page.visit import Visit

HERE = "/projects"


class ProjectRow(Value):
    """A project, and the names that stand for it."""

    counts: ProjectCounts
    names: tuple[str, ...]
    rule: ProjectRule | None
    """What is said of its own name."""


class ProjectsPage(Value):
    """Every project, by name, and what is said of names that have nothing stored."""

    projects: tuple[ProjectRow, ...]
    rules: tuple[ProjectRule, ...]


class MergePage(Value):
    """A project that is about to be merged, and those that could take it."""

    counts: ProjectCounts
    others: tuple[str, ...]


async def load(visit: Visit) -> ProjectsPage:
    """Return the projects that have conversations or memories, and what is said of others."""
    counted: tuple[ProjectCounts, ...] = (await visit.call("count_projects")).projects
    rules: tuple[ProjectRule, ...] = (await visit.call("project_rules")).rules
    by_name = {rule.project: rule for rule in rules}
    return ProjectsPage(
        projects=tuple(
            ProjectRow(
                counts=each,
                names=tuple(rule.project for rule in rules if rule.same_as == each.project),
                rule=by_name.get(each.project),
            )
            for each in counted
        ),
        rules=rules,
    )


async def load_merge(visit: Visit) -> MergePage:
    """Return what a project has, and the projects that it can be merged into."""
    counted: tuple[ProjectCounts, ...] = (await visit.call("count_projects")).projects
    named = visit.given("project") or ""
    found = [each for each in counted if each.project == named]
    if not found:
        raise NotFoundError("project", named)
    others = tuple(each.project for each in counted if each.project != named)
    return MergePage(counts=found[0], others=others)


async def merge(visit: Visit) -> Done:
    """Move everything of a project to another."""
    done: ProjectMerged = await visit.call(
        "project_merge", project=visit.sent("project"), into=visit.sent("into").strip()
    )
    moved = f"{_count(done.conversations, 'conversation')} and {_count(done.memories, 'memory')}"
    notice = f"{moved} are in “{done.into}” now."
    if done.held:
        notice += f" {done.held:,} stay, because a legal hold is on them."
    if done.truncated:
        notice += " There is more: merge it again."
    return Done(to=HERE, notice=notice, undo=_undo_change(done.change_id))


def _count(number: int, noun: str) -> str:
    many = "memories" if noun == "memory" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def _undo_change(change_id: str) -> Undo:
    return Undo(action=f"{HERE}/undo", fields={"change_id": change_id})


async def undo(visit: Visit) -> Done:
    """Move back what a merge has moved."""
    undone = await visit.call("undo_change", change_id=visit.sent("change_id"))
    notice = f"{undone.restored:,} are where they were."
    if undone.refused:
        notice += f" {undone.refused:,} were moved or removed since, and stay."
    return Done(to=HERE, notice=notice)


async def alias(visit: Visit) -> Done:
    """Let a name stand for a project."""
    project, same_as = visit.sent("project").strip(), visit.sent("same_as").strip()
    before = await _rule(visit, project)
    rule: ProjectRule = await visit.call("project_alias", project=project, same_as=same_as)
    notice = f"Sessions of “{project}” are kept in “{rule.same_as}” from now on."
    return Done(to=HERE, notice=notice, undo=_undo_rule(project, before))


async def exclude(visit: Visit) -> Done:
    """Keep nothing of a project from now on."""
    project = visit.sent("project").strip()
    before = await _rule(visit, project)
    await visit.call("project_exclude", project=project)
    notice = f"Nothing of “{project}” is kept from now on. What is stored stays."
    return Done(to=HERE, notice=notice, undo=_undo_rule(project, before))


async def reset(visit: Visit) -> Done:
    """Let a name stand for itself again."""
    project = visit.sent("project")
    removed: ProjectRule = await visit.call("project_reset", project=project)
    notice = f"“{project}” is a project of its own again."
    return Done(to=HERE, notice=notice, undo=_undo_rule(project, removed))


async def _rule(visit: Visit, project: str) -> ProjectRule | None:
    rules: tuple[ProjectRule, ...] = (await visit.call("project_rules")).rules
    return next((rule for rule in rules if rule.project == project), None)


def _undo_rule(project: str, before: ProjectRule | None) -> Undo:
    """Return the act that makes a name what it was."""
    if before is None:
        return Undo(action=f"{HERE}/reset", fields={"project": project})
    if before.same_as is None:
        return Undo(action=f"{HERE}/exclude", fields={"project": project})
    return Undo(action=f"{HERE}/alias", fields={"project": project, "same_as": before.same_as})


VIEWS = (
    View(
        path=HERE,
        template="projects.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Projects"),
    ),
    View(
        path=f"{HERE}/merge",
        template="project_merge.html",
        load=load_merge,
        scopes=("read", "write", "admin"),
    ),
)
ACTS = (
    Act(path=f"{HERE}/merge", run=merge, scopes=("write", "admin")),
    Act(path=f"{HERE}/undo", run=undo, scopes=("write", "admin")),
    Act(path=f"{HERE}/alias", run=alias, scopes=("read", "admin")),
    Act(path=f"{HERE}/exclude", run=exclude, scopes=("read", "admin")),
    Act(path=f"{HERE}/reset", run=reset, scopes=("admin",)),
)
