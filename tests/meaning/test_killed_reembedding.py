"""kill -9 while vectors are replaced: afterwards each message has those of one embedder, once."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from engram.clock import SystemClock
from engram.embedding.passages import EmbeddedText, deep_splitting, embed_texts
from engram.embedding.tiers import Tiers
from engram.model.access import OrganizationDraft
from engram.model.row_keys import conversation_of, message_key, position_of
from engram.model.vectors import StoredIdentities
from engram.service.work.indexing import Indexer
from engram.service.work.reembedding import Reembedding
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.promises import promise
from tests.service.embedders import NamedEmbedder
from tests.storage.drafts import opened
from tests.storage.places import is_database, store_at

KILLS = 30
DATABASE_KILLS = 8
"""There, a killed process leaves nothing behind that the next has to recover."""
PROJECT = Path(__file__).parents[2]


@pytest.fixture
async def store(place: str) -> AsyncIterator[Store]:
    """Yield the open store that the processes work on."""
    store = store_at(place, clock=SystemClock())
    await store.open()
    yield store
    await store.close()


@promise("durable", kills=KILLS)
async def test_every_message_has_vectors_of_one_embedder_whoever_was_killed(
    tmp_path: Path, place: str, store: Store
) -> None:
    local = await store.control.create_organization(OrganizationDraft(name="local"), actor="test")
    organization = await store.organization(local.id)
    command = [sys.executable, "-m", "tests.meaning.programs.killed_reembedding"]
    kills = DATABASE_KILLS if is_database(place) else KILLS

    await anyio.run_process([*command, place, local.id, str(kills)], cwd=PROJECT)

    assert [finding async for finding in organization.verify()] == []
    embedder = NamedEmbedder("last", dimensions=40)
    tiers = Tiers.of(deep=embedder)
    indexer = Indexer(store, tiers, owner="the last")
    done = await Reembedding(store, tiers, indexer=indexer).reembed(local.id)
    messages = (await organization.counters()).messages
    assert messages > kills
    assert (done.embedded, done.refused, done.pending) == (messages, 0, 0)
    assert (await organization.coverage()).messages_deep == messages
    assert await organization.identities() == StoredIdentities(deep=embedder.identity.as_text())
    assert [finding async for finding in organization.verify()] == []
    with opened(tmp_path, organization) as connection:
        assert connection.execute("SELECT count(*) FROM embedder").fetchall() == [(1,)]
        assert connection.execute("SELECT count(*) FROM instant_vector").fetchall() == [(0,)]
        stored = connection.execute(VECTORS).fetchall()
    assert stored == await undisturbed_vectors(organization, embedder, stored)


VECTORS = "SELECT key, start_character, end_character, content FROM vector ORDER BY 1, 2"


async def undisturbed_vectors(
    organization: OrganizationStore, embedder: NamedEmbedder, stored: list[tuple[int, ...]]
) -> list[tuple[object, ...]]:
    """Return the vectors that one process would have stored that nobody kills."""
    keys = sorted({key for key, *_ in stored})
    vectors: list[tuple[object, ...]] = []
    splitting = deep_splitting(embedder, embedder.identity)
    for conversation in sorted({conversation_of(key) for key in keys}):
        end = max(position_of(key) for key in keys if conversation_of(key) == conversation)
        messages = await organization.load_range(conversation, start=1, end=end)
        texts = [EmbeddedText(message.name, message.content) for message in messages]
        embedded = await embed_texts(texts, embedder, splitting=splitting)
        vectors += [
            (message_key(conversation, message.sequence), one.start, one.end, one.content)
            for message, passages in zip(messages, embedded, strict=True)
            for one in passages
        ]
    return vectors
