"""A big organisation's vectors are searched in a partition of their own, and nobody can tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import numpy as np
import psycopg
import pytest

from engram.model.access import OrganizationDraft
from engram.model.conversation import ConversationDraft
from engram.model.ids import ConversationId
from engram.model.search import Candidates, SearchFilters
from engram.model.vectors import QueryVector
from engram.storage.organization import OrganizationStore
from engram.storage.postgres import hnsw
from engram.storage.postgres.store import PostgresStore
from tests.fakes import FakeClock, SequentialIds
from tests.postgres.databases import as_owner
from tests.promises import promise
from tests.storage.drafts import ACTOR
from tests.storage.embedded import DEEP, append_meant, embed_waiting, vector_of
from tests.storage.finding import find_candidates

WORDS = ("ruler", "tide", "lamp", "moss", "anchor", "violin", "gravel", "ember", "quilt", "harbour")


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few vectors be worth a partition."""
    monkeypatch.setattr(hnsw, "VECTORS_MIN", 50)
    monkeypatch.setattr(hnsw, "BEHIND_MAX", 20)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    """Yield an open, empty store."""
    opened = PostgresStore(database_url, clock=FakeClock(), ids=SequentialIds())
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def organization(store: PostgresStore) -> OrganizationStore:
    """Return the empty store of a new organisation."""
    created = await store.control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)
    return await store.organization(created.id)


def query_of(text: str) -> QueryVector:
    """Return a question."""
    return QueryVector(tier="deep", identity=DEEP, vector=vector_of(text, DEEP))


async def append_embedded(organization: OrganizationStore, *contents: str) -> ConversationId:
    """Append messages to a new conversation and give them deep vectors."""
    begun = await organization.create_conversation(ConversationDraft(), actor=ACTOR)
    await append_meant(organization, *contents, to=begun, tier=None)
    while await embed_waiting(organization):
        pass
    return begun


def texts(count: int, *, start: int = 0) -> list[str]:
    """Return texts that differ in a few words."""
    return [f"{WORDS[n % 10]} {WORDS[n // 10 % 10]} number{n}" for n in range(start, start + count)]


async def ask(organization: OrganizationStore, filters: SearchFilters) -> list[Candidates]:
    return [
        await find_candidates(
            organization, [], vectors=[query_of(word)], filters=filters, limit=200
        )
        for word in WORDS
    ]


def assert_same(found: Sequence[Candidates], expected: Sequence[Candidates]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.keys, other.keys)
        np.testing.assert_allclose(one.cosine, other.cosine)
        np.testing.assert_allclose(one.cosine_around, other.cosine_around)


@pytest.fixture
async def conversation(organization: OrganizationStore) -> ConversationId:
    """Return a conversation whose messages are many enough."""
    return await append_embedded(organization, *texts(120))


@pytest.mark.parametrize("exact_rows_max", [0, 20_000])
async def test_searches_find_the_same_before_and_after_the_move(
    organization: OrganizationStore,
    conversation: ConversationId,
    exact_rows_max: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(hnsw, "EXACT_ROWS_MAX", exact_rows_max)
    everywhere, there = SearchFilters(), SearchFilters(conversation_id=conversation)
    before = [await ask(organization, filters) for filters in (everywhere, there)]

    moved = await organization.tend_vectors()

    assert moved >= 120
    assert_same(await ask(organization, everywhere), before[0])
    assert_same(await ask(organization, there), before[1])
    assert await organization.tend_vectors() == 0


@pytest.mark.usefixtures("conversation")
async def test_what_comes_and_goes_after_the_move_is_seen_at_once(
    organization: OrganizationStore,
):
    await organization.tend_vectors()
    newer = await append_embedded(organization, "submarine lighthouse")
    query = query_of("submarine lighthouse")

    found = await find_candidates(organization, [], vectors=[query])
    assert found.cosine.max() == pytest.approx(1.0, abs=1e-3)

    await organization.delete_conversation(newer, actor=ACTOR)
    found = await find_candidates(organization, [], vectors=[query])
    assert found.cosine.max() < 0.99


@pytest.mark.usefixtures("conversation")
async def test_the_partition_follows_and_forgets(organization: OrganizationStore):
    await organization.tend_vectors()
    second = await append_embedded(organization, *texts(40, start=200))

    assert await organization.tend_vectors() >= 40

    expected = await ask(organization, SearchFilters(conversation_id=second))
    assert all(len(found.keys) == 40 for found in expected)
    await organization.delete_conversation(second, actor=ACTOR)
    for found in await ask(organization, SearchFilters()):
        assert len(found.keys) == 120


@pytest.mark.usefixtures("conversation")
async def test_the_server_uses_the_index_of_neighbours(
    organization: OrganizationStore, database_url: str
):
    await organization.tend_vectors()

    with psycopg.connect(as_owner(database_url), autocommit=True) as driver:
        rows = driver.execute(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'engram' AND indexdef LIKE '%hnsw%'"
        ).fetchall()
        attached = driver.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'engram.near_vector'::regclass"
        ).fetchone()

    assert len(rows) == 1
    assert attached == (1,)


@promise("apart")
@pytest.mark.usefixtures("conversation")
async def test_another_organisation_sees_nothing_of_it(
    store: PostgresStore, organization: OrganizationStore
):
    await organization.tend_vectors()
    created = await store.control.create_organization(OrganizationDraft(name="Other"), actor=ACTOR)
    other = await store.organization(created.id)

    assert all(len(found.keys) == 0 for found in await ask(other, SearchFilters()))


@pytest.mark.usefixtures("conversation")
async def test_a_deleted_organisation_leaves_no_partition(
    store: PostgresStore, organization: OrganizationStore, database_url: str
):
    await organization.tend_vectors()

    await store.control.delete_organization(organization.organization_id, actor=ACTOR)

    with psycopg.connect(as_owner(database_url), autocommit=True) as driver:
        left = driver.execute(
            "SELECT count(*) FROM pg_class WHERE relname LIKE 'near\\_vector\\_%' AND relkind = 'r'"
        ).fetchone()
    assert left == (0,)


@pytest.mark.usefixtures("conversation")
async def test_there_are_no_more_partitions_than_a_database_may_have(
    store: PostgresStore, organization: OrganizationStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hnsw, "PARTITIONS_MAX", 1)
    draft = OrganizationDraft(name="Other")
    created = await store.control.create_organization(draft, actor=ACTOR)
    other = await store.organization(created.id)
    await append_embedded(other, *texts(120))
    before = await ask(other, SearchFilters())

    moved = [await each.tend_vectors() for each in (organization, other)]

    assert (moved[0] >= 120, moved[1]) == (True, 0)
    assert_same(await ask(other, SearchFilters()), before)
