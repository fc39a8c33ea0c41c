"""kill -9 while messages get their vectors: afterwards each has exactly those it should have."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from engram.embedding.passages import EmbeddedText, deep_splitting, embed_texts
from engram.embedding.tiers import Tiers
from engram.model.access import OrganizationDraft
from engram.model.ids import ConversationKey
from engram.model.row_keys import message_key
from engram.service.work.indexing import Indexer
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.meaning.hashing import SHORT, ToldEmbedder
from tests.meaning.programs.killed_indexing import LaterClock
from tests.promises import promise
from tests.storage.drafts import opened
from tests.storage.places import is_database, store_at

KILLS = 30
DATABASE_KILLS = 8
"""There, a killed process leaves nothing behind that the next has to recover."""
CONVERSATION = ConversationKey(1)
"""The default one, which all processes append to."""
PROJECT = Path(__file__).parents[2]


@pytest.fixture
async def store(place: str) -> AsyncIterator[Store]:
    """Yield an open store whose clock is later than that of every process that gets killed."""
    store = store_at(place, clock=LaterClock(KILLS))
    await store.open()
    yield store
    await store.close()


@promise("durable", kills=KILLS)
async def test_every_message_gets_its_vectors_once_whoever_is_killed(
    tmp_path: Path, place: str, store: Store
) -> None:
    local = await store.control.create_organization(OrganizationDraft(name="local"), actor="test")
    organization = await store.organization(local.id)
    command = [sys.executable, "-m", "tests.meaning.programs.killed_indexing"]
    kills = DATABASE_KILLS if is_database(place) else KILLS

    await anyio.run_process([*command, place, local.id, str(kills)], cwd=PROJECT)

    assert (await organization.counters()).messages > kills
    indexer = Indexer(store, Tiers.of(deep=ToldEmbedder(nothing)), owner="the last")
    while await indexer.work(local.id):
        pass
    assert [finding async for finding in organization.verify()] == []
    assert (await organization.counters()).pending == 0
    assert rows(tmp_path, organization, "SELECT count(*) FROM unembedded") == [(0,)]
    assert rows(tmp_path, organization, "SELECT count(*) FROM instant_vector") == [(0,)]
    assert rows(tmp_path, organization, VECTORS) == await undisturbed_vectors(organization)


VECTORS = "SELECT key, start_character, end_character, content FROM vector ORDER BY 1, 2"


async def undisturbed_vectors(organization: OrganizationStore) -> list[tuple[object, ...]]:
    """Return the vectors that one process would have stored that nobody kills."""
    last = (await organization.counters()).messages
    messages = await organization.load_range(CONVERSATION, start=1, end=last)
    assert len(messages) == last
    embedder = ToldEmbedder(nothing)
    texts = [EmbeddedText(message.name, message.content) for message in messages]
    vectors = await embed_texts(texts, embedder, splitting=deep_splitting(embedder, SHORT))
    return [
        (message_key(CONVERSATION, message.sequence), passage.start, passage.end, passage.content)
        for message, passages in zip(messages, vectors, strict=True)
        for passage in passages
    ]


def nothing() -> None:
    """Say nothing."""


def rows(folder: Path, organization: OrganizationStore, statement: str) -> list[tuple[object, ...]]:
    """Return what a statement finds among the organisation's rows."""
    with opened(folder, organization) as connection:
        return connection.execute(statement).fetchall()
