"""The contract of counting memories: by project, by type and by weight, forgotten ones apart."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from engram.model.access import OrganizationDraft
from engram.model.memory import MemoryStatus, ProjectSize
from engram.storage.memories.reading import status_statement
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.migrate import load_migrations, migrate
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.storage.drafts import ACTOR, begin
from tests.storage.embedded import DEEP
from tests.storage.memory_drafts import relation, remember

NOTHING = MemoryStatus(
    memories=0,
    forgotten=0,
    chunks=0,
    chunks_pending=0,
    relations=0,
    by_type={},
    by_importance={},
    oldest=None,
    newest=None,
    summaries=0,
)


async def test_an_organisation_without_memories_has_no_projects_and_an_empty_status(
    organization: OrganizationStore,
) -> None:
    await begin(organization, "a conversation is no memory", project="engine")

    assert await organization.memories.projects() == ()
    assert await organization.memories.status(None) == NOTHING
    assert await organization.memories.status("engine") == NOTHING


async def test_projects_come_by_name_with_what_is_searched_in_them(
    store: Store, organization: OrganizationStore, clock: FakeClock
) -> None:
    created = await store.control.create_organization(OrganizationDraft(name="Other"), actor=ACTOR)
    await remember(await store.organization(created.id), "a memory of theirs", project="theirs")
    await remember(organization, "first text", "second text", project="engine")
    forgotten = await remember(organization, "third text", "fourth text", project="brakes")
    for memory_id in forgotten:
        await organization.memories.forget(memory_id, reason=None, actor=ACTOR, now=clock.now())

    assert await organization.memories.projects() == (
        ProjectSize(project="brakes", count=0),
        ProjectSize(project="engine", count=2),
    )


async def test_a_status_counts_the_memories_of_a_project_or_of_all(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    begun = clock.now()
    plain, other = await remember(organization, "first text", "second text", project="engine")
    clock.advance(timedelta(hours=1))
    (error,) = await remember(
        organization, "third text", project="engine", memory_type="error", importance=0
    )
    clock.advance(timedelta(hours=1))
    (far,) = await remember(organization, "fourth text", project="brakes")
    (gone,) = await remember(organization, "fifth text", project="engine", importance=4)
    for memory_id in (other, gone):
        await organization.memories.set_summary(memory_id, "a summary", actor=ACTOR)
    await organization.memories.forget(gone, reason=None, actor=ACTOR, now=clock.now())
    for target in (plain, far, gone):
        await organization.memories.connect(relation(error, target), actor=ACTOR)
    await organization.memories.connect(relation(far, plain), actor=ACTOR)

    assert await organization.memories.status("engine") == MemoryStatus(
        memories=3,
        forgotten=1,
        chunks=3,
        chunks_pending=0,
        relations=3,
        by_type={"context": 2, "error": 1},
        by_importance={0: 1, 2: 2},
        oldest=begun,
        newest=begun + timedelta(hours=1),
        summaries=1,
    )
    whole = await organization.memories.status(None)
    assert (whole.memories, whole.forgotten, whole.chunks, whole.relations) == (4, 1, 4, 4)
    assert whole.newest == clock.now()


async def test_a_status_counts_what_waits_for_deep_vectors(
    organization: OrganizationStore,
) -> None:
    await organization.adopt_embedder(DEEP)
    await begin(organization, "a conversation that waits too", project="engine")
    await remember(organization, "first text", "second text", project="engine")
    await remember(organization, "third text", project="brakes")

    engine, whole = [await organization.memories.status(each) for each in ("engine", None)]

    assert (engine.chunks, engine.chunks_pending) == (2, 2)
    assert (whole.chunks, whole.chunks_pending) == (3, 3)


@pytest.mark.parametrize("name", ["count_by_type", "count_chunks", "count_relations"])
def test_the_status_of_a_project_is_found_by_an_index_and_reads_no_texts(name: str) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, load_migrations("organization"))
        explain = f"EXPLAIN QUERY PLAN {status_statement(name, 'engine')}"
        values = {"organization_id": 1, "project": "engine"}

        plan = [row[3] for row in connection.execute(explain, values)]

    assert any("memory_project (organization_id=? AND project=?)" in step for step in plan)
    assert not any(step.startswith("SCAN") or " message " in step for step in plan)
