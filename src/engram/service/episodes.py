"""Episodes: stretches of work that memories belong to."""

from __future__ import annotations

from engram import limits
from engram.clock import Clock
from engram.errors import NotFoundError
from engram.model.access import Principal
from engram.model.checks import check_range, check_text
from engram.model.ids import EpisodeId
from engram.model.memory import Episode, MemoryFilters, MemoryPage, MemoryQuery, check_project
from engram.storage.memories.store import MemoryStore
from engram.storage.store import Store


class Episodes:
    """Begins, ends, lists and recalls episodes; an episode of another project is unknown."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def start(self, principal: Principal, project: str, description: str) -> Episode:
        """Begin an episode."""
        principal.require("write")
        check_project(project)
        check_text("description", description, bytes_max=limits.EPISODE_BYTES_MAX)
        memories = await self._memories(principal)
        episode_id = await memories.start_episode(
            project, description, actor=principal.actor, quota=principal.quota
        )
        return await memories.get_episode(episode_id)

    async def end(
        self, principal: Principal, episode_id: EpisodeId, *, project: str, summary: str | None
    ) -> Episode:
        """End an episode; one that has ended keeps its end, and takes a summary if one is given."""
        principal.require("write")
        if summary is not None:
            check_text("summary", summary, bytes_max=limits.EPISODE_BYTES_MAX)
        memories = await self._memories(principal)
        await _find(memories, episode_id, project)
        return await memories.end_episode(
            episode_id, summary=summary, actor=principal.actor, quota=principal.quota
        )

    async def list(self, principal: Principal, project: str, *, limit: int) -> tuple[Episode, ...]:
        """Return the episodes of a project, the last begun first."""
        principal.require("read")
        check_project(project)
        check_range("limit", limit, minimum=1, maximum=limits.EPISODE_PAGE_MAX)
        return await (await self._memories(principal)).list_episodes(project, limit=limit)

    async def recall(
        self, principal: Principal, episode_id: EpisodeId, *, project: str, limit: int, offset: int
    ) -> tuple[Episode, MemoryPage]:
        """Return an episode and the memories that belong to it, newest first."""
        principal.require("read")
        memories = await self._memories(principal)
        episode = await _find(memories, episode_id, project)
        query = MemoryQuery(
            limit=limit,
            offset=offset,
            filters=MemoryFilters(projects=(project,), episode_id=episode_id),
        )
        return episode, await memories.list(query, now=self._clock.now())

    async def _memories(self, principal: Principal) -> MemoryStore:
        return (await self._store.organization(principal.organization_id)).memories


async def _find(memories: MemoryStore, episode_id: EpisodeId, project: str) -> Episode:
    check_project(project)
    episode = await memories.get_episode(episode_id)
    if episode.project != project:
        raise NotFoundError("episode", episode_id)
    return episode
