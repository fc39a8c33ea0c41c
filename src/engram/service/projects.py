"""Use cases of projects: count, name, merge and exclude them, verify, dump or delete their memories; episodes of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from engram import limits
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.access import Principal
from engram.model.fields import check_range, check_text
from engram.model.ids import EpisodeId, MemoryId
from engram.model.maintenance import Verified
from engram.model.memory import (
    Episode,
    MemoryFilters,
    MemoryOptions,
    MemoryPage,
    MemoryQuery,
    ProjectCounts,
    check_project,
)
from engram.model.project import ChangeSet, ProjectMerged, ProjectRule
from engram.model.value import replace
from engram.service import UseCases
from engram.storage.memories.store import MemoryStore
from engram.storage.projects import Moving
from engram.text.tokens import count_tokens

CHECKED_TOGETHER = 200
DUMPED_TOGETHER = 500

OptionsT = TypeVar("OptionsT", bound=MemoryOptions)


class Projects(UseCases):
    """Counts, names, merges and excludes projects; verifies, dumps and deletes the memories of one."""

    async def rules(self, principal: Principal) -> tuple[ProjectRule, ...]:
        """Return the aliases and exclusions of projects, by name."""
        return await (await self._open(principal, "read")).projects.list_rules()

    async def alias(self, principal: Principal, project: str, *, same_as: str) -> ProjectRule:
        """Keep what is captured and imported of a project in another one, from now on.

        Raises:
            InvalidRequestError: both are the same.
            ConflictError: the other stands for this one.
        """
        store = await self._open(principal, "admin")
        _check_two(project, same_as, field="same_as")
        return await store.projects.set_rule(project, same_as, actor=principal.actor)

    async def exclude(self, principal: Principal, project: str) -> ProjectRule:
        """Capture, import and remind nothing of a project from now on; what is stored stays."""
        store = await self._open(principal, "admin")
        check_project(project)
        return await store.projects.set_rule(project, None, actor=principal.actor)

    async def reset(self, principal: Principal, project: str) -> ProjectRule:
        """Remove the alias or exclusion of a project."""
        store = await self._open(principal, "admin")
        check_project(project)
        return await store.projects.remove_rule(project, actor=principal.actor)

    async def merge(self, principal: Principal, project: str, *, into: str) -> ProjectMerged:
        """Move everything of a project to another, and keep there what is captured of it later.

        Raises:
            InvalidRequestError: both are the same.
            ConflictError: the other stands for this one.
        """
        store = await self._open(principal, "write", "admin")
        _check_two(project, into, field="into")
        before = [rule for rule in await store.projects.list_rules() if rule.project == project]
        rule = await store.projects.set_rule(project, into, actor=principal.actor)
        into = rule.same_as or into  # which may be another name itself
        moved = await store.projects.move(
            Moving(project, into), actor=principal.actor, limit=limits.PROJECT_MOVED_MAX
        )
        items = {"project": project, "into": into, "rule": before[0].same_as if before else project}
        ids = {name: getattr(moved, name) for name in ("conversations", "memories", "episodes")}
        change_id = await store.projects.add_change_set(
            "merge", {**items, **ids}, actor=principal.actor
        )
        return ProjectMerged(
            project=project,
            into=into,
            **{name: len(found) for name, found in ids.items()},
            held=moved.held,
            truncated=limits.PROJECT_MOVED_MAX in (len(moved.conversations), len(moved.memories)),
            change_id=change_id,
        )

    async def take_apart(self, principal: Principal, change: ChangeSet) -> tuple[int, int]:
        """Move back what a merge has moved, as far as it is still there; return how much, and of how much.

        The project's name means what it meant before.
        """
        store = await self._open(principal, "write", "admin")
        items = change.items
        project, into, rule = items["project"], items["into"], items["rule"]
        ids = frozenset(
            each for name in ("conversations", "memories", "episodes") for each in items[name]
        )
        moving = Moving(into, project, only=ids)
        moved = await store.projects.move(
            moving, actor=principal.actor, limit=limits.PROJECT_MOVED_MAX
        )
        now = {each.project: each.same_as for each in await store.projects.list_rules()}
        if now.get(project) == into:
            if rule == project:
                await store.projects.remove_rule(project, actor=principal.actor)
            else:
                await store.projects.set_rule(project, rule, actor=principal.actor)
        return len(moved.conversations) + len(moved.memories) + len(moved.episodes), len(ids)

    async def count(self, principal: Principal) -> tuple[ProjectCounts, ...]:
        """Return the projects that have conversations or memories, by name."""
        store = await self._open(principal, "read")
        counts = {each.project: each for each in await store.count_projects()}
        for size in await store.memories.projects():
            known = counts.get(size.project, ProjectCounts(project=size.project))
            counts[size.project] = replace(known, memories=size.count)
        return tuple(counts[project] for project in sorted(counts))

    async def verify(self, principal: Principal, project: str | None = None) -> Verified:
        """Verify the checksums of memories and of their former versions."""
        store = await self._open(principal, "read")
        if project is not None:
            check_project(project)
        total, corrupt = 0, list[MemoryId]()
        after: MemoryId | None = None
        while True:
            checked = await store.verify_memories(project, after=after, limit=CHECKED_TOGETHER)
            total += checked.checked
            corrupt.extend(checked.corrupt)
            if checked.last is None:
                break
            after = checked.last
        return Verified(total=total, hashed=total - len(corrupt), corrupt=tuple(corrupt))

    async def dump(
        self, principal: Principal, *, project: str, offset: int, token_budget: int
    ) -> MemoryPage:
        """Return a project's memories, newest first, as many as fit the budget, but at least one.

        The next page begins at `next_offset`.
        """
        store = await self._open(principal, "read")
        query = MemoryQuery(
            limit=DUMPED_TOGETHER, offset=offset, filters=MemoryFilters(projects=(project,))
        )
        page = await store.memories.list(query, now=self._tools.clock.now())
        left, shown = token_budget, 0
        for memory in page.memories:
            left -= count_tokens(memory.content)
            if left < 0 and shown:
                break
            shown += 1
        self._tools.trail.count(
            principal.organization_id, actor=principal.actor, action="memory_dump", project=project
        )
        seen = offset + shown
        return MemoryPage(
            memories=page.memories[:shown],
            total=page.total,
            next_offset=seen if shown and seen < page.total else None,
        )

    async def delete_project(self, principal: Principal, project: str, *, confirm: str) -> int:
        """Remove every memory and episode of a project for good; return how many memories.

        Raises:
            InvalidRequestError: `confirm` does not repeat the project's name.
        """
        store = await self._open(principal, "delete")
        check_project(project)
        if confirm != project:
            raise InvalidRequestError("must repeat the project's name", field="confirm")
        return await store.memories.delete_project(project, actor=principal.actor)


def _check_two(project: str, other: str, *, field: str) -> None:
    check_project(project)
    check_project(other)
    if project == other:
        raise InvalidRequestError("must be another project", field=field)


class Episodes(UseCases):
    """Begins, ends, lists and recalls episodes; an episode of another project is unknown."""

    async def start(self, principal: Principal, project: str, description: str) -> Episode:
        """Begin an episode."""
        memories = (await self._open(principal, "write")).memories
        check_project(project)
        check_text("description", description, bytes_max=limits.EPISODE_BYTES_MAX)
        episode_id = await memories.start_episode(
            project, description, actor=principal.actor, quota=principal.quota
        )
        return await memories.get_episode(episode_id)

    async def end(
        self, principal: Principal, episode_id: EpisodeId, *, project: str, summary: str | None
    ) -> Episode:
        """End an episode; if it has ended already, only a given summary is stored."""
        memories = (await self._open(principal, "write")).memories
        if summary is not None:
            check_text("summary", summary, bytes_max=limits.EPISODE_BYTES_MAX)
        await _find(memories, episode_id, project)
        return await memories.end_episode(
            episode_id, summary=summary, actor=principal.actor, quota=principal.quota
        )

    async def list(
        self, principal: Principal, project: str, *, limit: int, offset: int = 0
    ) -> tuple[Episode, ...]:
        """Return the episodes of a project, newest first."""
        memories = (await self._open(principal, "read")).memories
        check_project(project)
        check_range("limit", limit, minimum=1, maximum=limits.EPISODE_PAGE_MAX)
        return await memories.list_episodes(project, limit=limit, offset=offset)

    async def recall(
        self, principal: Principal, episode_id: EpisodeId, *, project: str, limit: int, offset: int
    ) -> tuple[Episode, MemoryPage]:
        """Return an episode and the memories that belong to it, newest first."""
        memories = (await self._open(principal, "read")).memories
        episode = await _find(memories, episode_id, project)
        query = MemoryQuery(
            limit=limit,
            offset=offset,
            filters=MemoryFilters(projects=(project,), episode_id=episode_id),
        )
        return episode, await memories.list(query, now=self._tools.clock.now())


async def with_episodes(
    memories: MemoryStore, principal: Principal, drafts: Sequence[OptionsT]
) -> list[OptionsT]:
    """Return drafts with the caller's automatic episode, where it wants one and a draft names none."""
    missing = {
        each.project for each in drafts if principal.auto_episode and each.episode_id is None
    }
    actor, quota = principal.actor, principal.quota
    episodes = {
        project: await memories.continue_episode(project, actor=actor, quota=quota)
        for project in sorted(missing)
    }
    return [
        replace(each, episode_id=each.episode_id or episodes.get(each.project)) for each in drafts
    ]


async def _find(memories: MemoryStore, episode_id: EpisodeId, project: str) -> Episode:
    check_project(project)
    episode = await memories.get_episode(episode_id)
    if episode.project != project:
        raise NotFoundError("episode", episode_id)
    return episode
