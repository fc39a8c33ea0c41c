"""The contract of episodes: they begin, hold memories, and end once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from engram import limits
from engram.errors import NotFoundError
from engram.model.access import OrganizationDraft
from engram.model.ids import EpisodeId
from engram.model.memory import Episode
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.storage.drafts import ACTOR, findings
from tests.storage.memory_drafts import remember

MINUTE = timedelta(minutes=1)
IDLE = timedelta(seconds=limits.EPISODE_IDLE_S)


async def start(
    organization: OrganizationStore, description: str = "fix the build", project: str = "engine"
) -> EpisodeId:
    return await organization.memories.start_episode(project, description, actor=ACTOR)


async def test_an_episode_begins_open_and_empty(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    episode_id = await start(organization)

    assert episode_id.startswith("ep_")
    assert await organization.memories.get_episode(episode_id) == Episode(
        id=episode_id,
        project="engine",
        description="fix the build",
        started_at=clock.now(),
        ended_at=None,
        summary=None,
        memories=0,
    )


async def test_an_episode_counts_the_memories_that_are_searched_in_it(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    episode_id = await start(organization)
    stored = await remember(
        organization, "first text", "second text", project="engine", episode_id=episode_id
    )
    await remember(organization, "a text of no episode", project="engine")

    await organization.memories.forget(stored[0], reason=None, actor=ACTOR, now=clock.now())

    assert (await organization.memories.get_episode(episode_id)).memories == 1


async def test_an_episode_ends_once_and_takes_a_summary_later(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    episode_id = await start(organization)
    clock.advance(MINUTE)
    end = clock.now()

    ended = await organization.memories.end_episode(episode_id, summary=None, actor=ACTOR)
    clock.advance(MINUTE)
    told = await organization.memories.end_episode(episode_id, summary="it builds", actor=ACTOR)
    again = await organization.memories.end_episode(episode_id, summary=None, actor=ACTOR)

    assert (ended.ended_at, ended.summary) == (end, None)
    assert (told.ended_at, told.summary) == (end, "it builds")
    assert again == told == await organization.memories.get_episode(episode_id)


async def test_episodes_of_a_project_come_with_the_last_begun_first(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    begun: list[EpisodeId] = []
    for number in range(4):
        begun.append(await start(organization, f"episode {number}"))
        clock.advance(MINUTE)
    await start(organization, project="another")

    listed = await organization.memories.list_episodes("engine", limit=3)

    assert [each.id for each in listed] == begun[:0:-1]
    assert await organization.memories.list_episodes("nothing", limit=3) == ()


async def test_an_episode_of_another_organisation_is_not_here(
    store: Store, organization: OrganizationStore
) -> None:
    created = await store.control.create_organization(OrganizationDraft(name="Other"), actor=ACTOR)
    theirs = await start(await store.organization(created.id))
    memories = organization.memories

    for unknown in (theirs, EpisodeId("ep_nowhere")):
        with pytest.raises(NotFoundError) as refused:
            await memories.get_episode(unknown)
        assert (refused.value.kind, refused.value.identifier) == ("episode", unknown)
        with pytest.raises(NotFoundError):
            await memories.end_episode(unknown, summary="gone", actor=ACTOR)
    assert await memories.list_episodes("engine", limit=10) == ()


async def test_the_audit_says_who_began_and_ended_an_episode(
    organization: OrganizationStore,
) -> None:
    episode_id = await start(organization)
    await organization.memories.end_episode(episode_id, summary="it builds", actor=ACTOR)

    entries = await organization.list_audit(limit=2, before=None)

    assert [(each.action, each.subject, each.actor, each.details) for each in entries] == [
        ("memory_episode_end", episode_id, ACTOR, {}),
        ("memory_episode_start", episode_id, ACTOR, {}),
    ]


async def continued(
    organization: OrganizationStore, project: str = "engine", actor: str = ACTOR
) -> EpisodeId:
    return await organization.memories.continue_episode(project, actor=actor)


async def test_an_automatic_episode_goes_on_until_a_pause_and_then_another_begins(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    first = await continued(organization)
    clock.advance(IDLE - MINUTE)
    again = await continued(elsewhere)
    last = clock.now()
    clock.advance(IDLE)
    after = await continued(organization)

    assert first == again != after
    ended = await organization.memories.get_episode(first)
    assert (ended.description, ended.ended_at) == (f"auto: {ACTOR}", last + IDLE)


async def test_each_caller_and_each_project_has_an_automatic_episode_of_its_own(
    organization: OrganizationStore,
) -> None:
    mine = await continued(organization)
    others = [
        await continued(organization, project="port"),
        await continued(organization, actor="key_b"),
    ]

    assert len({mine, *others}) == 3
    assert set(await organization.memories.open_episodes(ACTOR)) == {mine, others[0]}


async def test_an_episode_that_somebody_began_is_not_continued(
    organization: OrganizationStore,
) -> None:
    begun = await start(organization, f"auto: {ACTOR}")

    assert await continued(organization) != begun


async def test_an_automatic_episode_can_be_ended_before_its_time(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    first = await continued(organization)

    ended = await organization.memories.end_episode(first, summary="done", actor=ACTOR)

    assert (ended.ended_at, ended.summary) == (clock.now(), "done")
    assert await organization.memories.open_episodes(ACTOR) == ()
    assert await continued(organization) != first


async def test_two_processes_that_begin_at_once_share_an_automatic_episode(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    begun = await asyncio.gather(*(continued(each) for each in (organization, elsewhere) * 5))

    assert len(set(begun)) == 1
    assert await findings(organization) == []
