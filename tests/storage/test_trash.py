"""The contract of the trash: what is in it is found by nobody, counted by the quota, and comes back as it was."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engram.errors import ConflictError, EngramError, NotFoundError, StoreCorruptError
from engram.model.access import Quota
from engram.model.conversation import ConversationQuery, MessageQuery
from engram.model.ids import ConversationId, MemoryId
from engram.model.memory import Feedback, MemoryChange, MemoryDraft, MemoryQuery
from engram.model.trash import TrashQuery
from engram.storage.organization import OrganizationStore
from engram.storage.rows.database import Connection
from engram.storage.trash.rows import KEPT_TABLES
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage import document_drafts, memory_drafts
from tests.storage.captures import session
from tests.storage.drafts import (
    ACTOR,
    append,
    begin,
    count_holders,
    dump,
    findings,
    opened,
    read,
    read_texts,
    refuse,
)
from tests.storage.embedded import DEEP, OTHER, append_meant, embed_waiting, nearest, reembed
from tests.storage.memory_drafts import relation

pytestmark = promise("trash")

MONTH = timedelta(days=30)

UNLIKE = frozenset(
    ("audit", "audit_name", "due", "upkeep", "vector_removal", "vector_state", "unembedded")
)
"""Tables in which a deletion and its undoing leave a trace, or give other numbers."""


async def trash(organization: OrganizationStore, conversation_id: ConversationId) -> None:
    await organization.trash.trash_conversation(conversation_id, actor=ACTOR, keep=MONTH)


async def trash_memory(organization: OrganizationStore, memory_id: MemoryId) -> None:
    await organization.trash.trash_memory(memory_id, actor=ACTOR, keep=MONTH)


async def restore(organization: OrganizationStore, entry_id: str) -> None:
    await organization.trash.restore(entry_id, actor=ACTOR)


def truth(folder: Path, organization: OrganizationStore) -> Mapping[str, Any]:
    """Return all rows of an organisation that a deletion and its undoing should leave alike."""
    with opened(folder, organization) as connection:
        rows = dump(connection)
        for name in ("vector", "instant_vector"):  # without their place in the log of changes
            kept = KEPT_TABLES[name].columns
            found = connection.execute(f"SELECT {', '.join(kept)} FROM {name}")  # noqa: S608 - names of the schema
            rows[name] = sorted(found.fetchall(), key=repr)
    # The layout of a word index depends on the order of changes; `findings` compares its words.
    own = {name for name in rows if not name.startswith(("message_word", "word_"))} - UNLIKE
    return {name: rows[name] for name in own}


@promise("processes")
async def test_a_conversation_in_the_trash_is_found_by_nobody(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    conversation_id = await append_meant(organization, "apple pie", "pear cake")
    await embed_waiting(organization)
    found = [await nearest(store, "apple pie") for store in (organization, elsewhere)]
    words = [await count_holders(store, "appl") for store in (organization, elsewhere)]

    await trash(organization, conversation_id)

    assert (None not in found, words) == (True, [1, 1])
    for store in (elsewhere, organization):
        assert (await nearest(store, "apple pie"), await count_holders(store, "appl")) == (None, 0)
        assert (await store.list_conversations(ConversationQuery())).total == 0
        for refused in (
            store.get_conversation(MessageQuery(conversation_id=conversation_id)),
            append(store, "more", to=conversation_id),
            store.trash.trash_conversation(conversation_id, actor=ACTOR, keep=MONTH),
        ):
            with pytest.raises(NotFoundError):
                await refused
    counters = await organization.counters()
    assert (counters.messages, counters.vectors, counters.trashed_messages) == (0, 0, 2)
    assert await findings(organization) == []


@promise("processes")
async def test_a_restored_conversation_is_as_it_was_in_every_process(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    conversation_id = await begin(
        organization, "first words", title="Ferry", agent_id="x", tags=("red", "blue")
    )
    await append(organization, "appended once", to=conversation_id, key="once")
    await append_meant(organization, *(f"apple {n}" for n in range(9)), to=conversation_id)
    await embed_waiting(organization, limit=6)
    before, messages = truth(tmp_path, organization), await read(organization, conversation_id)
    near = await nearest(elsewhere, "apple 7")

    await trash(organization, conversation_id)
    gone = await nearest(elsewhere, "apple 7")
    await restore(organization, conversation_id)
    await restore(organization, conversation_id)

    assert truth(tmp_path, organization) == before
    assert (near is not None, gone, await nearest(elsewhere, "apple 7")) == (True, None, near)
    for store in (elsewhere, organization):
        assert await read(store, conversation_id) == messages
        assert await count_holders(store, "appl") == 9
    repeated = await append(elsewhere, "appended once", to=conversation_id, key="once")
    assert (repeated.repeated, repeated.first_sequence) == (True, 2)
    assert await append(organization, "next", to=conversation_id)
    assert await findings(organization) == []


async def test_the_trash_says_what_since_when_by_whom_and_until_when(
    organization: OrganizationStore, other: OrganizationStore, clock: FakeClock
) -> None:
    conversation_id = await begin(organization, "one", "two", title="Ferry", project="harbour")
    stored = await memory_drafts.store(organization, MemoryDraft(content="Ships are\0late."))
    await trash(organization, conversation_id)
    clock.advance(timedelta(hours=1))
    await trash_memory(organization, stored[0].id)

    page = await organization.trash.list(TrashQuery(limit=1))
    rest = await organization.trash.list(TrashQuery(offset=1))
    filtered = await organization.trash.list(TrashQuery(kind="conversation", project="harbour"))

    (memory,), (conversation,) = page.entries, rest.entries
    assert (page.total, page.next_offset, filtered.entries) == (2, 1, (conversation,))
    assert (memory.kind, memory.title, memory.deleted_at) == (
        "memory",
        "Ships are\ufffdlate.",
        clock.now(),
    )
    assert (conversation.title, conversation.messages, conversation.deleted_by) == (
        "Ferry",
        2,
        ACTOR,
    )
    assert conversation.restorable_until == conversation.deleted_at + MONTH
    assert (await other.trash.list(TrashQuery())).total == 0
    with pytest.raises(NotFoundError):
        await other.trash.restore(conversation_id, actor=ACTOR)


async def test_the_quota_counts_the_trash_until_it_is_emptied(
    organization: OrganizationStore,
) -> None:
    conversation_id = await begin(organization, "one", "two", title="a title")
    document = await document_drafts.store(organization, "# Harbour\n\nShips. " * 100)
    used = (await organization.counters()).use
    quota = Quota(messages_max=used.messages, bytes_max=used.stored_bytes)

    await trash(organization, conversation_id)
    await trash_memory(organization, document.memory_id)

    assert (await organization.counters()).use == used
    with pytest.raises(EngramError, match="quota"):
        await append(organization, "three", quota=quota)
    emptied = await organization.trash.empty(actor=ACTOR)
    assert (emptied.removed, emptied.stored_bytes) == (2, used.stored_bytes)
    assert (await organization.counters()).use == (0, 0)
    assert await append(organization, "three", quota=quota)
    assert await findings(organization) == []


async def test_a_restored_memory_has_its_versions_relations_and_feedback(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    episode = await organization.memories.start_episode("default", "work", actor=ACTOR)
    drafts = (
        MemoryDraft(content=f"memory {name}", tags=("t",), episode_id=episode) for name in "abc"
    )
    a, b, c = [each.id for each in await memory_drafts.store(organization, *drafts)]
    for source, target in ((a, b), (b, c), (c, a)):
        await organization.memories.connect(relation(source, target), actor=ACTOR)
    change = MemoryChange(content="memory a, corrected")
    await organization.memories.correct(a, change, actor=ACTOR, quota=Quota())
    said = Feedback(memory_ids=(a, b), helpful=True)
    await organization.memories.record_feedback(said, actor=ACTOR)
    before = truth(tmp_path, organization)

    for memory_id in (a, b):
        await trash_memory(organization, memory_id)
    hidden = await organization.memories.get([a, b, c])
    related = await organization.memories.relations([c], hops=2)
    for memory_id in (a, b):
        await restore(organization, memory_id)

    assert (list(hidden), related) == ([c], ())
    assert truth(tmp_path, organization) == before
    assert [version.memory.content for version in await organization.memories.history(a)] == [
        "memory a"
    ]
    assert await count_holders(organization, "correct") == 1
    assert await findings(organization) == []


async def test_relations_of_two_memories_survive_whichever_is_restored_first(
    organization: OrganizationStore,
) -> None:
    drafts = (MemoryDraft(content=f"memory {name}") for name in "ab")
    a, b = [each.id for each in await memory_drafts.store(organization, *drafts)]
    await organization.memories.connect(relation(a, b), actor=ACTOR)

    for first, second in ((a, b), (b, a)):
        await trash_memory(organization, a)
        await trash_memory(organization, b)
        await restore(organization, first)
        assert await findings(organization) == []
        await restore(organization, second)

        assert len(await organization.memories.relations([a], hops=1)) == 1
        assert await findings(organization) == []


async def test_a_memory_comes_back_without_an_episode_and_relations_that_are_gone(
    organization: OrganizationStore,
) -> None:
    episode = await organization.memories.start_episode("old", "work", actor=ACTOR)
    drafts = [MemoryDraft(content="stays", episode_id=episode), MemoryDraft(content="goes")]
    stays, goes = [each.id for each in await memory_drafts.store(organization, *drafts)]
    await organization.memories.connect(relation(stays, goes), actor=ACTOR)

    await trash_memory(organization, stays)
    await organization.memories.delete_project("old", actor=ACTOR)
    await organization.memories.purge(goes, actor=ACTOR)
    await restore(organization, stays)

    found = (await organization.memories.get([stays]))[stays]
    assert (found.content, found.episode_id) == ("stays", None)
    assert await organization.memories.relations([stays], hops=1) == ()
    assert await findings(organization) == []


async def test_a_forgotten_memory_comes_back_forgotten(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    (stored,) = await memory_drafts.store(organization, MemoryDraft(content="an old address"))
    await organization.memories.forget(stored.id, reason="moved", actor=ACTOR, now=clock.now())

    await trash_memory(organization, stored.id)
    await restore(organization, stored.id)

    found = (await organization.memories.get([stored.id]))[stored.id]
    assert (found.is_searched, found.content, found.reason) == (False, "an old address", "moved")
    assert await findings(organization) == []


async def test_a_document_comes_back_with_its_body_and_is_indexed_again(
    organization: OrganizationStore,
) -> None:
    body = "".join(f"# Part {n}\n\nThe lighthouse keeper wrote line {n}.\n\n" for n in range(400))
    document = await document_drafts.store(organization, body, name="log.md")

    await trash_memory(organization, document.memory_id)
    hidden = await organization.documents.get([document.id])
    words = await count_holders(organization, "lighthous")
    checked = await findings(organization)
    await restore(organization, document.memory_id)
    await document_drafts.index(organization, document.id)

    assert (hidden, words, checked) == ({}, 0, [])
    assert await document_drafts.get(organization, document.id) == document
    assert await document_drafts.read(organization, document.id) == body.encode()
    assert await count_holders(organization, "lighthous") > 0
    assert await findings(organization) == []


async def test_an_immutable_memory_goes_to_the_trash_only_by_force(
    organization: OrganizationStore,
) -> None:
    (stored,) = await memory_drafts.store(organization, MemoryDraft(content="x", immutable=True))

    with pytest.raises(ConflictError):
        await trash_memory(organization, stored.id)
    await organization.trash.trash_memory(stored.id, actor=ACTOR, keep=MONTH, force=True)
    again = await organization.trash.trash_memory(stored.id, actor="other", keep=MONTH)

    assert (again.id, again.deleted_by) == (stored.id, ACTOR)


async def test_a_captured_session_in_the_trash_is_not_captured_again_until_it_is_restored(
    organization: OrganizationStore,
) -> None:
    request = session("a", "b")
    await organization.capture_messages(request, actor=ACTOR, quota=Quota())
    target = (await organization.find_uncaptured(request)).conversation_id

    await trash(organization, target)
    trashed = await organization.find_uncaptured(session("a", "b", "c"))
    await restore(organization, target)
    restored = await organization.find_uncaptured(session("a", "b", "c"))

    assert (trashed.is_forgotten, restored.is_forgotten) == (True, False)
    assert [each.original_id for each in restored.messages] == ["c"]


async def test_a_default_conversation_gives_way_to_the_one_made_meanwhile(
    organization: OrganizationStore,
) -> None:
    first = (await append(organization, "one")).conversation_id
    await trash(organization, first)
    second = (await append(organization, "two")).conversation_id

    await restore(organization, first)

    assert (await append(organization, "three")).conversation_id == second
    assert await read_texts(organization, first) == ["one"]
    assert await findings(organization) == []


async def test_messages_whose_embedder_was_replaced_wait_for_new_vectors(
    organization: OrganizationStore,
) -> None:
    kept = await append_meant(organization, "pear cake")
    conversation_id = await append_meant(organization, "apple pie", to=await begin(organization))
    await embed_waiting(organization)
    await trash(organization, conversation_id)
    await reembed(organization, OTHER)

    restored = await organization.trash.restore(conversation_id, actor=ACTOR)
    await embed_waiting(organization, identity=OTHER)

    assert (restored.pending, kept != conversation_id) == (1, True)
    near = await nearest(organization, "apple pie", identity=OTHER)
    assert near is not None
    assert await nearest(organization, "apple pie", identity=DEEP) is None
    assert await findings(organization) == []


async def test_what_has_expired_is_purged_in_steps_and_a_tombstone_stays_of_a_memory(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    (stored,) = await memory_drafts.store(organization, MemoryDraft(content="old"))
    conversations = [await begin(organization, "text") for _ in range(3)]
    await trash_memory(organization, stored.id)
    for conversation_id in conversations:
        await trash(organization, conversation_id)
        clock.advance(timedelta(days=1))

    early = await organization.trash.purge_expired(actor="system")
    clock.advance(MONTH - timedelta(days=2))
    steps = [
        (await organization.trash.purge_expired(actor="system", limit=2)).removed for _ in range(3)
    ]

    left = await organization.trash.list(TrashQuery())
    assert (early.removed, steps) == (0, [2, 1, 0])
    assert [entry.id for entry in left.entries] == [conversations[-1]]
    tombstone = await organization.memories.purge(stored.id, actor=ACTOR)
    assert tombstone.actor == "system"
    with pytest.raises(NotFoundError):
        await restore(organization, stored.id)
    assert await findings(organization) == []


@promise("durable")
@pytest.mark.parametrize("change", ["DELETE ON trash", "INSERT ON message", "INSERT ON audit"])
async def test_what_fails_in_the_middle_leaves_the_trash_as_it_was(
    organization: OrganizationStore, tmp_path: Path, change: str
) -> None:
    conversation_id = await begin(organization, "one", "two")
    await trash(organization, conversation_id)
    before = truth(tmp_path, organization)
    with opened(tmp_path, organization) as connection:
        refuse(connection, change)

    with pytest.raises(EngramError):
        await restore(organization, conversation_id)
    if "message" not in change:
        with pytest.raises(EngramError):
            await organization.trash.empty(actor=ACTOR)

    assert truth(tmp_path, organization) == before


@promise("verbatim")
@pytest.mark.parametrize(
    "damage",
    ["UPDATE trash_part SET content = sha256", "UPDATE trash SET title = 'x', messages = 1"],
)
async def test_damage_in_the_trash_is_found_and_never_restored(
    organization: OrganizationStore, tmp_path: Path, damage: str
) -> None:
    conversation_id = await begin(organization, "one", "two", title="Ferry")
    await trash(organization, conversation_id)
    with opened(tmp_path, organization) as connection:
        connection.execute(damage)

    with pytest.raises(StoreCorruptError):
        await restore(organization, conversation_id)

    assert "hashes" in {finding.check for finding in await findings(organization)}


async def test_every_column_of_a_table_goes_to_the_trash(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    derived = {
        "document": {"lease_owner", "lease_until", "attempts", "available_at"},
        "vector": {"seq"},
        "instant_vector": {"seq"},
        "unembedded": {"number", "attempts", "available_at", "lease_owner", "lease_until"},
    }
    with opened(tmp_path, organization) as connection:
        for name, table in KEPT_TABLES.items():
            own = columns_of(connection, name) - {"organization_id"} - derived.get(name, set())
            assert set(table.columns) == own, name


def columns_of(connection: Connection, table: str) -> set[str]:
    rows = connection.execute(
        """/*sqlite:*/ SELECT name FROM pragma_table_info(:table)
        /*postgres: SELECT column_name::text FROM information_schema.columns
            WHERE table_schema = 'engram' AND table_name = :table */""",
        {"table": table},
    )
    return {name for (name,) in rows}


async def test_a_list_of_memories_has_nothing_of_the_trash(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    drafts = [MemoryDraft(content=f"memory {n}", project="p") for n in range(3)]
    a, *_ = [each.id for each in await memory_drafts.store(organization, *drafts)]

    await trash_memory(organization, a)

    listed = await organization.memories.list(MemoryQuery(), now=clock.now())
    assert listed.total == 2
    assert [size.count for size in await organization.memories.projects()] == [2]
