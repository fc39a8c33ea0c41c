"""Damage done by hand to an SQLite file: each kind is found, and what is derived is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.errors import StoreCorruptError
from engram.model.conversation import MessageQuery
from engram.model.ids import ConversationId
from engram.storage.checks import verification
from engram.storage.organization import OrganizationStore
from tests.promises import promise
from tests.storage.drafts import (
    ACTOR,
    append,
    begin,
    count_holders,
    damage,
    findings,
    on_sqlite,
    opened_file,
    read_texts,
)

pytestmark = promise("one-truth")

LONG = "a text long enough to be worth compressing, " * 10

MENDED = {
    "a counter": ("counters", "UPDATE counters SET messages = messages + 1"),
    "the bytes in the counters": ("counters", "UPDATE counters SET content_bytes = 0"),
    "the chunks in the counters": ("counters", "UPDATE counters SET chunks = -5"),
    "all counters": ("counters", "DELETE FROM counters"),
    "the length of a message": ("counters", "UPDATE message SET characters = 1"),
    "the bytes of a conversation": (
        "counters",
        "UPDATE conversation SET content_bytes = content_bytes + 7",
    ),
    "the length of a conversation": (
        "sequences",
        "UPDATE conversation SET message_count = 3 WHERE number = 1",
    ),
    "the length of an empty conversation": (
        "sequences",
        "UPDATE conversation SET message_count = 3 WHERE number = 3",
    ),
    "the words of windows": ("words", "UPDATE upkeep SET window_words = window_words + 1"),
    "an unindexed message": (
        "words",
        """/*sqlite:*/ INSERT INTO message_words (message_words, rowid, words, stops)
        VALUES ('delete', (2 << 12) + 1, 'pear', '')
        /*postgres: DELETE FROM word_length WHERE page = 2 << 18 */""",
    ),
    "a message indexed that is none": (
        "words",
        """/*sqlite:*/
        INSERT INTO message_words (rowid, words, stops) VALUES ((2 << 12) + 9, 'pear', '')
        /*postgres: INSERT INTO word_length VALUES (1, 0, (2 << 18) + 9, '\\x010100000000000000') */""",
    ),
    "a message indexed that is before all": (
        "words",
        """/*sqlite:*/ INSERT INTO message_words (rowid, words, stops) VALUES (1, 'pear', '')
        /*postgres: INSERT INTO word_length VALUES (1, 0, 0, '\\x010100000000000000') */""",
    ),
    "a stop word that tells something": (
        "words",
        """/*sqlite:*/ INSERT INTO message_words (rowid, words, stops) VALUES (1, '', 'pear')
        /*postgres: UPDATE word_length SET content =
            set_byte(set_byte(content, 1, get_byte(content, 1) - 1), 5, get_byte(content, 5) + 1) */""",
    ),
    "no words of messages": (
        "words",
        """/*sqlite:*/ INSERT INTO message_words (message_words) VALUES ('delete-all')
        /*postgres: DELETE FROM word_tail */""",
    ),
    "a size in the word index": (
        "words",
        """/*sqlite:*/ UPDATE message_words_docsize SET sz = x'63'
        /*postgres: UPDATE word_length SET content = set_byte(content, 1, 99) */""",
    ),
    "a row without words": (
        "words",
        """/*sqlite:*/ DELETE FROM message_words_docsize WHERE id = (2 << 12) + 1
        /*postgres: DELETE FROM word_tail WHERE words = 'pear ' */""",
    ),
    "the totals of a word index": (
        "words",
        """/*sqlite:*/ UPDATE message_words_data SET block = x'01' WHERE id = 1
        /*postgres: UPDATE word_index SET words = 1 */""",
    ),
    "a page of a word index": (
        "words",
        """/*sqlite:*/ UPDATE message_words_data SET block = zeroblob(60) WHERE id > 100
        /*postgres: UPDATE word_tail SET messages = set_byte(messages, 8, 60) */""",
    ),
    "an unreadable word index": (
        "words",
        """/*sqlite:*/ DELETE FROM message_words_data WHERE id > 100
        /*postgres: DELETE FROM word_index */""",
    ),
    "a job in no state": ("jobs", "UPDATE job SET attempts = -1"),
    "a job half leased": ("jobs", "UPDATE job SET lease_owner = 'me'"),
    "a job without a kind": ("jobs", "UPDATE job SET kind = ''"),
    "no state of upkeep": ("jobs", "DELETE FROM upkeep"),
    "a reindex that died": ("jobs", "UPDATE upkeep SET rebuild_id = 'dead', rebuild_until = 1"),
}

LOST = {
    "a changed text": ("hashes", "UPDATE message SET content = 'changed' WHERE characters < 9"),
    "a changed byte": (
        "hashes",
        "UPDATE message SET content = substr(content, 1, 40) WHERE characters > 100",
    ),
    "a changed hash": ("hashes", "UPDATE message SET sha256 = zeroblob(32)"),
    "text that is no UTF-8": (
        "hashes",
        "UPDATE message SET content = /*sqlite:*/ CAST(x'ff' AS TEXT) /*postgres: x'ff' */",
    ),
    "an unknown encoding": ("hashes", "UPDATE message SET content_encoding = 'rot13'"),
    "an unknown dictionary": ("hashes", "UPDATE message SET content_encoding = 'zstd:7'"),
    "a gap": ("sequences", "DELETE FROM message WHERE key = (1 << 24) + 4"),
    "a lost beginning": ("sequences", "DELETE FROM message WHERE key = (1 << 24) + 1"),
    "a lost conversation": ("sequences", "DELETE FROM conversation WHERE number = 2"),
    "a message at no sequence": (
        "sequences",
        "UPDATE message SET key = key - 1 WHERE key = (1 << 24) + 1",
    ),
}

LOST_IN_A_FILE = {
    "a row of another organisation": "UPDATE job SET organization_id = 99",
    "a tag of nothing": "INSERT INTO conversation_tag VALUES (1, 77, 0, 'lost')",
}
"""PostgreSQL lets nobody do such damage."""


@pytest.fixture
async def conversation_id(organization: OrganizationStore) -> ConversationId:
    """Fill the store: conversation 1 has ten messages, 2 has one, 3 none."""
    conversation_id = await begin(organization, *[f"apple {n}" for n in range(9)], LONG)
    await begin(organization, "pear")
    await begin(organization)
    await organization.enqueue_job("embed", "1")
    return conversation_id


@pytest.mark.usefixtures("conversation_id")
async def test_a_sound_store_gives_no_findings(organization: OrganizationStore) -> None:
    assert await findings(organization) == []
    assert await organization.repair() == 0


@pytest.mark.usefixtures("conversation_id")
@pytest.mark.parametrize("kind", MENDED)
async def test_damage_to_what_is_derived_is_found_and_mended(
    organization: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    check, statement = MENDED[kind]
    damage(tmp_path, organization, statement)

    found = await findings(organization)
    assert check in {finding.check for finding in found}
    assert all(finding.repairable for finding in found)
    assert all(finding.organization_id == organization.organization_id for finding in found)

    assert await organization.repair() == len(found)
    assert await findings(organization) == []


@promise("verbatim")
@pytest.mark.usefixtures("conversation_id")
@pytest.mark.parametrize("kind", LOST)
async def test_damage_to_what_was_stored_is_found_and_stays_visible(
    organization: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    check, statement = LOST[kind]
    damage(tmp_path, organization, statement)

    assert (check, False) in {
        (finding.check, finding.repairable) for finding in await findings(organization)
    }

    await organization.repair()
    left = await findings(organization)
    assert check in {finding.check for finding in left}
    assert not any(finding.repairable for finding in left)


@on_sqlite
@pytest.mark.usefixtures("conversation_id")
@pytest.mark.parametrize("kind", LOST_IN_A_FILE)
async def test_a_row_that_has_no_place_in_a_file_is_found_and_stays_visible(
    organization: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    damage(tmp_path, organization, LOST_IN_A_FILE[kind])

    (finding,) = await findings(organization)
    await organization.repair()

    assert (finding.check, finding.repairable) == ("file", False)
    assert await findings(organization) == [finding]


@on_sqlite
@pytest.mark.usefixtures("conversation_id")
async def test_a_broken_index_of_a_table_in_a_file_is_rebuilt(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    hide_index = "DELETE FROM sqlite_schema WHERE name = 'conversation_updated' RETURNING *"
    (hidden,) = change_schema(tmp_path, organization, hide_index)
    damage(tmp_path, organization, "UPDATE conversation SET updated_at = 1 WHERE number = 1")
    change_schema(
        tmp_path, organization, "INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", *hidden
    )

    found = await findings(organization)
    assert {(finding.check, finding.repairable) for finding in found} == {("file", True)}

    await organization.repair()
    assert await findings(organization) == []


def change_schema(
    folder: Path, organization: OrganizationStore, statement: str, *values: object
) -> list[tuple[object, ...]]:
    """Change SQLite's own table of tables, so that an index can miss a change of its table."""
    with opened_file(folder, organization) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        rows = connection.execute(statement, values).fetchall()
        (version,) = connection.execute("PRAGMA schema_version").fetchone()
        connection.execute(f"PRAGMA schema_version = {version + 1}")
    return rows


