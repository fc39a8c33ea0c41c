"""The contract of vectors: stored with their messages, seen by every process, filtered before ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engram.errors import InvalidVectorError, NotFoundError
from engram.model.access import Quota
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.ids import ConversationId
from engram.model.search import Candidates, SearchFilters
from engram.model.vectors import Indexing, NewVectors, QueryVector, StoredIdentities, Tier
from engram.storage.organization import OrganizationStore
from tests.fakes import SOME_DAY
from tests.promises import promise
from tests.storage.drafts import ACTOR, UNBOUNDED, append, begin, drafts, findings, opened
from tests.storage.embedded import (
    DEEP,
    OTHER,
    QUICK,
    append_meant,
    embed_waiting,
    indexing_of,
    passages_of,
    vector_of,
)
from tests.storage.finding import Kept, find_candidates

EVERYTHING = SearchFilters()


def query_of(text: str, *, tier: Tier = "instant", identity: str = QUICK) -> QueryVector:
    return QueryVector(tier=tier, identity=identity, vector=vector_of(text, identity))


async def ask(
    organization: OrganizationStore,
    *vectors: QueryVector,
    terms: Sequence[str] = (),
    filters: SearchFilters = EVERYTHING,
    limit: int = 10,
) -> Candidates:
    return await find_candidates(organization, terms, vectors=vectors, filters=filters, limit=limit)


def cosines(found: Candidates) -> dict[int, float]:
    """Return the cosine of each candidate by its place in its conversation, without the unknown."""
    columns = zip(found.sequences.tolist(), found.cosine.tolist(), strict=True)
    return {sequence: cosine for sequence, cosine in columns if not math.isnan(cosine)}


def exact(text: str, other: str, identity: str) -> float:
    """Return the cosine of two texts that make one passage each."""
    one, two = vector_of(text, identity), vector_of(other, identity)
    return float(one @ two / np.linalg.norm(one) / np.linalg.norm(two))


async def count_rows(folder: Path, organization: OrganizationStore, table: str) -> int:
    with opened(folder, organization) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - fixed names


@promise("findable")
async def test_instant_vectors_are_found_as_soon_as_their_messages_are_stored(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await append_meant(organization, "red apple", "green pear", "blue plum")

    for store in (organization, elsewhere):
        found = await ask(store, query_of("red apple"))
        assert cosines(found) == pytest.approx(
            {
                1: 1,
                2: exact("red apple", "green pear", QUICK),
                3: exact("red apple", "blue plum", QUICK),
            },
            abs=0.02,
        )
        assert not found.is_deep.any()
        assert found.share_message.tolist() == found.share_window.tolist() == [0, 0, 0]
    counters = await organization.counters()
    assert (counters.vectors, counters.pending) == (3, 3)
    assert await organization.identities() == StoredIdentities(instant=QUICK)


async def test_a_neighbourhood_is_that_of_the_messages_beside(
    organization: OrganizationStore,
) -> None:
    texts = ["one", "two", "three", "four", "five", "six"]
    await append_meant(organization, *texts)
    await append_meant(organization, "one", "two", to=await begin(organization))

    found = await ask(organization, query_of("three"))

    units = [vector_of(text, QUICK) for text in texts]
    units = [unit / np.linalg.norm(unit) for unit in units]
    summed = np.sum(units[1:6], axis=0)  # two before message 4, and two after it
    expected = float(summed @ units[2] / np.linalg.norm(summed))
    place = found.sequences.tolist().index(4)
    assert found.cosine_around[place] == pytest.approx(expected, abs=0.02)


async def test_a_long_message_counts_with_its_nearest_passage(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, "pear pear pear pear plum plum plum plum apple")

    found = await ask(organization, query_of("lum apple"))

    assert (await organization.counters()).vectors == 3
    assert max(cosines(found).values()) > 0.4


async def test_deep_vectors_take_the_place_of_instant_ones(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    await append_meant(organization, "red apple", "green pear")
    both = query_of("red apple"), query_of("red apple", tier="deep", identity=DEEP)
    for store in (organization, elsewhere):
        assert len(cosines(await ask(store, *both))) == 2  # the instant vectors are in memory now

    assert await embed_waiting(organization, limit=1) == 1

    for store in (organization, elsewhere):
        found = await ask(store, *both)
        assert found.is_deep.tolist() == [False, True]
        assert cosines(found) == pytest.approx(
            {1: 1, 2: exact("red apple", "green pear", DEEP)}, abs=0.02
        )
        only_instant = await ask(store, both[0])
        assert cosines(only_instant).keys() == {1}
    assert await count_rows(tmp_path, organization, "instant_vector") == 1
    assert await count_rows(tmp_path, organization, "vector") == 1
    counters = await organization.counters()
    assert (counters.vectors, counters.pending) == (2, 1)


async def test_deep_vectors_that_come_with_their_messages_leave_nothing_waiting(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, "red apple", tier="deep", identity=DEEP)

    found = await ask(organization, query_of("red apple", tier="deep", identity=DEEP))

    assert found.is_deep.tolist() == [True]
    assert (await organization.counters()).pending == 0
    assert await organization.identities() == StoredIdentities(deep=DEEP)


async def test_a_message_is_compared_whichever_leg_has_found_it(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, *[f"filler number {number}" for number in range(30)])
    await append_meant(organization, "red apple")

    found = await ask(organization, query_of("filler number 1"), terms=["appl"], limit=1)

    (place,) = np.flatnonzero(found.share_message > 0).tolist()
    assert found.sequences[place] == 31
    assert found.cosine[place] == pytest.approx(
        exact("filler number 1", "red apple", QUICK), abs=0.02
    )


async def test_a_message_without_any_vector_has_no_cosine(organization: OrganizationStore) -> None:
    await append(organization, "red apple")
    await append_meant(organization, "green apple")

    found = await ask(organization, query_of("green apple"), terms=["appl"])

    assert np.isnan(found.cosine).tolist() == [True, False]
    assert np.isnan(found.cosine_around).tolist() == [True, False]


@promise("findable")
async def test_another_process_sees_vectors_added_after_it_has_searched(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    for number in range(20):
        text = f"message number {number}"
        await append_meant(organization, text)
        found = await ask(elsewhere, query_of(text), limit=1)
        assert cosines(found) == pytest.approx({number + 1: 1}, abs=0.02)


@promise("removal")
async def test_a_deleted_conversation_leaves_no_vector_in_any_process(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    kept = await append_meant(organization, "red apple", to=await begin(organization))
    gone = await append_meant(organization, "red pear", "red plum", to=await begin(organization))
    await embed_waiting(organization, limit=2)
    await append_meant(organization, "red fig", to=gone)
    queries = query_of("red fig"), query_of("red plum", tier="deep", identity=DEEP)
    for store in (organization, elsewhere):
        assert len((await ask(store, *queries)).keys) == 4

    receipt = await organization.delete_conversation(gone, actor=ACTOR)

    assert (receipt.messages, receipt.vectors) == (3, 3)
    for store in (organization, elsewhere):
        found, loaded = await store.search(
            [],
            vectors=queries,
            filters=EVERYTHING,
            now=0,
            limit=10,
            choose=lambda found: Kept(found, conversations=found.conversations.tolist()),
        )
        assert cosines(found.candidates).keys() == {1}
        assert [one.id for one in loaded.conversations.values()] == [kept]
    counters = await organization.counters()
    assert (counters.messages, counters.vectors, counters.pending) == (1, 1, 1)
    tables = ("instant_vector", "vector", "unembedded")
    assert [await count_rows(tmp_path, organization, table) for table in tables] == [1, 0, 1]
    assert await findings(organization) == []


@promise("one-truth")
async def test_a_repeated_append_stores_no_vector_twice(organization: OrganizationStore) -> None:
    request = AppendRequest(messages=drafts("red apple"), idempotency_key="once")
    indexing = indexing_of(["red apple"], tier="instant", identity=QUICK)

    for _ in range(2):
        await organization.append_messages(request, actor=ACTOR, quota=UNBOUNDED, indexing=indexing)

    counters = await organization.counters()
    assert (counters.messages, counters.vectors, counters.pending) == (1, 1, 1)


@promise("one-truth")
async def test_a_refused_append_leaves_no_vector(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    request = AppendRequest(messages=drafts("red apple", "pear"), conversation_id=None)
    indexing = indexing_of(["red apple", "pear"], tier="instant", identity=QUICK)

    with pytest.raises(Exception, match="messages"):
        await organization.append_messages(
            request, actor=ACTOR, quota=Quota(messages_max=1), indexing=indexing
        )

    tables = ("instant_vector", "embedder", "unembedded")
    assert [await count_rows(tmp_path, organization, table) for table in tables] == [0, 0, 0]


async def test_messages_wait_once_there_is_a_deep_embedder(
    organization: OrganizationStore,
) -> None:
    await append(organization, "stored before")
    assert (await organization.counters()).pending == 0

    await organization.adopt_embedder(DEEP)
    await append(organization, "stored after")

    assert (await organization.counters()).pending == 2


async def test_messages_wait_when_they_are_told_to_though_nobody_has_embedded_yet(
    organization: OrganizationStore,
) -> None:
    request = AppendRequest(messages=drafts("red apple"))

    await organization.append_messages(
        request, actor=ACTOR, quota=UNBOUNDED, indexing=Indexing(is_queued=True)
    )

    assert (await organization.counters()).pending == 1


@pytest.mark.parametrize("tier", ["instant", "deep"])
async def test_vectors_of_another_embedder_are_neither_stored_nor_compared(
    organization: OrganizationStore, elsewhere: OrganizationStore, tier: Tier
) -> None:
    await append_meant(organization, "red apple", tier=tier, identity=QUICK)

    await append_meant(elsewhere, "red apple", tier=tier, identity=OTHER)

    assert (await organization.counters()).vectors == 1
    found = await ask(
        organization, query_of("red apple", tier=tier, identity=OTHER), terms=["appl"]
    )
    assert found.mismatched == (tier,)
    assert np.isnan(found.cosine).all()
    assert (found.share_message > 0).tolist() == [True, True]
    same = await ask(organization, query_of("red apple", tier=tier, identity=QUICK))
    assert same.mismatched == ()
    assert cosines(same) == pytest.approx({1: 1}, abs=0.02)


async def test_messages_whose_vectors_are_refused_wait_for_the_deep_embedder(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, "red apple", tier="deep", identity=DEEP)

    await append_meant(organization, "red pear", tier="deep", identity=OTHER)

    assert (await organization.counters()).pending == 1
    assert await embed_waiting(organization) == 1


async def test_a_tier_that_nobody_has_stored_is_no_mismatch(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, "red apple")

    found = await ask(organization, query_of("red apple", tier="deep", identity=DEEP))

    assert (found.mismatched, found.keys.tolist()) == ((), [])


async def test_a_query_of_other_dimensions_is_refused_and_harms_no_other(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, "red apple")
    wrong = QueryVector(tier="instant", identity=QUICK, vector=np.ones(5, dtype=np.float32))

    for _ in range(2):
        with pytest.raises(InvalidVectorError):
            await ask(organization, wrong)
        assert cosines(await ask(organization, query_of("red apple"))) == pytest.approx(
            {1: 1}, abs=0.02
        )


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
async def test_a_query_that_is_no_vector_is_refused(
    organization: OrganizationStore, value: float
) -> None:
    await append_meant(organization, "red apple")
    vector = np.full(8, value, dtype=np.float32)

    with pytest.raises(InvalidVectorError):
        await ask(organization, QueryVector(tier="instant", identity=QUICK, vector=vector))


async def test_vectors_of_other_dimensions_are_refused_with_their_messages(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, "red apple")
    vectors = NewVectors(tier="instant", identity=QUICK, messages=[passages_of("red pear", DEEP)])

    with pytest.raises(InvalidVectorError):
        await organization.append_messages(
            AppendRequest(messages=drafts("red pear")),
            actor=ACTOR,
            quota=UNBOUNDED,
            indexing=Indexing(vectors=vectors),
        )

    assert (await organization.counters()).messages == 1
    assert cosines(await ask(organization, query_of("red apple"))).keys() == {1}


KINDS: list[dict[str, Any]] = [
    {"agent_id": agent, "project": project, "tags": tags}
    for agent in ("otter", None)
    for project in ("river", "sea")
    for tags in (("deep", "blue"), ("blue",), ())
]
FILTERED = [
    SearchFilters(agent_id="otter"),
    SearchFilters(project="river"),
    SearchFilters(tags=("blue",)),
    SearchFilters(tags=("blue", "deep")),
    SearchFilters(role="assistant"),
    SearchFilters(since=SOME_DAY + timedelta(hours=2)),
    SearchFilters(before=SOME_DAY + timedelta(hours=2)),
    SearchFilters(agent_id="otter", tags=("blue",), role="user", since=SOME_DAY),
]


async def add(
    organization: OrganizationStore, messages: Sequence[MessageDraft], *, tier: Tier, **kind: Any
) -> None:
    """Add a conversation of a kind, with a vector for each message."""
    draft = ConversationDraft(**kind)
    conversation_id = await organization.create_conversation(draft, actor=ACTOR)
    texts = [message.content for message in messages]
    await organization.append_messages(
        AppendRequest(messages=tuple(messages), conversation_id=conversation_id),
        actor=ACTOR,
        quota=UNBOUNDED,
        indexing=indexing_of(texts, tier=tier, identity=QUICK),
    )


def said_hourly() -> list[MessageDraft]:
    """Return messages of two speakers by turns."""
    return [
        MessageDraft(
            role="assistant" if hour % 2 else "user",
            content=f"said at {hour}",
            occurred_at=SOME_DAY + timedelta(hours=hour),
        )
        for hour in range(4)
    ]


def nearest_of_all(filters: SearchFilters) -> list[MessageDraft]:
    """Return messages that are nearer than any other, and meet none of the filters."""
    moment = SOME_DAY + timedelta(days=-1 if filters.since else 1)
    near = MessageDraft(role="system", content="near", occurred_at=moment)
    return [near] * 50


def is_such(kind: dict[str, Any], message: MessageDraft, filters: SearchFilters) -> bool:
    moment = message.occurred_at
    assert moment is not None
    return (
        filters.agent_id in {None, kind["agent_id"]}
        and filters.project in {None, kind["project"]}
        and set(filters.tags) <= set(kind["tags"])
        and filters.role in {None, message.role}
        and (filters.since is None or moment >= filters.since)
        and (filters.before is None or moment < filters.before)
    )


@pytest.mark.parametrize("filters", FILTERED)
@pytest.mark.parametrize("tier", ["instant", "deep"])
async def test_filters_hold_before_vectors_are_ranked(
    organization: OrganizationStore, tier: Tier, filters: SearchFilters
) -> None:
    await add(organization, nearest_of_all(filters), tier=tier)
    for kind in KINDS:
        await add(organization, said_hourly(), tier=tier, **kind)
    query = query_of("near", tier=tier)

    few = await ask(organization, query, filters=filters, limit=3)
    every = await ask(organization, query, filters=filters, limit=1_000)

    meeting = [is_such(kind, message, filters) for kind in KINDS for message in said_hourly()]
    assert len(every.keys) == sum(meeting)
    assert not np.isnan(every.cosine).any()
    furthest_first = np.argsort(every.cosine, kind="stable")
    assert len(few.keys) == 3
    assert sorted(few.cosine.tolist()) == pytest.approx(every.cosine[furthest_first[-3:]].tolist())


async def test_a_conversation_is_searched_alone(organization: OrganizationStore) -> None:
    await append_meant(organization, *["near"] * 50)
    conversation_id = await append_meant(
        organization, "far away", "near", to=await begin(organization)
    )

    filters = SearchFilters(conversation_id=conversation_id)
    found = await ask(organization, query_of("near"), filters=filters, limit=5)

    assert found.sequences.tolist() == [1, 2]
    assert len(set(found.conversations.tolist())) == 1


async def test_an_unknown_conversation_is_an_error_for_vectors_too(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, "near")
    filters = SearchFilters(conversation_id=ConversationId("conv_unknown"))

    with pytest.raises(NotFoundError):
        await ask(organization, query_of("near"), filters=filters)


async def test_an_empty_store_has_no_candidates(organization: OrganizationStore) -> None:
    found = await ask(organization, query_of("near"), terms=["near"])

    assert (found.keys.tolist(), found.mismatched) == ([], ())
