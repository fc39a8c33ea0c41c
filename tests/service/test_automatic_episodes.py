"""Automatic episodes: where a connection wants one, and nowhere else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.errors import NotFoundError
from engram.model.access import Principal
from engram.model.ids import EpisodeId, MemoryId, chunk_id
from engram.model.memory import Episode, MemoryDraft, MemoryFilters, MemoryQuery, NoteDraft
from engram.model.recall import MemoryChunk, RecalledMemory, RecallRequest
from engram.model.search import ScoreBreakdown
from engram.model.value import replace
from engram.search.recall import raise_episodes
from engram.service import Service
from tests.fakes import FakeClock
from tests.memories import a_memory
from tests.service.bodies import store

HOUR = timedelta(hours=1)
OWN = EpisodeId("ep_own")
IDLE = timedelta(seconds=limits.EPISODE_IDLE_S)


@pytest.fixture
def caller(principal: Principal) -> Principal:
    """Return a caller whose connection wants automatic episodes."""
    return replace(principal, auto_episode=True)


async def keep(service: Service, caller: Principal, content: str, **fields: Any) -> None:
    await service.memories.store(caller, MemoryDraft(content=content, **fields))


async def episodes(
    service: Service, caller: Principal, project: str = "default"
) -> tuple[Episode, ...]:
    return await service.episodes.list(caller, project, limit=10)


async def recalled(
    service: Service, caller: Principal, query: str, **fields: Any
) -> list[RecalledMemory]:
    request = RecallRequest(query=query, **fields)
    return list((await service.search.recall(caller, request)).results)


async def test_without_being_asked_for_nothing_belongs_to_an_episode(
    service: Service, principal: Principal
) -> None:
    await keep(service, principal, "harbour")

    assert await episodes(service, principal) == ()


async def test_what_is_stored_in_one_go_belongs_to_one_episode(
    service: Service, caller: Principal, clock: FakeClock
) -> None:
    await keep(service, caller, "one")
    clock.advance(HOUR)
    await keep(service, caller, "two")
    clock.advance(IDLE)
    await keep(service, caller, "three")

    later, first = await episodes(service, caller)

    assert (first.memories, later.memories) == (2, 1)
    assert first.ended_at == later.started_at


async def test_an_episode_that_is_named_wins_and_each_project_has_its_own(
    service: Service, caller: Principal
) -> None:
    begun = await service.episodes.start(caller, "default", "the migration")
    await keep(service, caller, "one", episode_id=begun.id)
    drafts = [MemoryDraft(content="two"), MemoryDraft(content="three", project="port")]
    await service.memories.store_batch(caller, drafts)

    (own,) = await episodes(service, caller, "port")
    by_description = {each.description: each for each in await episodes(service, caller)}

    assert by_description["the migration"].memories == 1
    assert by_description["auto: local"].memories == own.memories == 1


async def test_a_document_belongs_to_the_episode_too(service: Service, caller: Principal) -> None:
    await store(service, caller, b"the harbour opens at six")

    (episode,) = await episodes(service, caller)

    assert episode.memories == 1


async def test_a_connection_that_stores_nothing_leaves_no_episode(
    service: Service, caller: Principal
) -> None:
    await recalled(service, caller, "harbour")
    await service.memories.list(caller, MemoryQuery())
    await service.memories.store_note(caller, NoteDraft(content="a note is no memory_store"))

    assert await episodes(service, caller) == ()


async def test_memories_of_the_own_episode_rank_higher(
    service: Service, principal: Principal, caller: Principal
) -> None:
    for content in ("harbour crane", "harbour ferry", "harbour light"):
        await keep(service, principal, content)
    await keep(service, caller, "harbour mole")

    plain = await recalled(service, principal, "harbour")
    raised = await recalled(service, caller, "harbour")

    assert plain[0].memory.content != "harbour mole"
    assert raised[0].memory.content == "harbour mole"
    before = {each.memory.id: each.score for each in plain}
    assert [each.memory.id for each in raised[1:]] == [
        each.memory.id for each in plain if each.memory.content != "harbour mole"
    ]
    assert before[raised[0].memory.id] <= raised[0].score <= 1
    assert [each.episode_boost for each in raised] == [1.15, 1, 1, 1]


async def test_a_better_answer_of_no_episode_stays_ahead(
    service: Service, principal: Principal, caller: Principal
) -> None:
    await keep(service, principal, "the green harbour crane")
    await keep(service, caller, "something green on a hill, far from the sea")

    first, second = await recalled(service, caller, "green harbour crane")

    assert first.memory.content == "the green harbour crane"
    assert (first.episode_boost, second.episode_boost) == (1, 1.15)


async def test_a_memory_below_the_limit_is_raised_into_it(
    service: Service, principal: Principal, caller: Principal
) -> None:
    for number in range(40):
        await keep(service, principal, f"harbour {number}")
    await keep(service, caller, "harbour mole")

    (first,) = await recalled(service, caller, "harbour", top_k=1)

    assert first.memory.content == "harbour mole"


async def test_an_episode_that_has_ended_raises_nothing(
    service: Service, caller: Principal, clock: FakeClock
) -> None:
    await keep(service, caller, "harbour")
    clock.advance(IDLE)

    (found,) = await recalled(service, caller, "harbour")

    assert found.episode_boost == 1


async def test_an_episode_can_be_raised_by_its_id_in_its_own_project(
    service: Service, principal: Principal
) -> None:
    begun = await service.episodes.start(principal, "port", "the migration")
    await keep(service, principal, "harbour", project="port", episode_id=begun.id)

    (found,) = await recalled(service, principal, "harbour", episode_ids=(begun.id,))
    elsewhere = MemoryFilters(projects=("default",))

    assert found.episode_boost == 1.15
    for episode_id in (begun.id, EpisodeId("ep_unknown")):
        with pytest.raises(NotFoundError):
            await recalled(
                service, principal, "harbour", episode_ids=(episode_id,), filters=elsewhere
            )


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=20))
def test_a_boost_moves_memories_of_an_episode_up_and_leaves_the_others_in_order(
    found: list[tuple[float, bool]],
) -> None:
    ranked = sorted(
        (a_recalled_memory(number, order, is_own) for number, (order, is_own) in enumerate(found)),
        key=lambda each: -each.score,
    )

    raised = raise_episodes(ranked, {OWN})

    for is_own in (True, False):
        assert [each.memory.id for each in ranked if (each.memory.episode_id == OWN) == is_own] == [
            each.memory.id for each in raised if (each.memory.episode_id == OWN) == is_own
        ]
    assert [each.score for each in raised] == sorted((each.score for each in raised), reverse=True)
    before = {each.memory.id: (place, each.score) for place, each in enumerate(ranked)}
    for place, each in enumerate(raised):
        if each.memory.episode_id == OWN:
            assert place <= before[each.memory.id][0]
            assert before[each.memory.id][1] <= each.score <= 1


def a_recalled_memory(number: int, order: float, is_own: bool) -> RecalledMemory:  # noqa: FBT001 drawn by hypothesis
    memory_id = MemoryId(f"mem_{number}")
    return RecalledMemory(
        memory=a_memory("harbour", id=memory_id, episode_id=OWN if is_own else None),
        score=order,
        breakdown=ScoreBreakdown(
            raw={},
            legs={},
            weights={},
            fused=order,
            conversation_best=order,
            length_charge=1,
            importance_factor=1,
            usefulness_factor=1,
            order=order,
        ),
        matched=MemoryChunk(
            id=chunk_id(memory_id, start=1, end=1), index=0, start=0, end=7, text="harbour"
        ),
        chunk_count=1,
    )
