"""The contract of storing memories, and of reading them by id, in pages and one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engram import limits
from engram.errors import NotFoundError, QuotaExceededError, StorageError, StoreCorruptError
from engram.model.access import Quota
from engram.model.conversation import ConversationQuery, MessageQuery
from engram.model.ids import ConversationId, EpisodeId, MemoryId
from engram.model.memory import (
    Memory,
    MemoryDraft,
    MemoryFilters,
    MemoryPage,
    MemoryQuery,
    StoredMemory,
)
from engram.model.search import SearchFilters
from engram.model.vectors import Indexing
from engram.storage.organization import OrganizationStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import (
    ACTOR,
    UNBOUNDED,
    append,
    begin,
    count_holders,
    dump,
    find,
    findings,
    opened,
    refuse,
)
from tests.storage.embedded import QUICK, indexing_of
from tests.storage.memory_drafts import NOWHERE, get, memory_drafts, note, remember, store

SAID = MemoryDraft.__struct_fields__


async def list_all(
    organization: OrganizationStore, now: datetime, filters: MemoryFilters | None = None
) -> list[Memory]:
    query = MemoryQuery(limit=limits.MEMORY_PAGE_MAX, filters=filters or MemoryFilters())
    return list((await organization.memories.list(query, now=now)).memories)


@promise("verbatim")
@given(drafts=st.lists(memory_drafts, min_size=1, max_size=5))
@example(drafts=[MemoryDraft(content="\x00\r\x1b[31m\ufeff\U0001f469\u200d\U0001f680")])
@example(drafts=[MemoryDraft(content="long " * 99_000, pattern_confidence=0.1 + 0.2)])
async def test_every_field_of_a_draft_survives(
    organization: OrganizationStore, clock: FakeClock, drafts: Sequence[MemoryDraft]
) -> None:
    stored = await store(organization, *drafts)

    ids = [one.id for one in stored]
    got = await organization.memories.get(ids)
    listed = {memory.id: memory for memory in await list_all(organization, clock.now())}
    scanned = {one.id: one for one in await organization.memories.scan(None, after=None, limit=500)}
    for memory_id, draft in zip(ids, drafts, strict=True):
        assert got[memory_id] == listed[memory_id] == scanned[memory_id]
        for name in SAID:
            assert getattr(got[memory_id], name) == getattr(draft, name)
    await organization.memories.delete_project(drafts[0].project, actor=ACTOR)
    for memory_id in await organization.memories.get(ids):
        await organization.memories.purge(memory_id, actor=ACTOR, force=True)


async def test_a_new_memory_is_its_first_version(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    memory = await get(organization, await note(organization, "we chose SQLite"))

    assert (memory.version, memory.is_searched, memory.storage_mode) == (1, True, "focused")
    assert memory.created_at == memory.updated_at == clock.now()
    assert (memory.summary, memory.reason, memory.document_id) == (None, None, None)


@promise("findable")
async def test_memories_are_found_by_their_words(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await remember(organization, "a tanuki is a trickster", "a lantern in the orchard")

    for each in (organization, elsewhere):
        assert await count_holders(each, "tanuki") == 1
    assert await findings(organization) == []


async def test_a_batch_is_one_audit_row_that_names_every_memory(
    organization: OrganizationStore,
) -> None:
    one = await note(organization, "a single one")
    ids = await remember(organization, "first", "second")

    batch, single, *_ = await organization.list_audit(limit=10, before=None)
    assert (single.action, single.subject, single.actor) == ("memory_store", one, ACTOR)
    assert (batch.subject, batch.details) == (None, {"memories": ids})
    assert "first" not in str(batch)


async def test_nothing_is_stored_of_an_empty_batch(organization: OrganizationStore) -> None:
    assert await store(organization) == ()
    assert await organization.list_audit(limit=10, before=None) == ()


@promise("durable")
async def test_a_failure_in_the_middle_stores_nothing(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await note(organization, "was there before")
    with opened(tmp_path, organization) as connection:
        refuse(connection, "INSERT ON memory", when="NEW.importance = 4")
        before = dump(connection)

    drafts = [MemoryDraft(content=f"memory {n}", importance=n, tags=("t",)) for n in range(5)]
    with pytest.raises(StorageError):
        await store(organization, *drafts)

    with opened(tmp_path, organization) as connection:
        assert dump(connection) == before
    assert await findings(organization) == []


async def test_an_unknown_episode_is_refused_and_nothing_stored(
    organization: OrganizationStore,
) -> None:
    wrong = MemoryDraft(content="of nowhere", episode_id=EpisodeId("ep_nowhere"))

    with pytest.raises(NotFoundError):
        await store(organization, MemoryDraft(content="fine"), wrong)

    assert (await organization.counters()).memories == 0


async def test_a_memory_belongs_to_its_episode(organization: OrganizationStore) -> None:
    episode = await organization.memories.start_episode("default", "work", actor=ACTOR)

    (memory_id,) = await remember(organization, "learned meanwhile", episode_id=episode)

    assert (await get(organization, memory_id)).episode_id == episode


async def test_quotas_count_memories_as_they_count_messages(
    organization: OrganizationStore,
) -> None:
    await append(organization, "1234567890")
    draft = MemoryDraft(content="1234567890")

    with pytest.raises(QuotaExceededError):
        await store(organization, draft, draft, quota=Quota(messages_max=2))
    with pytest.raises(QuotaExceededError):
        await store(organization, draft, quota=Quota(bytes_max=19))
    await store(organization, draft, quota=Quota(messages_max=2, bytes_max=1_000))

    with pytest.raises(QuotaExceededError):
        await append(organization, "x", quota=Quota(messages_max=2))
    counters = await organization.counters()
    assert (counters.messages, counters.memories, counters.content_bytes) == (2, 1, 20)


async def test_once_answers_a_repeated_text_with_the_memory_that_has_it(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    first = await note(organization, "stored once")

    again = await store(
        elsewhere,
        MemoryDraft(content="stored once"),
        MemoryDraft(content="stored once", category="technical"),
        once=True,
    )
    others = await store(
        organization,
        MemoryDraft(content="stored once", project="other"),
        MemoryDraft(content="Stored once"),
        once=True,
    )

    assert set(again) == {StoredMemory(id=first, is_duplicate=True)}
    assert not any(one.is_duplicate for one in others)
    assert (await organization.counters()).memories == 3


async def test_once_tells_drafts_of_one_call_apart(organization: OrganizationStore) -> None:
    drafts = [MemoryDraft(content=text) for text in ("one text", "another", "one text")]

    first, other, again = await store(organization, *drafts, once=True)

    assert again == StoredMemory(id=first.id, is_duplicate=True)
    assert other.id != first.id
    assert await findings(organization) == []


async def test_without_once_the_same_text_is_stored_again(organization: OrganizationStore) -> None:
    ids = await remember(organization, "twice", "twice")

    assert len(set(ids)) == 2
    assert await count_holders(organization, "twice") == 2


async def test_once_passes_over_what_is_searched_no_more(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    (forgotten,) = await remember(organization, "forgotten text")
    soon = clock.now() + timedelta(hours=1)
    expired, ended = [
        *await remember(organization, "expired text", expires_at=soon),
        *await remember(organization, "ended text", valid_to=soon),
    ]
    await organization.memories.forget(forgotten, reason=None, actor=ACTOR, now=clock.now())
    clock.advance(timedelta(hours=2))

    drafts = [MemoryDraft(content=f"{word} text") for word in ("forgotten", "expired", "ended")]
    stored = await store(organization, *drafts, once=True)

    assert not any(one.is_duplicate for one in stored)
    assert {one.id for one in stored}.isdisjoint({forgotten, expired, ended})


@promise("processes")
async def test_once_holds_between_processes(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    draft = MemoryDraft(content="only one of these")

    answers = await asyncio.gather(
        *(store(each, draft, once=True) for each in (organization, elsewhere) * 10)
    )

    assert len({one.id for (one,) in answers}) == 1
    assert sum(not one.is_duplicate for (one,) in answers) == 1
    assert (await organization.counters()).memories == 1


@promise("processes")
async def test_two_processes_that_store_at_once_lose_nothing(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    async def work(each: OrganizationStore, name: str) -> None:
        for number in range(10):
            await asyncio.gather(
                store(each, *(MemoryDraft(content=f"{name} {number} {n}") for n in range(3))),
                append(each, f"{name} {number}"),
            )

    await asyncio.gather(work(organization, "here"), work(elsewhere, "there"))

    contents = [memory.content for memory in await list_all(organization, clock.now())]
    assert len(contents) == len(set(contents)) == 60
    counters = await elsewhere.counters()
    assert (counters.memories, counters.messages) == (60, 80)
    assert await findings(organization) == []


async def test_vectors_go_to_the_drafts_they_were_made_of(organization: OrganizationStore) -> None:
    texts = ["was there before", "apple and pear", "some other thing"]
    await note(organization, texts[0])

    indexing = indexing_of(texts, tier="instant", identity=QUICK)
    drafts = [MemoryDraft(content=text) for text in texts]
    await organization.memories.store(
        drafts, actor=ACTOR, quota=UNBOUNDED, indexing=indexing, once=True
    )

    coverage = await organization.coverage()
    assert (coverage.messages, coverage.messages_instant) == (3, 2)
    assert (await organization.counters()).pending == 2
    assert await findings(organization) == []


async def test_memories_wait_for_deep_vectors_as_messages_do(
    organization: OrganizationStore,
) -> None:
    await organization.memories.store(
        [MemoryDraft(content="waits")],
        actor=ACTOR,
        quota=UNBOUNDED,
        indexing=Indexing(is_queued=True),
    )

    assert (await organization.counters()).pending == 1


async def test_conversations_know_nothing_of_memories(organization: OrganizationStore) -> None:
    conversation_id = await begin(organization, "said")
    memory_id = ConversationId(await note(organization, "noted", project="default"))

    page = await organization.list_conversations(ConversationQuery())
    of_project = await organization.list_conversations(ConversationQuery(project="default"))

    assert [one.id for one in page.conversations] == [conversation_id]
    assert (page.total, of_project.total) == (1, 1)
    assert (await organization.counters()).conversations == 1
    with pytest.raises(NotFoundError):
        await organization.get_conversation(MessageQuery(conversation_id=memory_id))
    with pytest.raises(NotFoundError):
        await append(organization, "more", to=memory_id)
    with pytest.raises(NotFoundError):
        await organization.delete_conversation(memory_id, actor=ACTOR)
    with pytest.raises(NotFoundError):
        await find(organization, "noted", filters=SearchFilters(conversation_id=memory_id))


async def test_memories_know_nothing_of_conversations(organization: OrganizationStore) -> None:
    conversation_id = MemoryId(await begin(organization, "said"))

    assert await organization.memories.get([conversation_id]) == {}
    with pytest.raises(NotFoundError):
        await organization.memories.scan(None, after=conversation_id, limit=1)
    with pytest.raises(NotFoundError):
        await organization.memories.purge(conversation_id, actor=ACTOR)


async def test_unknown_memories_are_left_out(organization: OrganizationStore) -> None:
    memory_id = await note(organization, "here")

    got = await organization.memories.get([NOWHERE, memory_id, memory_id])

    assert list(got) == [memory_id]


@promise("verbatim")
async def test_a_damaged_text_is_an_error_not_another_text(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    memory_id = await note(organization, "as it was")
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE message SET content = 'as it is'")

    with pytest.raises(StoreCorruptError):
        await get(organization, memory_id)


async def test_lists_are_the_newest_first_in_pages_that_hold_each_once(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    ids = await remember(organization, *(f"memory {number}" for number in range(7)))

    pages: list[MemoryPage] = []
    offset: int | None = 0
    while offset is not None:
        query = MemoryQuery(limit=3, offset=offset)
        pages.append(await organization.memories.list(query, now=clock.now()))
        offset = pages[-1].next_offset

    assert [len(page.memories) for page in pages] == [3, 3, 1]
    assert [one.id for page in pages for one in page.memories] == ids[::-1]
    assert {page.total for page in pages} == {7}


async def test_a_page_of_long_texts_is_cut_and_says_where_it_goes_on(
    organization: OrganizationStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PAGE_CHARACTERS_MAX", 50)
    await remember(organization, *(f"some text {number:02}" for number in range(25)))

    page = await organization.memories.list(MemoryQuery(limit=25), now=clock.now())
    rest = await organization.memories.list(
        MemoryQuery(limit=25, offset=page.next_offset or 0), now=clock.now()
    )

    assert (len(page.memories), page.next_offset, page.total) == (20, 20, 25)
    assert [one.content for one in page.memories + rest.memories] == [
        f"some text {number:02}" for number in reversed(range(25))
    ]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (MemoryFilters(), "abcd"),
        (MemoryFilters(projects=("red",)), "ab"),
        (MemoryFilters(projects=("red", "blue", "none")), "abc"),
        (MemoryFilters(memory_types=("decision", "error")), "ad"),
        (MemoryFilters(categories=("technical",)), "b"),
        (MemoryFilters(sources=("chat",)), "c"),
        (MemoryFilters(tags=("x",)), "ab"),
        (MemoryFilters(tags=("y", "z")), "bc"),
        (MemoryFilters(importance_max=1), "ad"),
        (MemoryFilters(importance_max=0), "d"),
        (MemoryFilters(storage_mode="focused"), "abcd"),
        (MemoryFilters(storage_mode="document"), ""),
        (MemoryFilters(projects=("red",), tags=("y",), categories=("technical",)), "b"),
        (MemoryFilters(projects=("red",), importance_max=0), ""),
    ],
)
async def test_lists_meet_every_filter_and_count_what_meets_it(
    organization: OrganizationStore, clock: FakeClock, filters: MemoryFilters, found: str
) -> None:
    await store(
        organization,
        MemoryDraft(content="a", project="red", tags=("x",), memory_type="decision", importance=1),
        MemoryDraft(content="b", project="red", tags=("x", "y"), category="technical"),
        MemoryDraft(content="c", project="blue", tags=("z",), source="chat"),
        MemoryDraft(content="d", project="green", memory_type="error", importance=0),
    )

    page = await organization.memories.list(MemoryQuery(filters=filters, limit=1), now=clock.now())

    assert page.total == len(found)
    contents = {one.content for one in await list_all(organization, clock.now(), filters)}
    assert contents == set(found)


async def test_lists_filter_by_episode(organization: OrganizationStore, clock: FakeClock) -> None:
    episode = await organization.memories.start_episode("default", "work", actor=ACTOR)
    await remember(organization, "within", episode_id=episode)
    await remember(organization, "without")

    listed = await list_all(organization, clock.now(), MemoryFilters(episode_id=episode))

    assert [one.content for one in listed] == ["within"]


async def test_lists_leave_out_what_is_out_of_its_time_unless_asked(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    now, hour = clock.now(), timedelta(hours=1)
    await store(
        organization,
        MemoryDraft(content="always"),
        MemoryDraft(content="expired", expires_at=now),
        MemoryDraft(content="not yet", valid_from=now + hour),
        MemoryDraft(content="no more", valid_to=now),
        MemoryDraft(content="now", valid_from=now, valid_to=now + hour, expires_at=now + hour),
    )
    forgotten = await note(organization, "forgotten")
    await organization.memories.forget(forgotten, reason=None, actor=ACTOR, now=now)

    in_time = await organization.memories.list(MemoryQuery(), now=now)
    everything = await organization.memories.list(MemoryQuery(validity="any"), now=now)

    out_of_time = await organization.memories.list(MemoryQuery(validity="not_now"), now=now)

    assert [one.content for one in in_time.memories] == ["now", "always"]
    assert (in_time.total, everything.total, len(everything.memories)) == (2, 6, 6)
    gone = ["forgotten", "no more", "not yet", "expired"]
    assert ([one.content for one in out_of_time.memories], out_of_time.total) == (gone, 4)


async def test_a_walk_meets_every_memory_in_the_order_of_storing(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    ids = await remember(organization, *(f"memory {number}" for number in range(7)))
    await remember(organization, "of another project", project="other")
    await organization.memories.forget(ids[2], reason=None, actor=ACTOR, now=clock.now())

    met: list[MemoryId] = []
    while page := await organization.memories.scan(
        "default", after=met[-1] if met else None, limit=3
    ):
        met.extend(one.id for one in page)

    assert met == ids
    assert len(await organization.memories.scan(None, after=None, limit=100)) == 8


@promise("apart")
async def test_another_organisation_sees_nothing(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    memory_id = await note(organization, "private")

    assert await other.memories.get([memory_id]) == {}
    assert await list_all(other, clock.now()) == []
    assert await other.memories.scan(None, after=None, limit=10) == ()
    for attempt in (
        other.memories.scan(None, after=memory_id, limit=10),
        other.memories.purge(memory_id, actor=ACTOR, force=True),
        other.memories.forget(memory_id, reason=None, actor=ACTOR, now=clock.now()),
        other.memories.restore(memory_id, actor=ACTOR),
        other.memories.set_summary(memory_id, "short", actor=ACTOR),
        other.memories.history(memory_id),
    ):
        with pytest.raises(NotFoundError):
            await attempt
    assert await other.memories.delete_project("default", actor=ACTOR) == 0
    assert (await get(organization, memory_id)).content == "private"
