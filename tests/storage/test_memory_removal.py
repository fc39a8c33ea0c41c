"""The contract of removing memories for good."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from pathlib import Path

import pytest

from engram.errors import (
    ConflictError,
    NotFoundError,
    StoreCorruptError,
)
from engram.model.ids import MemoryId
from engram.model.memory import MemoryDraft, RelationDraft
from engram.storage.memories import removal as memory_removal
from engram.storage.memories.store import MemoryStore
from engram.storage.organization import OrganizationStore
from engram.storage.rows.database import Connection
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import (
    ACTOR,
    UNBOUNDED,
    begin,
    count_holders,
    findings,
    opened,
    read_texts,
    tables_of,
)
from tests.storage.embedded import DEEP, indexing_of
from tests.storage.memory_drafts import NOWHERE, correct, forget, get, note, remember

HOUR = timedelta(hours=1)


@promise("forgetting")
@pytest.mark.parametrize("state", ["searched", "forgotten"])
async def test_a_purge_leaves_a_tombstone_and_nothing_else(
    organization: OrganizationStore, tmp_path: Path, clock: FakeClock, state: str
) -> None:
    kept = await note(organization, "a pear")
    memory_id = await purged_soon(organization)
    if state == "forgotten":
        await forget(organization, memory_id, clock, reason="because of zzyzx")

    tombstone = await organization.memories.purge(memory_id, actor=ACTOR)

    assert await organization.memories.get([memory_id]) == {}
    assert tombstone.content_hash == hashlib.sha256(b"second zzyzx").hexdigest()
    assert (tombstone.id, tombstone.removed_at, tombstone.actor) == (memory_id, clock.now(), ACTOR)
    with opened(tmp_path, organization) as connection:
        assert tables_with(connection, "zzyzx") == set()
        assert tables_with(connection, memory_id) == {"tombstone", "audit", "audit_name"}
        for table in ("memory_version", "relation", "feedback", "conversation_tag", "vector"):
            assert connection.execute(f"SELECT * FROM {table}").fetchall() == []  # noqa: S608 - fixed names
    assert await count_holders(organization, "zzyzx") == 0
    assert (await get(organization, kept)).content == "a pear"
    assert await findings(organization) == []


async def purged_soon(organization: OrganizationStore) -> MemoryId:
    """Return a memory that has left traces everywhere."""
    (stored,) = await organization.memories.store(
        [MemoryDraft(content="first zzyzx", tags=("zzyzx",), source="zzyzx", project="zzyzx")],
        actor=ACTOR,
        quota=UNBOUNDED,
        indexing=indexing_of(["first zzyzx"], tier="deep", identity=DEEP),
    )
    memories: MemoryStore = organization.memories
    other = await note(organization, "related")
    await correct(organization, stored.id, content="second zzyzx")
    await memories.connect(RelationDraft(source_id=stored.id, target_id=other), actor=ACTOR)
    await memories.connect(RelationDraft(source_id=other, target_id=stored.id), actor=ACTOR)
    await memories.set_summary(stored.id, "zzyzx", actor=ACTOR)
    await memories.purge(other, actor=ACTOR)
    return stored.id


@promise("forgetting")
async def test_purged_again_the_first_tombstone_is_the_answer(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    memory_id = await note(organization, "text")
    first = await organization.memories.purge(memory_id, actor=ACTOR)
    clock.advance(HOUR)

    assert await elsewhere.memories.purge(memory_id, actor="other") == first
    with pytest.raises(NotFoundError):
        await organization.memories.purge(NOWHERE, actor=ACTOR)


@promise("forgetting")
async def test_two_purges_at_once_are_one(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    memory_id = await note(organization, "text")

    tombstones = await asyncio.gather(
        *(each.memories.purge(memory_id, actor=ACTOR) for each in (organization, elsewhere) * 5)
    )

    assert len(set(tombstones)) == 1
    assert (await organization.counters()).memories == 0
    assert await findings(organization) == []


@promise("immutable")
async def test_an_immutable_memory_is_removed_by_force_alone(
    organization: OrganizationStore,
) -> None:
    (memory_id,) = await remember(organization, "carved in stone", immutable=True)

    with pytest.raises(ConflictError, match="immutable"):
        await organization.memories.purge(memory_id, actor=ACTOR)
    await organization.memories.purge(memory_id, actor=ACTOR, force=True)

    assert (await organization.counters()).memories == 0


async def test_a_memory_that_cannot_be_read_can_be_removed(
    organization: OrganizationStore, tmp_path: Path, clock: FakeClock
) -> None:
    damaged, kept = await remember(organization, "apple", "pear")
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE message SET content = 'gone' WHERE content = 'apple'")

    for attempt in (
        correct(organization, damaged, content="plum"),
        forget(organization, damaged, clock),
    ):
        with pytest.raises(StoreCorruptError):
            await attempt
    await organization.memories.purge(damaged, actor=ACTOR)

    assert await count_holders(organization, "apple") == 0
    assert (await get(organization, kept)).content == "pear"
    assert await findings(organization) == []


async def test_a_project_is_deleted_with_its_memories_and_episodes(
    organization: OrganizationStore, monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> None:
    monkeypatch.setattr(memory_removal, "_BATCH_MEMORIES", 3)
    conversation_id = await begin(organization, "said", project="old")
    episode = await organization.memories.start_episode("old", "work", actor=ACTOR)
    ids = await remember(
        organization, *(f"text {n}" for n in range(8)), project="old", immutable=True
    )
    (forgotten,) = await remember(organization, "forgotten", project="old")
    await forget(organization, forgotten, clock)
    (kept,) = await remember(organization, "kept", project="new", episode_id=episode)

    assert await organization.memories.delete_project("old", actor=ACTOR) == 9

    assert list(await organization.memories.get([*ids, forgotten, kept])) == [kept]
    assert (await get(organization, kept)).episode_id is None
    assert await organization.memories.list_episodes("old", limit=9) == ()
    assert await read_texts(organization, conversation_id) == ["said"]
    assert (await organization.memories.purge(ids[0], actor="again")).actor == ACTOR
    entries = await organization.list_audit(limit=5, before=None)
    told = [one.details for one in entries if one.action == "memory_delete_project"]
    assert told[::-1] == [
        {"memories": 3, "episodes": 0},
        {"memories": 3, "episodes": 0},
        {"memories": 3, "episodes": 1},
    ]
    assert await findings(organization) == []


async def test_a_project_of_nothing_has_nothing_to_delete(organization: OrganizationStore) -> None:
    assert await organization.memories.delete_project("none", actor=ACTOR) == 0
    assert await organization.list_audit(limit=5, before=None) == ()


async def test_a_project_with_a_damaged_memory_is_deleted_whole(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await remember(organization, "apple", "pear", project="old")
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE message SET content = 'gone' WHERE content = 'apple'")

    assert await organization.memories.delete_project("old", actor=ACTOR) == 2
    assert await findings(organization) == []


async def test_processes_that_delete_a_project_at_once_share_the_work(
    organization: OrganizationStore,
    elsewhere: OrganizationStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_removal, "_BATCH_MEMORIES", 4)
    await remember(organization, *(f"text {n}" for n in range(30)), project="old")

    counts = await asyncio.gather(
        *(each.memories.delete_project("old", actor=ACTOR) for each in (organization, elsewhere))
    )

    assert sum(counts) == 30
    assert await findings(organization) == []


def tables_with(connection: Connection, text: str) -> set[str]:
    """Return the tables that hold a text anywhere.

    FTS5 keeps the words of rows that are gone, marked as such, until it merges its segments: its
    tables of places say what it still finds.
    """
    return {
        name
        for name in tables_of(connection)
        if not name.endswith("words_data")
        for row in connection.execute(f"SELECT * FROM {name}")  # noqa: S608 - names of tables
        if any(
            text in value if isinstance(value, str) else text.encode() in value
            for value in row
            if isinstance(value, str | bytes)
        )
    }
