"""The contract of histories: every version comes back, and every moment as it was known then."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import NotFoundError
from engram.model.access import OrganizationDraft
from engram.model.ids import MemoryId
from engram.model.memory import Memory, MemoryChange
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import ACTOR, UNBOUNDED
from tests.storage.memory_drafts import NOWHERE, get, remember

pytestmark = promise("versions")

HOUR = timedelta(hours=1)
INSTANT = timedelta(microseconds=1)


async def correct(organization: OrganizationStore, memory_id: MemoryId, **fields: Any) -> Memory:
    return await organization.memories.correct(
        memory_id, MemoryChange(**fields), actor="key_editor", quota=UNBOUNDED
    )


async def forget(organization: OrganizationStore, memory_id: MemoryId, *, now: datetime) -> Memory:
    return await organization.memories.forget(memory_id, reason="wrong", actor=ACTOR, now=now)


async def known_at(
    organization: OrganizationStore, as_of: datetime, *projects: str, limit: int = 100
) -> list[Memory]:
    known = await organization.memories.timeline(as_of, projects=projects or None, limit=limit)
    return list(known)


async def test_a_new_memory_has_no_history(organization: OrganizationStore) -> None:
    (memory_id,) = await remember(organization, "some text")

    assert await organization.memories.history(memory_id) == ()


async def test_a_history_holds_each_version_as_it_was_oldest_first(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    (memory_id,) = await remember(
        organization, "the first text " * 20, tags=("red", "green"), importance=1
    )
    was = [await get(organization, memory_id)]
    ends: list[datetime] = []
    for fields in ({"content": "the second text " * 20}, {"importance": 3}, {"tags": ()}):
        clock.advance(HOUR)
        ends.append(clock.now())
        was.append(await correct(organization, memory_id, **fields))
    clock.advance(HOUR)
    ends.append(clock.now())
    await forget(organization, memory_id, now=clock.now())

    versions = await organization.memories.history(memory_id)

    assert [each.memory for each in versions] == was
    assert [each.ended_at for each in versions] == ends
    assert [each.change for each in versions] == ["update", "update", "update", "invalidate"]
    assert [each.actor for each in versions] == ["key_editor"] * 3 + [ACTOR]


async def test_what_is_not_here_has_no_history(
    store: Store, organization: OrganizationStore
) -> None:
    created = await store.control.create_organization(OrganizationDraft(name="Other"), actor=ACTOR)
    (theirs,) = await remember(await store.organization(created.id), "a memory of theirs")
    (purged,) = await remember(organization, "a memory of mine")
    await correct(organization, purged, content="another text of mine")
    await organization.memories.purge(purged, actor=ACTOR)

    for memory_id in (theirs, purged, NOWHERE):
        with pytest.raises(NotFoundError) as refused:
            await organization.memories.history(memory_id)
        assert (refused.value.kind, refused.value.identifier) == ("memory", memory_id)


async def test_a_moment_shows_the_text_that_was_known_then(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    (memory_id,) = await remember(organization, "we deploy on Fridays")
    first = await get(organization, memory_id)
    stored = clock.now()
    clock.advance(HOUR)
    second = await correct(organization, memory_id, content="we deploy on Mondays")
    clock.advance(HOUR)
    await forget(organization, memory_id, now=clock.now())

    assert await known_at(organization, stored - INSTANT) == []
    assert await known_at(organization, stored) == [first]
    assert await known_at(organization, stored + HOUR - INSTANT) == [first]
    assert await known_at(organization, stored + HOUR) == [second]
    assert await known_at(organization, stored + 2 * HOUR - INSTANT) == [second]
    assert await known_at(organization, stored + 2 * HOUR) == []


async def test_a_moment_shows_what_held_then(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    now = clock.now()
    await remember(organization, "not yet valid", valid_from=now + HOUR)
    await remember(organization, "valid no more", valid_to=now)
    await remember(organization, "expired already", expires_at=now)
    held = await remember(
        organization, "it holds now", valid_from=now, valid_to=now + HOUR, expires_at=now + HOUR
    )

    assert [each.id for each in await known_at(organization, now)] == held
    assert [each.content for each in await known_at(organization, now + HOUR)] == ["not yet valid"]


async def test_a_timeline_is_of_its_projects_newest_first_and_bounded(
    store: Store, organization: OrganizationStore, clock: FakeClock
) -> None:
    created = await store.control.create_organization(OrganizationDraft(name="Other"), actor=ACTOR)
    await remember(await store.organization(created.id), "a memory of theirs", project="engine")
    for number in range(3):
        for project in ("engine", "brakes", "lights"):
            await remember(organization, f"text {number} of {project}", project=project)
        clock.advance(HOUR)

    both = await known_at(organization, clock.now(), "engine", "lights")
    newest = await known_at(organization, clock.now(), limit=2)

    expected = [
        f"text {each} of {project}" for each in (2, 1, 0) for project in ("lights", "engine")
    ]
    assert [each.content for each in both] == expected
    assert [each.content for each in newest] == ["text 2 of lights", "text 2 of brakes"]
    assert await known_at(organization, clock.now(), "nothing") == []


@dataclass
class Told:
    """What the test remembers of one memory: from when on it was known how; None is not at all."""

    states: list[tuple[datetime, Memory | None]] = field(
        default_factory=list[tuple[datetime, Memory | None]]
    )

    def at(self, moment: datetime) -> Memory | None:
        states = [state for since, state in self.states if since <= moment]
        return states[-1] if states and states[-1] and holds(states[-1], moment) else None


def holds(memory: Memory, moment: datetime) -> bool:
    return (
        (memory.valid_from is None or memory.valid_from <= moment)
        and (memory.valid_to is None or moment < memory.valid_to)
        and (memory.expires_at is None or moment < memory.expires_at)
    )


offsets = st.none() | st.integers(-1, 4).map(lambda hours: hours * HOUR)
steps = st.lists(
    st.tuples(
        st.sampled_from(["store", "correct", "retime", "retime", "forget", "restore", "purge"]),
        st.integers(0, 2),
        st.integers(0, 2).map(lambda hours: hours * HOUR),
        offsets,
    ),
    max_size=14,
)
projects = itertools.count()


@given(steps=steps)
async def test_every_moment_is_known_as_a_plain_memory_of_it_says(
    organization: OrganizationStore,
    clock: FakeClock,
    steps: Sequence[tuple[str, int, timedelta, timedelta | None]],
) -> None:
    project = f"project {next(projects)}"
    begun = clock.now()
    told: dict[MemoryId, Told] = {}
    for action, which, wait, offset in steps:
        clock.advance(wait)
        moment = None if offset is None else clock.now() + offset
        living = list(told)
        if action == "store" or not living:
            text = f"stored at {clock.now()}"
            (memory_id,) = await remember(organization, text, project=project, valid_from=moment)
            told[memory_id] = Told()
        else:
            memory_id = living[which % len(living)]
            await change(organization, memory_id, action, moment=moment, now=clock.now())
        if action == "purge" and memory_id in living:
            del told[memory_id]
            continue
        state = await get(organization, memory_id)
        told[memory_id].states.append((clock.now(), state if state.is_searched else None))

    for hours in range(-1, 2 + int((clock.now() - begun) / HOUR)):
        for moment in (begun + hours * HOUR, begun + hours * HOUR - INSTANT):
            expected = [each.at(moment) for each in reversed(told.values())]
            assert await known_at(organization, moment, project) == [
                each for each in expected if each is not None
            ]


async def change(
    organization: OrganizationStore,
    memory_id: MemoryId,
    action: str,
    *,
    moment: datetime | None,
    now: datetime,
) -> None:
    """Do one thing to a memory; what a forgotten one refuses is left undone."""
    memory = await get(organization, memory_id)
    if action == "purge":
        await organization.memories.purge(memory_id, actor=ACTOR)
    elif action == "forget":
        await forget(organization, memory_id, now=now)
    elif action == "restore":
        await organization.memories.restore(memory_id, actor=ACTOR)
    elif not memory.is_searched:
        return
    elif action == "retime" and moment is not None:
        await correct(organization, memory_id, expires_at=moment)
    else:
        await correct(organization, memory_id, content=f"corrected at {now}")
