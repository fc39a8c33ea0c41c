"""The projects, and how much is stored in each."""

from __future__ import annotations

from engram.model.memory import ProjectCounts
from engram.model.value import Value
from engram.page.view import Act, Menu, View
from engram.page.visit import Visit


class ProjectsPage(Value):
    """Every project, by name."""

    projects: tuple[ProjectCounts, ...]


async def load(visit: Visit) -> ProjectsPage:
    """Return the projects that have conversations or memories."""
    return ProjectsPage(projects=(await visit.call("count_projects")).projects)


VIEWS = (
    View(
        path="/projects",
        template="projects.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Projects"),
    ),
)
ACTS: tuple[Act, ...] = ()
