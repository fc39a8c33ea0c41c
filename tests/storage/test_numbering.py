"""Numbers of conversations and memories: each given once, also in files of before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engram.model.conversation import ConversationQuery
from engram.model.row_keys import record_number
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.migrate import load_migrations, migrate
from tests.storage.drafts import ACTOR, begin, findings, opened
from tests.storage.memory_drafts import get, note

BEFORE = 4
"""The last step of a file that knew conversations alone."""


def test_a_file_of_before_goes_on_with_its_numbers() -> None:
    steps = load_migrations("organization")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, steps[:BEFORE])
        connection.execute("INSERT INTO upkeep VALUES (1, 1, 100000, NULL, NULL, NULL, NULL)")
        for number in range(1, 6):
            connection.execute(
                "INSERT INTO conversation (organization_id, id, project, metadata, created_at,"
                " updated_at) VALUES (1, ?, 'default', '{}', 1, 1)",
                (f"conv_{number}",),
            )
        connection.execute("DELETE FROM conversation WHERE number = 5")

        migrate(connection, steps)

        given = connection.execute(
            "SELECT last_conversation, last_memory, last_document FROM upkeep"
        ).fetchone()
        assert given == (5, 0, 0)


async def test_each_kind_counts_by_itself(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    await begin(organization, "said")
    await note(elsewhere, "noted")
    await begin(elsewhere, "said")
    memory_id = await note(organization, "noted again")
    await organization.memories.purge(memory_id, actor=ACTOR)
    await note(organization, "and again")

    with opened(tmp_path, organization) as connection:
        rows = connection.execute("SELECT number FROM conversation ORDER BY number")
        numbers = [number for (number,) in rows]
    assert numbers == [1, 2, record_number("memory", 1), record_number("memory", 3)]


@pytest.mark.parametrize("reopened", [False, True], ids=["repaired", "opened again"])
async def test_a_lost_state_gives_no_number_again(
    organization: OrganizationStore,
    elsewhere: OrganizationStore,
    tmp_path: Path,
    *,
    reopened: bool,
) -> None:
    await begin(organization, "said")
    kept = await note(organization, "noted")
    with opened(tmp_path, organization) as connection:
        connection.execute("DELETE FROM upkeep")

    if reopened:
        assert isinstance(elsewhere, OrganizationStore)
        await elsewhere.prepare()
    else:
        await organization.repair()
    await begin(elsewhere, "said later")
    await note(elsewhere, "noted later")

    assert (await get(organization, kept)).content == "noted"
    assert (await organization.list_conversations(ConversationQuery())).total == 2
    assert await findings(organization) == []
