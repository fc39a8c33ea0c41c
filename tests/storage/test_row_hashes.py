"""Changed fields beside the contents: every one is found and named, and none is returned as true."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engram.errors import StoreCorruptError
from engram.model.access import KeyDraft, OrganizationChange, OrganizationDraft
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.ids import ConversationId, MemoryId
from engram.model.memory import Feedback, MemoryChange, MemoryDraft
from engram.storage.bookkeeping.row_hashes import HASHED_TABLES
from engram.storage.control.store import hash_secret
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.statements import statement_files
from tests.storage import document_drafts, memory_drafts
from tests.storage.drafts import ACTOR, UNBOUNDED, append, damage, findings, on_sqlite, opened, read

CHANGES = {
    "the title of a conversation": ("conversation", "title", "title = 'Plums'"),
    "its agent": ("conversation", "agent", "agent_id = 'nobody'"),
    "its project": ("conversation", "project", "project = 'another'"),
    "its metadata": ("conversation", "metadata", "metadata = '{}'"),
    "when it was created": ("conversation", "created", "created_at = created_at - 1"),
    "a role": ("message", "role", "role = 'assistant'"),
    "when it was said": ("message", "occurred", "occurred_at = occurred_at + 1"),
    "when it was stored": ("message", "created", "created_at = created_at + 1"),
    "a name": ("message", "name", "name = 'Mallory'"),
    "a tool call": ("message", "call", "tool_call_id = 'call_2'"),
    "a tool": ("message", "tool", "tool_name = 'rm'"),
    "the metadata of a message": ("message", "metadata", "metadata = '{\"a\":2}'"),
    "the type of a memory": ("memory", "type", "memory_type = 'error'"),
    "the importance of a memory": ("memory", "importance", "importance = 0"),
    "when a memory expires": ("memory", "expiry", "expires_at = 9000000000000000"),
    "the source of a memory": ("memory", "source", "source = 'nobody'"),
    "what a memory may be": ("memory", "immutable", "immutable = 1"),
    "a version's actor": ("memory_version", "actor", "actor = 'nobody'"),
    "a version's fields": ("memory_version", "fields", "fields = '{}'"),
    "when a version ended": ("memory_version", "end", "ended_at = ended_at + 1"),
    "the strength of a relation": ("relation", "strength", "strength = 0.25"),
    "a vote": ("feedback", "helpful", "helpful = 0"),
    "the end of an episode": ("episode", "end", "ended_at = 1"),
    "who removed a memory": ("tombstone", "actor", "actor = 'nobody'"),
    "the name of a document": ("document", "name", "name = 'other.txt'"),
    "the size of a document": ("document", "type", "media_type = 'text/html'"),
}
"""What is changed: the table, the field, and how."""

SAID_AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def furnished(organization: OrganizationStore) -> OrganizationStore:
    """Return a store with a row of every hashed table, of which some were changed since."""
    await converse(organization)
    first, second, third = await memory_drafts.remember(
        organization, "apples are red", "pears are green", "plums are blue"
    )
    await memory_drafts.correct(organization, first, content="apples are yellow")
    await relate(organization, first, second)
    await organization.memories.record_feedback(
        Feedback(memory_ids=(first,), helpful=True, event_id="e1"), actor=ACTOR
    )
    episode = await organization.memories.start_episode("default", "a day's work", actor=ACTOR)
    await organization.memories.end_episode(episode, summary="done", actor=ACTOR)
    await organization.memories.purge(third, actor=ACTOR)
    await document_drafts.store(organization, "# Fruit\n\nApples.", name="fruit.md")
    return organization


async def converse(organization: OrganizationStore) -> ConversationId:
    """Store a conversation with every field, and a message with every field."""
    draft = ConversationDraft(
        title="Apples", agent_id="agent", project="fruit", tags=("red", "ripe"), metadata={"a": [1]}
    )
    conversation_id = await organization.create_conversation(draft, actor=ACTOR)
    message = MessageDraft(
        role="tool",
        content="seven apples",
        name="basket",
        tool_call_id="call_1",
        tool_name="count",
        occurred_at=SAID_AT,
        metadata={"a": 1},
    )
    request = AppendRequest(conversation_id=conversation_id, messages=(message,))
    await organization.append_messages(request, actor=ACTOR, quota=UNBOUNDED)
    return conversation_id


async def relate(organization: OrganizationStore, source: MemoryId, target: MemoryId) -> None:
    """Relate two memories, twice: the second time changes the strength."""
    for strength in (0.5, 1):
        draft = memory_drafts.relation(source, target, strength=strength)
        await organization.memories.connect(draft, actor=ACTOR)


async def test_rows_that_were_stored_and_changed_in_every_way_are_as_they_should_be(
    furnished: OrganizationStore,
) -> None:
    assert await findings(furnished) == []
    assert await furnished.scrubbing.count_unhashed() == 0


@pytest.mark.parametrize("kind", CHANGES)
async def test_a_changed_field_is_found_and_its_row_named(
    furnished: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    table, _, change = CHANGES[kind]
    damage(tmp_path, furnished, f"UPDATE {table} SET {change}")  # noqa: S608 - of this module

    found = [each for each in await findings(furnished) if each.check == "hashes"]

    assert found
    assert not any(each.repairable for each in found)
    assert all(f"{table} " in each.message for each in found)


async def test_a_changed_tag_of_a_conversation_is_found(
    furnished: OrganizationStore, tmp_path: Path
) -> None:
    statement = "UPDATE conversation_tag SET tag = 'ruin' WHERE tag = 'ripe'"
    damage(tmp_path, furnished, statement)

    (found,) = await findings(furnished)

    assert (found.check, found.repairable) == ("hashes", False)
    assert "conversation " in found.message


@on_sqlite
async def test_a_field_that_is_no_text_any_more_is_found(
    furnished: OrganizationStore, tmp_path: Path
) -> None:
    damage(tmp_path, furnished, "UPDATE message SET tool_name = CAST(x'ff' AS TEXT)")

    assert "hashes" in {each.check for each in await findings(furnished)}


@pytest.mark.parametrize("change", ["title = 'Plums'", "project = 'another'", "is_default = 1"])
async def test_a_changed_conversation_is_not_returned_as_true(
    organization: OrganizationStore, tmp_path: Path, change: str
) -> None:
    conversation_id = await converse(organization)
    damage(tmp_path, organization, f"UPDATE conversation SET {change}")  # noqa: S608 - of this module

    with pytest.raises(StoreCorruptError, match=conversation_id):
        await read(organization, conversation_id)


@pytest.mark.parametrize("change", ["name = 'Mallory'", "tool_call_id = 'x'", "role = 'user'"])
async def test_a_changed_message_is_not_returned_as_true(
    organization: OrganizationStore, tmp_path: Path, change: str
) -> None:
    conversation_id = await converse(organization)
    damage(tmp_path, organization, f"UPDATE message SET {change}")  # noqa: S608 - of this module

    with pytest.raises(StoreCorruptError, match="message 1"):
        await read(organization, conversation_id)


async def test_a_changed_memory_is_neither_returned_nor_changed_further(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    memory_id = await memory_drafts.note(organization, "apples are red")
    damage(tmp_path, organization, "UPDATE memory SET source = 'nobody'")

    with pytest.raises(StoreCorruptError, match=memory_id):
        await memory_drafts.get(organization, memory_id)
    with pytest.raises(StoreCorruptError, match=memory_id):
        await organization.memories.set_summary(memory_id, "red", actor=ACTOR)


async def test_a_message_that_was_moved_to_another_conversation_is_found(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    first = await converse(organization)
    await append(organization, "one more", to=first)
    second = await converse(organization)
    damage(
        tmp_path, organization, "UPDATE message SET key = (2 << 24) + 2 WHERE key = (1 << 24) + 2"
    )
    damage(tmp_path, organization, "UPDATE conversation SET message_count = number")

    found = {each.message for each in await findings(organization) if each.check == "hashes"}

    assert any(f"message 2 of {second}" in each for each in found)


async def test_rows_of_an_older_version_are_hashed_once_and_proved_from_then_on(
    furnished: OrganizationStore, tmp_path: Path
) -> None:
    for table in ("conversation", "message", "memory", "memory_version", "relation", "document"):
        damage(tmp_path, furnished, f"UPDATE {table} SET row_hash = NULL")  # noqa: S608 - names of tables
    assert await findings(furnished) == []

    unhashed = await furnished.scrubbing.count_unhashed()
    assert unhashed > 0
    assert await furnished.scrubbing.hash_rows() == unhashed
    assert await furnished.scrubbing.hash_rows() == 0

    assert await findings(furnished) == []
    damage(tmp_path, furnished, "UPDATE message SET name = 'Mallory'")
    assert "hashes" in {each.check for each in await findings(furnished)}


async def test_a_row_without_a_hash_can_be_read_and_changed(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    memory_id = await memory_drafts.note(organization, "apples are red")
    damage(tmp_path, organization, "UPDATE memory SET row_hash = NULL")

    changed = await organization.memories.correct(
        memory_id, MemoryChange(importance=0), actor=ACTOR, quota=UNBOUNDED
    )

    assert changed.importance == 0
    assert await findings(organization) == []


async def test_equal_rows_of_two_organisations_have_different_hashes(
    organization: OrganizationStore, other: OrganizationStore, tmp_path: Path
) -> None:
    hashes = set[bytes]()
    for each in (organization, other):
        await memory_drafts.store(each, MemoryDraft(content="apples are red"))
        with opened(tmp_path, each) as connection:
            ((row_hash,),) = connection.execute("SELECT row_hash FROM message").fetchall()
        hashes.add(row_hash)

    assert len(hashes) == 2


CONTROL_CHANGES = {
    "a scope": ("api_key ", "UPDATE api_key SET scopes = 'admin'"),
    "an expiry": ("api_key ", "UPDATE api_key SET expires_at = 9000000000000000"),
    "a revocation": ("api_key ", "UPDATE api_key SET revoked_at = NULL"),
    "a quota": ("organization ", "UPDATE organization SET bytes_max = NULL"),
}


@on_sqlite
@pytest.mark.parametrize("kind", CONTROL_CHANGES)
async def test_a_key_or_quota_that_was_changed_is_refused_and_named(
    store: Store, tmp_path: Path, kind: str
) -> None:
    named, change = CONTROL_CHANGES[kind]
    draft = OrganizationDraft(name="Acme", bytes_max=1_000_000)
    organization = await store.control.create_organization(draft, actor=ACTOR)
    new = await store.control.create_key(organization.id, KeyDraft(name="k"), actor=ACTOR)
    await store.control.revoke_key(organization.id, new.key.id, actor=ACTOR)
    assert await store.control.verify() == ()
    with closing(sqlite3.connect(tmp_path / "store" / "engram.db")) as control, control:
        control.execute(change)

    (found,) = await store.control.verify()

    assert found.message.startswith(named)
    assert (found.check, found.organization_id) == ("hashes", organization.id)
    with pytest.raises(StoreCorruptError):
        await store.control.find_key(hash_secret(new.secret))


async def test_keys_that_were_rotated_and_organisations_that_were_changed_match(
    store: Store, clock: FakeClock
) -> None:
    draft = OrganizationDraft(name="Acme")
    organization = await store.control.create_organization(draft, actor=ACTOR)
    change = OrganizationChange(bytes_max=5)
    await store.control.change_organization(organization.id, change, actor=ACTOR)
    new = await store.control.create_key(
        organization.id, KeyDraft(name="k", scopes=("read",)), actor=ACTOR
    )
    await store.control.rotate_key(
        organization.id, new.key.id, overlap=timedelta(hours=1), actor=ACTOR
    )
    await store.control.touch_keys({new.key.id: clock.now()})
    await store.control.revoke_key(organization.id, new.key.id, actor=ACTOR)
    await store.control.restore_key(
        organization.id, new.key.id, within=timedelta(hours=1), actor=ACTOR
    )

    assert await store.control.verify() == ()
    assert await store.control.count_unhashed() == 0


RENEWED = {
    "put_record",
    "change_memory",
    "set_searched",
    "put_summary",
    "leave_episode",
    "put_memory_hash",
    "put_version_hashes",
    "change_relation",
    "change_feedback",
    "extend_episode",
    "end_episode",
    "finish_upload",
    "put_bytes",
    "grow_entry",
    "change_conversation",
    "hide_conversation",
    "blank_message",
    "change_erasure",
    "move_memory",
    "move_episode",
    # Rows that have no hash: an upload that is not finished, and the record of a memory.
    "add_part",
    "repair_project",
    "move_record",
}
"""Statements that change a hashed column, in a block that hashes the row again."""


def test_every_statement_that_changes_a_hashed_column_is_known_to_have_its_row_hashed_again() -> (
    None
):
    hashed = {table.name: set(table.columns) for table in HASHED_TABLES}
    change = re.compile(r"UPDATE\s+(\w+)\s+SET\s+(.*?)(?:\bWHERE\b|\bFROM\b|$)", re.DOTALL)

    found = set[str]()
    for _, named in statement_files():
        for name, statement in named.items():
            for table, changed in change.findall(re.sub(r"--.*", "", statement)):
                columns = set(re.findall(r"(?:^|,)\s*(\w+)\s*=", changed))
                if columns & hashed.get(table, set()):
                    found.add(name)

    assert found == RENEWED
