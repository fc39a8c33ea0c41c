"""The contract of carrying memories from one store to another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InvalidRequestError, NotFoundError, QuotaExceededError
from engram.model.access import OrganizationDraft, Quota
from engram.model.ids import MemoryId, RelationId
from engram.model.memory import MemoryChange, MemoryDraft
from engram.model.value import replace
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from engram.transfer import memories
from engram.transfer.memories import MemoryRecord
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.document_drafts import store as store_document
from tests.storage.drafts import ACTOR, UNBOUNDED, count_holders, findings, opened
from tests.storage.embedded import QUICK, indexing_of
from tests.storage.memory_drafts import get, memory_drafts, note, relation, remember

Step = Callable[[OrganizationStore, MemoryId, FakeClock], Awaitable[object]]


async def _rewrite(organization: OrganizationStore, memory_id: MemoryId, clock: FakeClock) -> None:
    change = MemoryChange(content=f"rewritten at {clock.now()}")
    await organization.memories.correct(memory_id, change, actor=ACTOR, quota=UNBOUNDED)


async def _retag(organization: OrganizationStore, memory_id: MemoryId, clock: FakeClock) -> None:
    change = MemoryChange(tags=("new",), importance=0)
    await organization.memories.correct(memory_id, change, actor=ACTOR, quota=UNBOUNDED)


async def _forget(organization: OrganizationStore, memory_id: MemoryId, clock: FakeClock) -> None:
    await organization.memories.forget(memory_id, reason="why", actor=ACTOR, now=clock.now())


async def _restore(organization: OrganizationStore, memory_id: MemoryId, clock: FakeClock) -> None:
    await organization.memories.restore(memory_id, actor=ACTOR)


async def _sum_up(organization: OrganizationStore, memory_id: MemoryId, clock: FakeClock) -> None:
    await organization.memories.set_summary(memory_id, "short", actor=ACTOR)


@pytest.fixture
async def other(store: Store) -> OrganizationStore:
    """Return the empty store of another organisation."""
    created = await store.control.create_organization(OrganizationDraft(name="B"), actor="test")
    return await store.organization(created.id)


async def read_all(organization: OrganizationStore) -> list[MemoryRecord]:
    """Return every record, read in pages; ids of relations are those of their organisation."""
    records = list[MemoryRecord]()
    after = None
    while some := await memories.read_records(organization, None, after=after, limit=2):
        after = some[-1].memory.id
        records.extend(some)
    nameless = RelationId("rel_")
    return [
        replace(each, relations=tuple(replace(one, id=nameless) for one in each.relations))
        for each in records
    ]


async def carry(source: OrganizationStore, target: OrganizationStore) -> list[MemoryRecord]:
    """Store all of one organisation in another."""
    records = await read_all(source)
    for episode in await memories.read_episodes(source, None, after=None, limit=100):
        await memories.store_episode(target, episode, actor=ACTOR)
    await memories.store_records(target, records, actor=ACTOR, quota=UNBOUNDED)
    relations = [relation for record in records for relation in record.relations]
    await memories.store_relations(target, relations, actor=ACTOR)
    return records


@promise("verbatim")
@given(
    draft=memory_drafts.map(lambda draft: replace(draft, immutable=False, valid_to=None)),
    steps=st.lists(st.sampled_from([_rewrite, _retag, _forget, _restore, _sum_up]), max_size=6),
)
async def test_any_memory_is_the_same_in_the_other_store(
    store: Store, clock: FakeClock, draft: MemoryDraft, steps: Sequence[Step]
) -> None:
    source, target = [
        await store.organization(
            (await store.control.create_organization(OrganizationDraft(name=name), actor="t")).id
        )
        for name in ("source", "target")
    ]
    (stored,) = await source.memories.store([draft], actor=ACTOR, quota=UNBOUNDED)
    for step in steps:
        clock.advance(timedelta(minutes=1))
        if step in (_rewrite, _retag) and not (await get(source, stored.id)).is_searched:
            step = _restore  # noqa: PLW2901 what is forgotten is not corrected
        await step(source, stored.id, clock)

    records = await carry(source, target)

    assert await read_all(target) == records
    assert [] == await findings(target)
    mine, theirs = await source.counters(), await target.counters()
    assert (mine.memories, mine.messages, mine.content_bytes, mine.chunks) == (
        theirs.memories,
        theirs.messages,
        theirs.content_bytes,
        theirs.chunks,
    )


async def test_episodes_and_relations_come_along(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    episode_id = await organization.memories.start_episode("default", "the move", actor=ACTOR)
    clock.advance(timedelta(hours=1))
    await organization.memories.end_episode(episode_id, summary="done", actor=ACTOR)
    first, second = await remember(organization, "one", "two", episode_id=episode_id)
    await organization.memories.connect(
        relation(second, first, "supersedes", strength=0.25), actor=ACTOR
    )
    clock.advance(timedelta(days=1))

    records = await carry(organization, other)

    assert await read_all(other) == records
    assert records[1].relations[0].strength == 0.25
    brought = await other.memories.get_episode(episode_id)
    assert brought == await organization.memories.get_episode(episode_id)


async def test_a_second_time_nothing_changes(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    first, second = await remember(organization, "one", "two")
    await organization.memories.connect(relation(second, first), actor=ACTOR)
    episode_id = await organization.memories.start_episode("default", "work", actor=ACTOR)
    records = await carry(organization, other)
    await _rewrite(other, first, FakeClock())
    changed = await get(other, first)

    again = await memories.store_records(other, records, actor=ACTOR, quota=UNBOUNDED)

    assert (again.stored, again.present, again.purged) == ((), 2, 0)
    assert await get(other, first) == changed
    assert await memories.store_relations(other, records[1].relations, actor=ACTOR) == 0
    episode = await organization.memories.get_episode(episode_id)
    assert not await memories.store_episode(other, episode, actor=ACTOR)


async def test_what_was_purged_stays_purged(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    (memory_id,) = await remember(organization, "my secret")
    records = await carry(organization, other)
    await other.memories.purge(memory_id, actor=ACTOR)

    again = await memories.store_records(other, records, actor=ACTOR, quota=UNBOUNDED)

    assert (again.stored, again.purged) == ((), 1)
    assert await other.memories.get([memory_id]) == {}


async def test_a_repeated_record_is_stored_once(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    await note(organization, "once")
    (record,) = await read_all(organization)

    outcome = await memories.store_records(other, [record] * 2, actor=ACTOR, quota=UNBOUNDED)

    assert (len(outcome.stored), outcome.present) == (1, 1)


async def test_brought_memories_are_found_by_their_words_and_forgotten_ones_are_not(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    _, gone = await remember(organization, "marmots whistle", "lemmings wander")
    await _forget(organization, gone, clock)

    await carry(organization, other)

    assert await count_holders(other, "marmot") == 1
    assert await count_holders(other, "lem") == 0
    assert (await get(other, gone)).content == "lemmings wander"
    await other.memories.restore(gone, actor=ACTOR)
    assert await count_holders(other, "lem") == 1
    assert [] == await findings(other)


async def test_vectors_go_to_the_memories_that_are_searched(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    gone, _ = await remember(organization, "red", "blue")
    await _forget(organization, gone, clock)
    records = await read_all(organization)
    texts = [record.memory.content for record in records]

    indexing = indexing_of(texts, tier="instant", identity=QUICK)
    await memories.store_records(other, records, actor=ACTOR, quota=UNBOUNDED, indexing=indexing)

    assert (await other.coverage()).messages_instant == 1
    assert [] == await findings(other)


async def test_memories_of_an_unknown_episode_are_refused(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    episode_id = await organization.memories.start_episode("default", "work", actor=ACTOR)
    await remember(organization, "one", episode_id=episode_id)

    with pytest.raises(NotFoundError):
        await memories.store_records(
            other, await read_all(organization), actor=ACTOR, quota=UNBOUNDED
        )
    assert await read_all(other) == []


@promise("quotas")
async def test_the_quota_holds(organization: OrganizationStore, other: OrganizationStore) -> None:
    await remember(organization, "one", "two")

    with pytest.raises(QuotaExceededError):
        await memories.store_records(
            other, await read_all(organization), actor=ACTOR, quota=Quota(messages_max=1)
        )
    assert await read_all(other) == []


async def test_relations_to_what_is_not_here_are_passed_over(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    first, second = await remember(organization, "one", "two")
    await organization.memories.connect(relation(first, second), actor=ACTOR)
    one, two = await read_all(organization)

    await memories.store_records(other, [one], actor=ACTOR, quota=UNBOUNDED)

    assert await memories.store_relations(other, one.relations, actor=ACTOR) == 0
    await memories.store_records(other, [two], actor=ACTOR, quota=UNBOUNDED)
    assert await memories.store_relations(other, one.relations, actor=ACTOR) == 1


async def test_relations_that_would_close_a_circle_are_refused(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    first, second = await remember(organization, "one", "two")
    await organization.memories.connect(relation(first, second, "supersedes"), actor=ACTOR)
    records = await read_all(organization)
    await memories.store_records(other, records, actor=ACTOR, quota=UNBOUNDED)
    await other.memories.connect(relation(second, first, "supersedes"), actor=ACTOR)

    with pytest.raises(InvalidRequestError):
        await memories.store_relations(other, records[0].relations, actor=ACTOR)


async def test_records_of_one_project_come_with_the_episodes_they_name(
    organization: OrganizationStore,
) -> None:
    named = await organization.memories.start_episode("theirs", "named", actor=ACTOR)
    mine = await organization.memories.start_episode("mine", "mine", actor=ACTOR)
    await organization.memories.start_episode("theirs", "other", actor=ACTOR)
    await remember(organization, "one", project="mine", episode_id=named)
    await remember(organization, "two", project="theirs")

    records = await memories.read_records(organization, "mine", after=None, limit=9)
    episodes = await memories.read_episodes(organization, "mine", after=None, limit=9)

    assert [record.memory.content for record in records] == ["one"]
    assert {episode.id for episode in episodes} == {named, mine}


async def test_all_relations_of_a_memory_are_read(organization: OrganizationStore) -> None:
    (hub, *spokes) = await remember(organization, *(f"memory {n}" for n in range(61)))
    for spoke in spokes:
        await organization.memories.connect(relation(hub, spoke), actor=ACTOR)

    (record, *_) = await read_all(organization)

    assert {each.target_id for each in record.relations} == set(spokes)


@promise("verbatim")
async def test_a_damaged_text_is_found_and_the_others_are_proved(
    organization: OrganizationStore, tmp_path: Path, clock: FakeClock
) -> None:
    one, two, three = await remember(organization, "first text", "second text", "third text")
    await _rewrite(organization, three, clock)
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE message SET content = 'changed' WHERE content = 'first text'")
        connection.execute("UPDATE memory_version SET content = 'x' WHERE content = 'third text'")

    proofs = [
        await organization.verify_memories(None, after=after, limit=1) for after in (None, one, two)
    ]
    end = await organization.verify_memories(None, after=three, limit=1)

    assert [proof.corrupt for proof in proofs] == [(one,), (), (three,)]
    assert [proof.last for proof in proofs] == [one, two, three]
    assert (end.checked, end.last) == (0, None)


async def test_what_comes_in_is_audited_without_its_content(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    await note(organization, "my secret")

    await carry(organization, other)

    entries = await other.list_audit(limit=10, before=None)
    assert [entry.action for entry in entries] == ["memory_import"]
    assert "secret" not in str(entries)


async def test_a_document_stays_out_without_its_body(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    document = await store_document(organization, "a body of its own")
    (kept,) = await remember(organization, "a memory beside it")
    records = await memories.read_records(organization, None, after=None, limit=10)

    stored = await memories.store_records(other, records, actor=ACTOR, quota=UNBOUNDED)

    assert (stored.stored, stored.documents) == ((kept,), (document.memory_id,))
    assert await findings(other) == []
