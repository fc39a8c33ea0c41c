"""Episodes: stretches of work that memories belong to."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from engram import limits
from engram.model.ids import EpisodeId
from engram.model.memory_reading import READING_TOKENS
from engram.transport import answers, requests
from engram.transport.requests.fields import WHOLE, Offset, TokenBudget
from engram.transport.rest.needs import needs
from engram.transport.rest.routes import Call, JsonRoute

router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["memories"])

UNDESCRIBED = requests.StartEpisode()


class EpisodeEnd(requests.InProject):
    summary: str | None = None


class EpisodeQuery(requests.InProject):
    limit: Annotated[int, Field(ge=1, le=limits.MEMORY_PAGE_MAX), WHOLE] = 50
    offset: Offset = 0
    token_budget: TokenBudget = READING_TOKENS


UNSUMMED = EpisodeEnd()


@router.post("/episodes", operation_id="memory_episode_start", status_code=201)
@needs("write")
async def memory_episode_start(
    call: Call, body: requests.StartEpisode = UNDESCRIBED
) -> answers.EpisodeView:
    """Begin an episode; memories name it as their `episode_id`."""
    episode = await call.service.maintenance.episodes.start(
        call.principal, body.project, body.description
    )
    return answers.episode_view(episode)


@router.get("/episodes", operation_id="memory_episode_list")
@needs("read")
async def memory_episode_list(
    call: Call, query: Annotated[requests.ListEpisodes, Query()]
) -> answers.EpisodesListed:
    """List a project's episodes, the last begun first."""
    episodes = await call.service.maintenance.episodes.list(
        call.principal, query.project, limit=query.limit
    )
    return answers.episodes_listed(episodes)


@router.get("/episodes/{episode_id}", operation_id="memory_episode_recall")
@needs("read")
async def memory_episode_recall(
    call: Call, episode_id: str, query: Annotated[EpisodeQuery, Query()]
) -> answers.EpisodeRecalled:
    """Read an episode and the memories that belong to it, newest first."""
    episode, page = await call.service.maintenance.episodes.recall(
        call.principal,
        EpisodeId(episode_id),
        project=query.project,
        limit=query.limit,
        offset=query.offset,
    )
    return answers.episode_recalled(episode, page, token_budget=query.token_budget)


@router.post("/episodes/{episode_id}/end", operation_id="memory_episode_end")
@needs("write")
async def memory_episode_end(
    call: Call, episode_id: str, body: EpisodeEnd = UNSUMMED
) -> answers.EpisodeView:
    """End an episode; one that has ended keeps its end, and takes a summary if one is given."""
    episode = await call.service.maintenance.episodes.end(
        call.principal, EpisodeId(episode_id), project=body.project, summary=body.summary
    )
    return answers.episode_view(episode, is_shown=call.principal.allows("read"))
