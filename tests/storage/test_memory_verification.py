"""Memories in `verify` and `repair`: silent after any history, loud after any damage."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from engram.clock import RandomIds
from engram.model.access import OrganizationDraft
from engram.model.ids import MemoryId
from engram.model.memory import (
    Feedback,
    Memory,
    MemoryChange,
    MemoryDraft,
    MemoryFilters,
    MemoryQuery,
    RelationDraft,
)
from engram.model.value import replace
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from engram.storage.words import rebuild
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import (
    ACTOR,
    UNBOUNDED,
    append,
    begin,
    count_holders,
    damage,
    findings,
    on_sqlite,
)
from tests.storage.embedded import QUICK, embed_waiting, indexing_of
from tests.storage.memory_drafts import get, memory_drafts, note, remember

pytestmark = promise("one-truth")

T = TypeVar("T")
LONG = "a text long enough to be worth compressing, " * 10

MENDED = {
    "the counter of memories": ("counters", "UPDATE counters SET memories = memories + 1"),
    "the bytes of a version": (
        "counters",
        "UPDATE memory_version SET content_bytes = 1 WHERE content IS NOT NULL",
    ),
    "the bytes of a record": (
        "counters",
        "UPDATE conversation SET content_bytes = 7 WHERE number >> 32 = 1",
    ),
    "the length of a record": (
        "counters",
        "UPDATE message SET characters = 1 WHERE key >> 56 = 1",
    ),
    "no messages in a record": (
        "sequences",
        "UPDATE conversation SET message_count = 0 WHERE number >> 32 = 1",
    ),
    "the project of a record": (
        "memories",
        "UPDATE conversation SET project = 'wrong' WHERE number >> 32 = 1",
    ),
    "no tags of a record": ("memories", "DELETE FROM conversation_tag"),
    "another order of tags": (
        "memories",
        "UPDATE conversation_tag SET position = 9 WHERE position = 0",
    ),
    "the windows of records": ("counters", "UPDATE counters SET chunks = chunks - 1"),
    "the words of windows": ("words", "UPDATE upkeep SET window_words = window_words - 1"),
    "no words": (
        "words",
        """/*sqlite:*/ INSERT INTO message_words (message_words) VALUES ('delete-all')
        /*postgres: DELETE FROM word_tail */""",
    ),
    "conversations that would be numbered again": (
        "jobs",
        "UPDATE upkeep SET last_conversation = 0",
    ),
    "memories that would be numbered again": ("jobs", "UPDATE upkeep SET last_memory = 1"),
    "no state of upkeep": ("jobs", "DELETE FROM upkeep"),
}

LOST = {
    "a changed text": (
        "hashes",
        "UPDATE message SET content = 'changed' WHERE key >> 56 = 1 AND characters < 20",
    ),
    "a changed text of a version": (
        "memories",
        "UPDATE memory_version SET content = 'changed' WHERE content_encoding = 'raw'",
    ),
    "a changed hash of a version": ("memories", "UPDATE memory_version SET sha256 = zeroblob(32)"),
    "an unknown encoding of a version": (
        "memories",
        "UPDATE memory_version SET content_encoding = 'rot13' WHERE content IS NOT NULL",
    ),
    "a changed hash of a memory": ("memories", "UPDATE memory SET sha256 = zeroblob(32)"),
    "a version without its text": (
        "memories",
        "UPDATE memory_version SET content = NULL, content_encoding = NULL, content_bytes = 0",
    ),
    "a version without its fields": ("memories", "UPDATE memory_version SET fields = ''"),
    "a lost version": ("memories", "DELETE FROM memory_version WHERE version = 1"),
    "a version too many": (
        "memories",
        "UPDATE memory_version SET version = version + 7 WHERE version = 1",
    ),
    "a text that is another's": (
        "memories",
        "UPDATE conversation SET id = 'mem_other' WHERE number = 4294967297",
    ),
    "a text that is a conversation's": (
        "memories",
        "UPDATE memory SET record = 1 WHERE number = 1",
    ),
    "another moment": ("memories", "UPDATE message SET occurred_at = 7 WHERE key >> 56 = 1"),
    "a memory that is lost": (
        "memories",
        "DELETE FROM memory WHERE number = 1",
    ),
    "a memory out of the search whose text is there": (
        "memories",
        "UPDATE memory SET record = NULL WHERE number = 1",
    ),
    "a second text": (
        "memories",
        """INSERT INTO message (key, organization_id, role, characters, occurred_at, created_at, name,
        tool_call_id, tool_name, content_encoding, sha256, metadata, content)
        SELECT key + 1, organization_id, role, characters, occurred_at,
        created_at, name, tool_call_id, tool_name, content_encoding, sha256, metadata, content
        FROM message WHERE key = 72057594054705153""",
    ),
    "a lost text": ("memories", "DELETE FROM message WHERE key >> 56 = 1"),
    "a lost record": ("sequences", "DELETE FROM conversation WHERE number >> 32 = 1"),
    "a memory that was removed": (
        "memories",
        """INSERT INTO tombstone (id, organization_id, sha256, removed_at, actor)
        SELECT id, 1, zeroblob(32), 1, 'x' FROM memory WHERE number = 1""",
    ),
}

LOST_IN_A_FILE = {
    "an unknown type": "UPDATE memory SET memory_type = 'rumour'",
    "an importance of five": "UPDATE memory SET importance = 5",
    "a relation of nothing": "INSERT INTO relation VALUES (1, 99, 'supports', 1, 1.0, 1, NULL)",
    **{
        f"a row of another organisation in {table}": (
            f"UPDATE {table} SET organization_id = 99"  # noqa: S608 - fixed names
        )
        for table in ("episode", "memory", "memory_version", "relation", "feedback", "tombstone")
    },
}
"""PostgreSQL lets nobody do such damage."""


@pytest.fixture
async def filled(organization: OrganizationStore, clock: FakeClock) -> list[MemoryId]:
    """Fill the store with what memories can leave behind, beside a conversation."""
    await begin(organization, *[f"apple {n}" for n in range(7)])
    episode = await organization.memories.start_episode("default", "work", actor=ACTOR)
    ids = [
        *await remember(organization, "a short text", tags=("b", "a"), episode_id=episode),
        *await remember(organization, LONG, "forgotten", "removed", "corrected", tags=("c",)),
    ]
    _, long, forgotten, removed, corrected = ids
    memories = organization.memories
    for change in (MemoryChange(content="other"), MemoryChange(importance=0)):
        for memory_id in (long, corrected):
            await memories.correct(memory_id, change, actor=ACTOR, quota=UNBOUNDED)
    await memories.forget(forgotten, reason="stale", actor=ACTOR, now=clock.now())
    await memories.purge(removed, actor=ACTOR)
    await connect(organization, ids[0], long)
    return ids


async def connect(organization: OrganizationStore, source: MemoryId, target: MemoryId) -> None:
    """Relate two memories and say that one helped."""
    draft = RelationDraft(source_id=source, target_id=target)
    await organization.memories.connect(draft, actor=ACTOR)
    await organization.memories.record_feedback(Feedback(memory_ids=(source,)), actor=ACTOR)


@pytest.mark.usefixtures("filled")
async def test_sound_memories_give_no_findings(organization: OrganizationStore) -> None:
    assert await findings(organization) == []
    assert await organization.repair() == 0


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("kind", MENDED)
async def test_damage_to_what_is_derived_of_memories_is_found_and_mended(
    organization: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    check, statement = MENDED[kind]
    damage(tmp_path, organization, statement)

    found = await findings(organization)
    assert check in {finding.check for finding in found}
    assert all(finding.repairable for finding in found)

    assert await organization.repair() == len(found)
    assert await findings(organization) == []
    assert await count_holders(organization, "short") == 1


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("kind", LOST)
async def test_what_is_lost_of_memories_is_found_and_left_to_a_person(
    organization: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    check, statement = LOST[kind]
    damage(tmp_path, organization, statement)

    found = await findings(organization)
    assert check in {finding.check for finding in found if not finding.repairable}

    await organization.repair()
    left = {finding.check for finding in await findings(organization)}
    assert check in left


@on_sqlite
@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("kind", LOST_IN_A_FILE)
async def test_what_has_no_place_in_a_file_is_found_and_left_to_a_person(
    organization: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    damage(tmp_path, organization, LOST_IN_A_FILE[kind])

    found = await findings(organization)
    assert "file" in {finding.check for finding in found if not finding.repairable}

    await organization.repair()
    assert "file" in {finding.check for finding in await findings(organization)}


async def test_a_number_is_not_given_again_after_the_state_was_lost(
    organization: OrganizationStore, filled: list[MemoryId], tmp_path: Path
) -> None:
    damage(tmp_path, organization, "DELETE FROM upkeep")
    await organization.repair()

    await begin(organization, "a new conversation")
    new = await note(organization, "a new memory")

    assert (await get(organization, new)).content == "a new memory"
    assert (await get(organization, filled[0])).content == "a short text"
    assert await findings(organization) == []


@pytest.mark.usefixtures("filled")
async def test_memories_are_indexed_anew_beside_conversations(
    organization: OrganizationStore,
) -> None:
    assert await organization.reindex() == 7 + 3
    coverage = await organization.coverage()
    assert coverage.messages == coverage.messages_indexed == 10
    assert await count_holders(organization, "short") == 1
    assert await findings(organization) == []


@pytest.mark.usefixtures("filled")
async def test_writers_and_a_rebuild_keep_each_other_company(
    organization: OrganizationStore,
    elsewhere: OrganizationStore,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rebuild, "BATCH_MESSAGES", 2)
    ids = await remember(organization, *(f"tanuki {number}" for number in range(12)))

    async def change(number: int) -> None:
        memories = elsewhere.memories
        change = MemoryChange(content=f"lantern {number}")
        await memories.correct(ids[number], change, actor=ACTOR, quota=UNBOUNDED)
        await memories.forget(ids[number + 4], reason=None, actor=ACTOR, now=clock.now())
        await memories.purge(ids[number + 8], actor=ACTOR)
        await note(elsewhere, f"orchard {number}")
        await begin(elsewhere, "a new conversation", "of the orchard")

    await asyncio.gather(organization.reindex(), *map(change, range(4)))

    assert await count_holders(organization, "tanuki") == 0
    assert await count_holders(organization, "lantern") == 4
    assert await count_holders(organization, "orchard", limit=20) == 8
    assert await findings(organization) == []


@promise("encodings")
async def test_old_encodings_of_memories_are_brought_to_the_present_one(
    organization: OrganizationStore, tmp_path: Path, clock: FakeClock
) -> None:
    old, forgotten = await remember(organization, "an old text", "another old text")
    damage(tmp_path, organization, "UPDATE message SET content_encoding = NULL")

    await organization.memories.forget(forgotten, reason=None, actor=ACTOR, now=clock.now())
    report = await organization.compress_backfill(batch_size=10)

    assert (report.processed, report.remaining) == (1, 0)
    assert (await get(organization, old)).content == "an old text"
    assert (await get(organization, forgotten)).content == "another old text"
    assert await findings(organization) == []


async def test_a_dictionary_serves_memories_and_their_versions(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    texts = [f"the same words in every text, and the number {number} " * 8 for number in range(400)]
    for start in range(0, 400, 100):
        await remember(organization, *texts[start : start + 100])
    assert await organization.train_dictionary()
    (memory_id,) = await remember(organization, texts[7])

    await organization.memories.forget(memory_id, reason=None, actor=ACTOR, now=clock.now())

    assert (await get(elsewhere, memory_id)).content == texts[7]
    assert await findings(elsewhere) == []


class Histories(RuleBasedStateMachine):
    """Random histories of memories: what is read is what was stored, and nothing is wrong."""

    living = Bundle[MemoryId]("living")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.clock = FakeClock()
        self.processes: list[OrganizationStore] = []
        self.known: dict[MemoryId, Memory] = {}
        self.versions: dict[MemoryId, list[Memory]] = {}

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self.runner.run(wait())

    @initialize()
    def open(self) -> None:
        home = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        stores = [SqliteStore(home, clock=self.clock, ids=RandomIds()) for _ in range(2)]
        for store in stores:
            self.run(store.open())
            self.stack.push_async_callback(store.close)
        draft = OrganizationDraft(name="one")
        created = self.run(stores[0].control.create_organization(draft, actor=ACTOR))
        self.processes = [self.run(store.organization(created.id)) for store in stores]

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()

    @rule(target=living, draft=memory_drafts, process=st.integers(0, 1))
    def store(self, draft: MemoryDraft, process: int) -> MemoryId:
        self.clock.advance(timedelta(seconds=1))
        draft = replace(draft, immutable=False)
        organization = self.processes[process]
        (stored,) = self.run(
            organization.memories.store(
                [draft],
                actor=ACTOR,
                quota=UNBOUNDED,
                indexing=indexing_of([draft.content], tier="instant", identity=QUICK),
            )
        )
        self.known[stored.id] = self.run(get(organization, stored.id))
        self.versions[stored.id] = []
        assert self.known[stored.id].content == draft.content
        return stored.id

    @rule(memory_id=living, draft=memory_drafts, parts=st.sets(st.integers(0, 3), min_size=1))
    def correct(self, memory_id: MemoryId, draft: MemoryDraft, parts: set[int]) -> None:
        before = self.known[memory_id]
        if not before.is_searched:
            return
        self.clock.advance(timedelta(seconds=1))
        offered = [
            {"content": draft.content},
            {"tags": draft.tags},
            {"importance": draft.importance},
            {"valid_from": draft.valid_from} if before.valid_to is None else {"importance": 4},
        ]
        given = {name: value for part in parts for name, value in offered[part].items()}
        if not any(value is not None for value in given.values()):
            return
        after = self.run(
            self.processes[0].memories.correct(
                memory_id,
                MemoryChange(**given),  # pyright: ignore[reportArgumentType] - the fields of a change
                actor=ACTOR,
                quota=UNBOUNDED,
            )
        )
        self.note(memory_id, after)

    def note(self, memory_id: MemoryId, after: Memory) -> None:
        if after != self.known[memory_id]:
            self.versions[memory_id].append(self.known[memory_id])
            self.known[memory_id] = after

    @rule(memory_id=living, process=st.integers(0, 1))
    def forget(self, memory_id: MemoryId, process: int) -> None:
        self.clock.advance(timedelta(seconds=1))
        memories = self.processes[process].memories
        after = self.run(
            memories.forget(memory_id, reason="stale", actor=ACTOR, now=self.clock.now())
        )
        assert not after.is_searched
        self.note(memory_id, after)

    @rule(memory_id=living, process=st.integers(0, 1))
    def restore(self, memory_id: MemoryId, process: int) -> None:
        self.clock.advance(timedelta(seconds=1))
        after = self.run(self.processes[process].memories.restore(memory_id, actor=ACTOR))
        assert after.is_searched
        self.note(memory_id, after)

    @rule(memory_id=consumes(living), process=st.integers(0, 1))
    def purge(self, memory_id: MemoryId, process: int) -> None:
        self.run(self.processes[process].memories.purge(memory_id, actor=ACTOR))
        del self.known[memory_id], self.versions[memory_id]

    @rule(process=st.integers(0, 1))
    def talk(self, process: int) -> None:
        self.run(append(self.processes[process], "a conversation beside"))

    @rule()
    def embed(self) -> None:
        self.run(embed_waiting(self.processes[0]))

    @rule(memory_id=living)
    def look_back(self, memory_id: MemoryId) -> None:
        history = self.run(self.processes[1].memories.history(memory_id))
        assert [version.memory for version in history] == self.versions[memory_id]

    @invariant()
    def every_process_reads_what_was_stored(self) -> None:
        for each in self.processes:
            assert self.run(each.memories.get([*self.known])) == self.known
        query = MemoryQuery(limit=500, filters=MemoryFilters(), validity="any")
        if self.processes:
            page = self.run(self.processes[1].memories.list(query, now=self.clock.now()))
            assert {one.id for one in page.memories} == set(self.known)

    @invariant()
    def nothing_is_wrong(self) -> None:
        if self.processes:
            assert self.run(findings(self.processes[0])) == []


Histories.TestCase.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
TestHistories = Histories.TestCase
