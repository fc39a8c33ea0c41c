"""Episodes: the stretches of work of a project, and what was kept in each."""

from __future__ import annotations

from engram.api.memory_views import EpisodeRecalled, EpisodesListed
from engram.model.fields import DEFAULT_PROJECT, parse_whole_number
from engram.model.memory import IMPORTANCE_NAMES
from engram.model.value import Value
from engram.page.view import Act, Menu, View
from engram.page.visit import Visit

PAGE = 50
TOKENS = 6_000


class EpisodesPage(Value):
    """One page of the episodes of a project, and the projects there are."""

    found: EpisodesListed
    project: str
    projects: tuple[str, ...]
    offset: int


class EpisodePage(Value):
    """An episode and a page of its memories."""

    found: EpisodeRecalled
    offset: int
    importances: tuple[str, ...] = IMPORTANCE_NAMES


async def load(visit: Visit) -> EpisodesPage:
    """Return the episodes of the project that the address names, the last begun first."""
    project = visit.given("project") or DEFAULT_PROJECT
    offset = _offset(visit)
    found = await visit.call("memory_episode_list", project=project, limit=PAGE, offset=offset)
    listed = await visit.call("memory_projects")
    names = {project, *(each.project for each in listed.projects)}
    return EpisodesPage(found=found, project=project, projects=tuple(sorted(names)), offset=offset)


async def load_one(visit: Visit) -> EpisodePage:
    """Return an episode of the project that the address names."""
    offset = _offset(visit)
    found = await visit.call(
        "memory_episode_recall",
        episode_id=visit.parameters["episode_id"],
        project=visit.given("project"),
        limit=PAGE,
        offset=offset,
        token_budget=TOKENS,
    )
    return EpisodePage(found=found, offset=offset)


def _offset(visit: Visit) -> int:
    return parse_whole_number("offset", visit.given("offset") or "0")


VIEWS = (
    View(
        path="/episodes",
        template="episodes.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Episodes"),
    ),
    View(path="/episodes/{episode_id}", template="episode.html", load=load_one, scopes=("read",)),
)
ACTS: tuple[Act, ...] = ()