@promise("verbatim")
async def test_damaged_messages_are_named(
    organization: OrganizationStore, conversation_id: ConversationId, tmp_path: Path
) -> None:
    damage(tmp_path, organization, "UPDATE message SET content = 'x' WHERE key = (1 << 24) + 3")

    (finding,) = [one for one in await findings(organization) if one.check == "hashes"]
    assert conversation_id in finding.message
    assert "message 3" in finding.message
    with pytest.raises(StoreCorruptError, match=f"message 3 of conversation {conversation_id}"):
        await organization.get_conversation(MessageQuery(conversation_id=conversation_id))


async def test_a_conversation_with_a_damaged_tail_can_be_continued(
    organization: OrganizationStore,
    elsewhere: OrganizationStore,
    conversation_id: ConversationId,
    tmp_path: Path,
) -> None:
    damage(tmp_path, organization, "UPDATE message SET content = 'x' WHERE key = (1 << 24) + 9")

    await append(elsewhere, "cherry", to=conversation_id)
    await append(elsewhere, "cherry", to=conversation_id)

    assert await count_holders(organization, "cherri") == 2
    # The index holds the words that can no longer be read from the message.
    assert {one.check for one in await findings(organization)} == {"hashes", "words"}
    await organization.repair()
    assert {one.check for one in await findings(organization)} == {"hashes"}


