"""The contract of deleting: nothing of a conversation stays, and nothing of another goes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engram.errors import NotFoundError
from engram.model.conversation import ConversationQuery, MessageQuery
from engram.model.ids import ConversationId
from engram.storage.organization import OrganizationStore
from engram.storage.rows.database import Connection
from tests.promises import promise
from tests.storage.drafts import ACTOR, append, begin, find, findings, opened, read_texts, tables_of

pytestmark = promise("removal")

KEPT_TABLES = ("audit", "audit_name", "sqlite_sequence")
"""What a deletion leaves: the audit of it, and the number that is not given again."""


async def test_a_deletion_says_what_it_removed(organization: OrganizationStore) -> None:
    conversation_id = await begin(organization, *map(str, range(10)))

    receipt = await organization.delete_conversation(conversation_id, actor=ACTOR)

    (entry, *_) = await organization.list_audit(limit=1, before=None)
    assert (receipt.messages, receipt.chunks, receipt.vectors) == (10, 3, 0)
    assert receipt.receipt == entry.id


@promise("processes")
async def test_a_deleted_conversation_is_gone_in_every_process(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    conversation_id = await begin(organization, "apple", "pear")
    await append(elsewhere, "apple pie", to=conversation_id)

    await organization.delete_conversation(conversation_id, actor=ACTOR)

    for store in (organization, elsewhere):
        with pytest.raises(NotFoundError):
            await store.get_conversation(MessageQuery(conversation_id=conversation_id))
        with pytest.raises(NotFoundError):
            await append(store, "more", to=conversation_id)
        with pytest.raises(NotFoundError):
            await store.delete_conversation(conversation_id, actor=ACTOR)
        found = await find(store, "appl")
        assert found.keys.tolist() == []
        assert (await store.list_conversations(ConversationQuery())).total == 0


async def test_deleting_leaves_no_row_in_any_table(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await organization.settle_due("vectors")
    before = rows_by_table(tmp_path, organization)
    conversation_id = await begin(organization, "one", "two", tags=("red",), agent_id="x")
    await append(organization, "apple pie", to=conversation_id, key="once")
    await append(organization, *["text " * 100] * 7, to=conversation_id)

    await organization.delete_conversation(conversation_id, actor=ACTOR)
    await organization.settle_due("vectors")

    # Its id stays, so that no import brings it back.
    assert rows_by_table(tmp_path, organization) == {**before, "forgotten_session": 1}
    with opened(tmp_path, organization) as connection:
        places = connection.execute(
            "SELECT * FROM /*sqlite:*/ message_word_places /*postgres: word_tail */"
        )
        assert places.fetchall() == []
    assert await findings(organization) == []


async def test_deleting_one_conversation_leaves_the_others(
    organization: OrganizationStore,
) -> None:
    texts = [f"apple {number}" for number in range(8)]
    first, second, third = [await begin(organization, *texts) for _ in range(3)]

    await organization.delete_conversation(second, actor=ACTOR)
    await append(organization, "more", to=third)

    assert await read_texts(organization, first) == texts
    assert await read_texts(organization, third) == [*texts, "more"]
    assert (await organization.counters()).messages == 17
    assert await findings(organization) == []


@promise("processes")
async def test_a_conversation_that_grows_while_it_is_deleted_is_deleted_whole(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    conversation_id = await begin(organization, "first")

    results = await asyncio.gather(
        *[append(elsewhere, f"text {number}", to=conversation_id) for number in range(20)],
        organization.delete_conversation(conversation_id, actor=ACTOR),
        *[append(organization, f"text {number}", to=conversation_id) for number in range(20)],
        return_exceptions=True,
    )

    failures = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(failure, NotFoundError) for failure in failures)
    assert (await organization.counters()).messages == 0
    assert await findings(organization) == []


@promise("processes")
async def test_two_deletions_at_once_remove_it_once(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    conversation_id = await begin(organization, "text")

    results = await asyncio.gather(
        organization.delete_conversation(conversation_id, actor=ACTOR),
        elsewhere.delete_conversation(conversation_id, actor=ACTOR),
        return_exceptions=True,
    )

    assert sum(isinstance(result, NotFoundError) for result in results) == 1
    assert (await organization.counters()).conversations == 0
    assert await findings(organization) == []


async def test_a_number_is_never_given_again(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    old = await begin(organization, *["old words"] * 3)
    await organization.delete_conversation(old, actor=ACTOR)

    new = await begin(elsewhere, *["new words"] * 3)
    await append(organization, "more", to=new)

    assert await findings(organization) == []


async def test_an_unknown_conversation_cannot_be_deleted(organization: OrganizationStore) -> None:
    with pytest.raises(NotFoundError):
        await organization.delete_conversation(ConversationId("conv_nowhere"), actor=ACTOR)


def rows_by_table(folder: Path, organization: OrganizationStore) -> dict[str, int]:
    with opened(folder, organization) as connection:
        return {name: count_rows(connection, name) for name in table_names(connection)}


def table_names(connection: Connection) -> list[str]:
    """Return the tables that a deletion clears; of FTS5's own the one with a row for each text."""
    names = [name for name in tables_of(connection) if name not in KEPT_TABLES]
    own = {name for name in names if name.startswith("message_word")}
    return [name for name in names if name not in own or name.endswith("_docsize")]


def count_rows(connection: Connection, table: str) -> int:
    return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - names of the schema
