"""The contract of correcting, forgetting and restoring memories."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engram.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
)
from engram.model.access import Quota
from engram.model.ids import MemoryId
from engram.model.memory import Memory, MemoryDraft, MemoryFilters, MemoryQuery
from engram.model.search import SearchFilters
from engram.model.value import replace
from engram.model.vectors import Tier
from engram.storage.organization import OrganizationStore
from tests.fakes import SOME_DAY, FakeClock
from tests.promises import promise
from tests.storage import document_drafts
from tests.storage.drafts import (
    ACTOR,
    UNBOUNDED,
    count_holders,
    dump,
    find,
    findings,
    opened,
    refuse,
)
from tests.storage.embedded import DEEP, QUICK, embed_waiting, indexing_of, nearest
from tests.storage.memory_drafts import NOWHERE, correct, forget, get, note, remember

HOUR = timedelta(hours=1)
EARLY = SOME_DAY - HOUR
PROJECTS = ("north", "south")


async def test_a_corrected_text_is_found_in_the_place_of_the_old_one(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    memory_id = await note(organization, "the port is tanuki")
    before = await get(organization, memory_id)
    clock.advance(HOUR)

    after = await correct(organization, memory_id, content="the port is lantern")

    assert after == replace(
        before,
        content="the port is lantern",
        content_hash=hashlib.sha256(b"the port is lantern").hexdigest(),
        version=2,
        updated_at=clock.now(),
    )
    (version,) = await elsewhere.memories.history(memory_id)
    assert (version.memory, version.change, version.actor) == (before, "update", ACTOR)
    assert version.ended_at == clock.now()
    for each in (organization, elsewhere):
        assert await get(each, memory_id) == after
        assert await count_holders(each, "tanuki") == 0
        assert await count_holders(each, "lantern") == 1
    assert await findings(organization) == []


async def test_a_corrected_text_takes_the_vectors_of_the_old_one_away(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    (stored,) = await organization.memories.store(
        [MemoryDraft(content="apple pear")],
        actor=ACTOR,
        quota=UNBOUNDED,
        indexing=indexing_of(["apple pear"], tier="deep", identity=DEEP),
    )
    old = await nearest(elsewhere, "apple")

    await correct(
        organization,
        stored.id,
        content="river",
        indexing=indexing_of(["river"], tier="deep", identity=DEEP),
    )

    assert await nearest(elsewhere, "apple") not in (None, old)
    assert (await organization.coverage()).messages_deep == 1
    assert await findings(organization) == []


async def test_fields_are_corrected_without_touching_the_text(
    organization: OrganizationStore, tmp_path: Path, clock: FakeClock
) -> None:
    (memory_id,) = await remember(organization, "a text that stays", tags=("old",))
    before = await get(organization, memory_id)
    records = read_records(tmp_path, organization)
    change: dict[str, Any] = {
        "memory_type": "decision",
        "category": "technical",
        "importance": 0,
        "tags": ("new", "other"),
        "pattern_confidence": 0.1 + 0.2,
        "valid_to": clock.now() + HOUR,
        "expires_at": clock.now() + 2 * HOUR,
    }

    after = await correct(organization, memory_id, **change)

    assert after == replace(before, **change, version=2)
    assert [one.memory for one in await organization.memories.history(memory_id)] == [before]
    assert read_records(tmp_path, organization) == records
    counters = await organization.counters()
    assert (counters.messages, counters.content_bytes) == (1, len("a text that stays"))
    assert len((await find(organization, "text", filters=SearchFilters(tags=("new",)))).keys) == 1
    assert len((await find(organization, "text", filters=SearchFilters(tags=("old",)))).keys) == 0
    assert await findings(organization) == []


@pytest.mark.parametrize("also", [{}, {"tags": ("new",)}, {"valid_from": EARLY}])
async def test_a_moved_memory_is_found_in_its_project_by_every_process(
    organization: OrganizationStore,
    elsewhere: OrganizationStore,
    clock: FakeClock,
    also: dict[str, Any],
) -> None:
    (moved,) = await remember(organization, "lighthouses burn", project="north")
    document = await document_drafts.store(organization, "A lighthouse log", project="north")
    await document_drafts.index(organization, document.id)
    assert await found_in(elsewhere, "lighthous") == {"north": 2, "south": 0}
    began = clock.now()
    clock.advance(HOUR)

    for memory_id in (moved, document.memory_id):
        assert (await correct(organization, memory_id, to_project="south", **also)).version == 2
    await document_drafts.index(organization, document.id)

    assert await found_in(elsewhere, "lighthous") == {"north": 0, "south": 2}
    assert await listed_in(elsewhere) == {"north": 0, "south": 2}
    sizes = {each.project: each.count for each in await elsewhere.memories.projects()}
    assert sizes == {"south": 2}
    assert [each.memory.project for each in await elsewhere.memories.history(moved)] == ["north"]
    assert await known_in(elsewhere, began) == {"north": 2, "south": 0}
    assert await known_in(elsewhere, clock.now()) == {"north": 0, "south": 2}
    assert await findings(organization) == []


async def test_a_memory_is_moved_with_its_new_text(organization: OrganizationStore) -> None:
    (memory_id,) = await remember(organization, "lighthouses burn", project="north")

    await correct(organization, memory_id, content="lighthouses shine", to_project="south")

    assert await found_in(organization, "shine") == {"north": 0, "south": 1}
    assert await found_in(organization, "burn") == {"north": 0, "south": 0}
    assert await findings(organization) == []


async def found_in(organization: OrganizationStore, term: str) -> dict[str, int]:
    filters = {name: SearchFilters(project=name) for name in PROJECTS}
    return {
        name: len((await find(organization, term, filters=each)).keys)
        for name, each in filters.items()
    }


async def listed_in(organization: OrganizationStore) -> dict[str, int]:
    queries = {name: MemoryQuery(filters=MemoryFilters(projects=(name,))) for name in PROJECTS}
    listing = organization.memories.list
    return {name: (await listing(query, now=EARLY)).total for name, query in queries.items()}


async def known_in(organization: OrganizationStore, moment: datetime) -> dict[str, int]:
    timeline = organization.memories.timeline
    return {name: len(await timeline(moment, projects=[name], limit=9)) for name in PROJECTS}


async def test_tags_can_be_taken_away(organization: OrganizationStore) -> None:
    (memory_id,) = await remember(organization, "text", tags=("a", "b"))

    assert (await correct(organization, memory_id, tags=())).tags == ()
    assert await findings(organization) == []


@pytest.mark.parametrize("tier", ["instant", "deep"])
async def test_another_beginning_keeps_the_vectors(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock, tier: Tier
) -> None:
    text = "apple and pear and many more fruits of the orchard"
    (stored,) = await organization.memories.store(
        [MemoryDraft(content=text)],
        actor=ACTOR,
        quota=UNBOUNDED,
        indexing=indexing_of([text], tier="instant", identity=QUICK),
    )
    if tier == "deep":
        await embed_waiting(organization)
    identity = DEEP if tier == "deep" else QUICK
    await nearest(elsewhere, "apple", tier=tier, identity=identity)  # has them in memory
    counters = await organization.counters()

    after = await correct(organization, stored.id, valid_from=clock.now() - HOUR)

    assert after.valid_from == clock.now() - HOUR
    now = await organization.counters()
    assert replace(now, stored_bytes=counters.stored_bytes) == counters
    for each in (organization, elsewhere):
        assert await nearest(each, "apple", tier=tier, identity=identity) is not None
    # The day it speaks of is among its words.
    assert await count_holders(organization, "2026") == 1
    assert await findings(organization) == []
    assert await embed_waiting(organization) == (0 if tier == "deep" else 1)


async def test_a_correction_that_changes_nothing_is_no_version(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    memory_id = await note(organization, "as it is")
    before = await get(organization, memory_id)
    clock.advance(HOUR)

    assert await correct(organization, memory_id, content="as it is", importance=2) == before
    assert await organization.memories.history(memory_id) == ()


async def test_what_cannot_be_corrected_is_refused(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    (immutable,) = await remember(organization, "carved in stone", immutable=True)
    (bounded,) = await remember(organization, "bounded", valid_to=clock.now())
    forgotten = await note(organization, "forgotten")
    await forget(organization, forgotten, clock)
    before = await organization.counters()

    with pytest.raises(ConflictError, match="immutable"):
        await correct(organization, immutable, importance=0)
    with pytest.raises(ConflictError, match="forgotten"):
        await correct(organization, forgotten, importance=0)
    with pytest.raises(InvalidRequestError):
        await correct(organization, bounded, valid_from=clock.now())
    with pytest.raises(NotFoundError):
        await correct(organization, NOWHERE, importance=0)
    with pytest.raises(QuotaExceededError):
        await correct(organization, bounded, content="longer text", quota=Quota(bytes_max=40))
    assert await organization.counters() == before
    assert await findings(organization) == []


async def test_the_bytes_of_every_text_that_is_kept_count(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    memory_id = await note(organization, "1234567890")

    await correct(organization, memory_id, content="12345")
    await correct(organization, memory_id, importance=0)
    assert (await organization.counters()).content_bytes == 15

    await forget(organization, memory_id, clock)
    assert (await organization.counters()).content_bytes == 15

    await organization.memories.restore(memory_id, actor=ACTOR)
    assert (await organization.counters()).content_bytes == 15

    await organization.memories.purge(memory_id, actor=ACTOR)
    assert (await organization.counters()).content_bytes == 0


@promise("processes", "versions")
async def test_corrections_of_two_processes_are_all_kept(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    memory_id = await note(organization, "number 0")

    await asyncio.gather(
        *(
            correct(each, memory_id, content=f"number {number} of {name}")
            for number in range(10)
            for name, each in (("one", organization), ("two", elsewhere))
        )
    )

    history = await organization.memories.history(memory_id)
    present = await get(elsewhere, memory_id)
    texts = [version.memory.content for version in history] + [present.content]
    assert [version.memory.version for version in history] == list(range(1, 21))
    assert len(set(texts)) == 21
    assert (await organization.counters()).memories == 1
    assert await findings(organization) == []


@promise("durable")
async def test_a_failure_in_the_middle_changes_nothing(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    memory_id = await note(organization, "as it was")
    with opened(tmp_path, organization) as connection:
        refuse(connection, "UPDATE OF version ON memory")
        before = dump(connection)

    with pytest.raises(StorageError):
        await correct(organization, memory_id, content="as it would be")

    with opened(tmp_path, organization) as connection:
        assert dump(connection) == before


@promise("forgetting")
async def test_a_forgotten_memory_is_read_but_not_searched(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    memory_id = await note(organization, "the tanuki was here")
    before = await get(organization, memory_id)
    clock.advance(HOUR)

    forgotten = await forget(organization, memory_id, clock, reason="it left")

    assert forgotten == replace(
        before,
        version=2,
        updated_at=clock.now(),
        valid_to=clock.now(),
        is_searched=False,
        reason="it left",
    )
    (version,) = await organization.memories.history(memory_id)
    assert (version.memory, version.change) == (before, "invalidate")
    for each in (organization, elsewhere):
        assert await get(each, memory_id) == forgotten
        assert await count_holders(each, "tanuki") == 0
    assert (await organization.memories.list(MemoryQuery(), now=clock.now())).total == 0
    counters = await organization.counters()
    assert (counters.memories, counters.messages, counters.chunks) == (0, 0, 0)
    assert await findings(organization) == []


async def test_forgotten_again_nothing_changes(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    memory_id = await note(organization, "text")
    first = await forget(organization, memory_id, clock, reason="first")
    clock.advance(HOUR)

    assert await forget(organization, memory_id, clock, reason="second") == first
    assert len(await organization.memories.history(memory_id)) == 1


async def test_what_ended_before_keeps_its_end(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    ended, later = [
        *await remember(organization, "ended", valid_to=clock.now() - HOUR),
        *await remember(organization, "later", valid_to=clock.now() + HOUR),
    ]

    assert (await forget(organization, ended, clock)).valid_to == clock.now() - HOUR
    assert (await forget(organization, later, clock)).valid_to == clock.now()


async def test_what_cannot_be_forgotten_is_refused(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    (immutable,) = await remember(organization, "carved in stone", immutable=True)

    with pytest.raises(ConflictError, match="immutable"):
        await forget(organization, immutable, clock)
    with pytest.raises(NotFoundError):
        await forget(organization, NOWHERE, clock)
    assert (await get(organization, immutable)).is_searched


@promise("forgetting")
async def test_a_restored_memory_is_as_it_was_before(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    text = "apple and pear and many more fruits of the orchard"
    (memory_id,) = await remember(
        organization,
        text,
        tags=("b", "a"),
        valid_from=clock.now() - HOUR,
        valid_to=clock.now() + 9 * HOUR,
        importance=1,
    )
    before = await get(organization, memory_id)
    counters = await organization.counters()
    clock.advance(HOUR)
    forgotten = await forget(organization, memory_id, clock)
    clock.advance(HOUR)

    restored = await elsewhere.memories.restore(
        memory_id, actor=ACTOR, indexing=indexing_of([text], tier="instant", identity=QUICK)
    )

    assert restored == replace(before, version=3, updated_at=clock.now())
    assert await get(organization, memory_id) == restored
    history = await organization.memories.history(memory_id)
    assert [version.memory for version in history] == [before, forgotten]
    assert [version.change for version in history] == ["invalidate", "update"]
    assert await count_holders(organization, "orchard") == 1
    assert await nearest(organization, "apple", tier="instant", identity=QUICK) is not None
    now = await organization.counters()
    stored_bytes = counters.stored_bytes  # but for the versions
    assert replace(now, vectors=0, pending=0, stored_bytes=stored_bytes) == counters
    assert await findings(organization) == []


async def test_what_is_not_forgotten_needs_no_restoring(organization: OrganizationStore) -> None:
    memory_id = await note(organization, "text")
    before = await get(organization, memory_id)

    assert await organization.memories.restore(memory_id, actor=ACTOR) == before
    with pytest.raises(NotFoundError):
        await organization.memories.restore(NOWHERE, actor=ACTOR)


async def test_merged_memories_say_so_and_can_be_restored(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    memory_id = await note(organization, "text")

    await organization.memories.forget(
        memory_id, reason=None, change="merge", actor=ACTOR, now=clock.now()
    )

    (version,) = await organization.memories.history(memory_id)
    assert version.change == "merge"
    assert (await organization.memories.restore(memory_id, actor=ACTOR)).is_searched


async def test_forgetting_and_restoring_at_once_leaves_one_of_both(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    memory_id = await note(organization, "to and fro")

    await asyncio.gather(
        *(forget(organization, memory_id, clock) for _ in range(10)),
        *(elsewhere.memories.restore(memory_id, actor=ACTOR) for _ in range(10)),
        *(correct_if_there(elsewhere, memory_id, f"changed {number}") for number in range(10)),
    )

    memory = await get(organization, memory_id)
    assert (await organization.counters()).memories == memory.is_searched
    history = await elsewhere.memories.history(memory_id)
    assert [version.memory.version for version in history] == list(range(1, memory.version))
    assert await findings(organization) == []


async def correct_if_there(
    organization: OrganizationStore, memory_id: MemoryId, content: str
) -> None:
    with_conflict = await asyncio.gather(
        correct(organization, memory_id, content=content), return_exceptions=True
    )
    assert isinstance(with_conflict[0], Memory | ConflictError)


async def test_a_summary_is_no_version(organization: OrganizationStore, clock: FakeClock) -> None:
    (memory_id,) = await remember(organization, "a long text", immutable=True)
    before = await get(organization, memory_id)
    clock.advance(HOUR)

    await organization.memories.set_summary(memory_id, "short", actor=ACTOR)

    assert await get(organization, memory_id) == replace(before, summary="short")
    with pytest.raises(NotFoundError):
        await organization.memories.set_summary(NOWHERE, "short", actor=ACTOR)


async def test_a_summary_goes_with_the_text_it_is_of(organization: OrganizationStore) -> None:
    memory_id = await note(organization, "a long text")
    await organization.memories.set_summary(memory_id, "short", actor=ACTOR)

    assert (await correct(organization, memory_id, importance=0)).summary == "short"
    assert (await correct(organization, memory_id, content="another text")).summary is None
    assert (await organization.memories.history(memory_id))[-1].memory.summary == "short"


@promise("audit")
async def test_the_audit_says_what_was_changed_and_never_the_text(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    memory_id = await note(organization, "secret one")
    await correct(organization, memory_id, content="secret two", importance=0)
    await organization.memories.set_summary(memory_id, "secret three", actor=ACTOR)
    await forget(organization, memory_id, clock, reason="secret four")
    await organization.memories.restore(memory_id, actor=ACTOR)
    await organization.memories.purge(memory_id, actor=ACTOR)

    entries = await organization.list_audit(limit=10, before=None)

    assert [entry.action for entry in reversed(entries)] == [
        "memory_store",
        "memory_correct",
        "memory_summarize",
        "memory_forget",
        "memory_restore",
        "memory_remove",
    ]
    assert {entry.subject for entry in entries} == {memory_id}
    assert entries[-2].details == {"version": 2, "fields": ["content", "importance"]}
    assert "secret" not in str(entries)


def read_records(folder: Path, organization: OrganizationStore) -> list[int]:
    with opened(folder, organization) as connection:
        rows = connection.execute("SELECT record FROM memory ORDER BY number")
        return [record for (record,) in rows]