async def test_a_conversation_with_a_damaged_message_can_be_deleted(
    organization: OrganizationStore, conversation_id: ConversationId, tmp_path: Path
) -> None:
    damage(tmp_path, organization, "UPDATE message SET content = 'x' WHERE key = (1 << 24) + 3")

    await organization.delete_conversation(conversation_id, actor=ACTOR)

    assert await findings(organization) == []


@pytest.mark.parametrize("table", ["counters", "upkeep"])
async def test_without_its_counts_a_store_says_that_it_is_damaged(
    organization: OrganizationStore, tmp_path: Path, table: str
) -> None:
    damage(tmp_path, organization, f"DELETE FROM {table}")  # noqa: S608 - two fixed names

    with pytest.raises(StoreCorruptError):
        await append(organization, "text")
    if table == "counters":
        with pytest.raises(StoreCorruptError):
            await organization.counters()


@pytest.mark.usefixtures("conversation_id")
async def test_findings_of_one_check_are_bounded(
    organization: OrganizationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "FINDINGS_MAX", 4)
    damage(tmp_path, organization, "UPDATE message SET sha256 = zeroblob(32)")

    found = [one for one in await findings(organization) if one.check == "hashes"]

    assert len(found) == 4
    assert "more" in found[-1].message


async def test_a_text_without_words_is_whole_too(organization: OrganizationStore) -> None:
    conversation_id = await begin(organization, "", "☃", "  ", "")

    assert await findings(organization) == []
    await append(organization, "word", to=conversation_id)
    assert await findings(organization) == []
    assert await read_texts(organization, conversation_id) == ["", "☃", "  ", "", "word"]
