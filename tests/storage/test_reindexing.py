"""Reindexing: the same indexes again, beside live traffic, and after others died or went ahead."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engram.clock import RandomIds
from engram.errors import ConflictError, StoreNewerError
from engram.storage.bookkeeping import state
from engram.storage.organization import OrganizationStore
from engram.storage.words import rebuild
from engram.text.analyse import ANALYSER_VERSION, query_terms
from tests.promises import promise
from tests.storage.drafts import (
    ACTOR,
    BuildStore,
    append,
    begin,
    count_holders,
    findings,
    on_sqlite,
    opened,
    read_texts,
)


async def find(organization: OrganizationStore, word: str) -> int:
    return await count_holders(organization, *query_terms(word), limit=1_000)


@promise("one-truth")
async def test_reindexing_gives_the_same_indexes(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    first = await begin(organization, *[f"apple {number}" for number in range(12)])
    await begin(organization)

    assert await organization.reindex() == 12

    assert await findings(organization) == []
    assert await find(elsewhere, "apple") == 12
    await append(elsewhere, "apple 13", to=first)
    assert await find(organization, "apple") == 13
    assert await findings(organization) == []


@on_sqlite
async def test_reindexing_keeps_the_settings_of_an_index_in_a_file(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    before = settings_of(tmp_path, organization)

    await organization.reindex()

    assert settings_of(tmp_path, organization) == before
    assert ("automerge", 2) in before


def settings_of(directory: Path, organization: OrganizationStore) -> list[tuple[str, int | str]]:
    """Return what the word index has been told."""
    with opened(directory, organization) as connection:
        return connection.execute("SELECT k, v FROM message_words_config ORDER BY k").fetchall()


async def test_an_empty_store_can_be_reindexed(organization: OrganizationStore) -> None:
    assert await organization.reindex() == 0
    assert await findings(organization) == []


@promise("one-truth")
async def test_searches_and_writes_stay_right_while_reindexing(
    organization: OrganizationStore,
    elsewhere: OrganizationStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rebuild, "BATCH_MESSAGES", 8)
    ids = [await begin(organization, *["apple"] * 10) for _ in range(10)]
    reindexing = asyncio.create_task(organization.reindex())
    expected = 100

    for number, conversation_id in enumerate(ids):
        for store in (organization, elsewhere):
            await append(store, "apple pie", to=conversation_id)
            expected += 1
            assert await find(store, "apple") == expected
        if number % 3 == 0:
            await elsewhere.delete_conversation(conversation_id, actor=ACTOR)
            expected -= 12
        await begin(elsewhere, "apple")
        expected += 1
        assert await find(organization, "apple") == expected

    await reindexing
    assert await find(elsewhere, "apple") == expected
    assert await findings(organization) == []


async def test_of_two_reindexes_at_once_one_goes_on(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    for _ in range(5):
        await begin(organization, *["apple"] * 10)

    results = await asyncio.gather(
        organization.reindex(), elsewhere.reindex(), return_exceptions=True
    )

    assert all(result == 50 or isinstance(result, ConflictError) for result in results)
    assert 50 in results
    assert await findings(organization) == []


@promise("one-truth")
@pytest.mark.parametrize("by", ["opening", "appending"])
async def test_what_a_dead_reindex_left_is_cleared_away(
    organization: OrganizationStore, tmp_path: Path, build_store: BuildStore, by: str
) -> None:
    conversation_id = await begin(organization, *["apple"] * 10)
    with opened(tmp_path, organization) as connection:
        connection.execute(
            "/*sqlite:*/ CREATE VIRTUAL TABLE message_words_next USING fts5(words, content = '')"
            " /*postgres: INSERT INTO word_length VALUES (1, 1, 1, '') */"
        )
        connection.execute(
            "UPDATE upkeep SET rebuild_id = 'job_dead', rebuild_version = ?, rebuild_upto = 0,"
            " rebuild_until = 1",
            (ANALYSER_VERSION,),
        )
    assert [finding.check for finding in await findings(organization)] == ["jobs"]

    if by == "opening":
        reopened = build_store(RandomIds())
        await reopened.open()
        await reopened.organization(organization.organization_id)
        await reopened.close()
    else:
        await append(organization, "apple", to=conversation_id)

    assert await findings(organization) == []
    with opened(tmp_path, organization) as connection:
        left = connection.execute(
            "/*sqlite:*/ SELECT name FROM sqlite_schema WHERE name LIKE '%_next%'"
            " /*postgres: SELECT page FROM word_length WHERE generation > 0 */"
        )
        assert left.fetchall() == []


async def test_words_of_an_older_analyser_are_rebuilt_on_opening(
    organization: OrganizationStore, tmp_path: Path, build_store: BuildStore
) -> None:
    conversation_id = await begin(organization, *["apple"] * 7)
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE upkeep SET analyser_version = 0")
        connection.execute(
            "/*sqlite:*/ INSERT INTO message_words (message_words) VALUES ('delete-all')"
            " /*postgres: DELETE FROM word_tail */"
        )

    reopened = build_store(RandomIds())
    await reopened.open()
    mine = await reopened.organization(organization.organization_id)

    assert await find(mine, "apple") == 7
    await append(mine, "apple", to=conversation_id)
    assert await findings(mine) == []
    await reopened.close()


@pytest.mark.parametrize("column", ["analyser_version", "rebuild_version"])
async def test_words_of_a_newer_analyser_are_left_alone(
    organization: OrganizationStore, tmp_path: Path, build_store: BuildStore, column: str
) -> None:
    conversation_id = await begin(organization, "text")
    with opened(tmp_path, organization) as connection:
        connection.execute(f"UPDATE upkeep SET {column} = ?", (ANALYSER_VERSION + 1,))  # noqa: S608 - fixed names
    reopened = build_store(RandomIds())
    await reopened.open()

    for attempt in (
        append(organization, "more", to=conversation_id),
        organization.delete_conversation(conversation_id, actor=ACTOR),
        organization.reindex(),
        reopened.organization(organization.organization_id),
    ):
        with pytest.raises(StoreNewerError):
            await attempt

    assert await read_texts(organization, conversation_id) == ["text"]
    await reopened.close()


def test_the_state_of_a_rebuild_says_which_conversations_it_holds() -> None:
    idle = state.State(0, 0, 0, 1, 0, None, None, None, None, index_size=0, tail_size=0)
    under_way = idle._replace(rebuild_upto=5)

    assert under_way.is_in_next(5)
    assert not under_way.is_in_next(6)
    assert not idle.is_in_next(1)
