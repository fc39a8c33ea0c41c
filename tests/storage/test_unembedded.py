"""The contract of messages that wait for deep vectors: leased once, newest first, and never lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import MessageKey
from engram.model.vectors import Embedded, Indexing, StoredIdentities, Unembedded
from engram.storage.organization import OrganizationStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import ACTOR, UNBOUNDED, append, begin, findings, opened
from tests.storage.embedded import DEEP, OTHER, append_meant, embed_waiting, passages_of
from tests.storage.memory_drafts import remember

LEASE = timedelta(minutes=1)


async def claim(
    organization: OrganizationStore,
    *,
    owner: str = "one",
    limit: int = 100,
    characters_max: int = 1_000_000,
) -> tuple[Unembedded, ...]:
    return await organization.claim_unembedded(
        owner=owner, lease=LEASE, limit=limit, characters_max=characters_max
    )


async def store(
    organization: OrganizationStore,
    messages: Iterable[Unembedded],
    *,
    owner: str = "one",
    identity: str = DEEP,
) -> int:
    embedded = [
        Embedded(key=message.key, passages=passages_of(message.content, identity))
        for message in messages
    ]
    return await organization.store_vectors(identity, embedded, owner=owner)


def texts(messages: Iterable[Unembedded]) -> list[str]:
    return [message.content for message in messages]


def keys(messages: Iterable[Unembedded]) -> list[MessageKey]:
    return [message.key for message in messages]


@pytest.fixture
async def waiting(organization: OrganizationStore) -> OrganizationStore:
    """Return a store in which five messages wait."""
    await append_meant(organization, *(f"text {number}" for number in range(5)))
    await organization.adopt_embedder(DEEP)
    return organization


async def count_vectors(folder: Path, organization: OrganizationStore, key: MessageKey) -> int:
    with opened(folder, organization) as connection:
        statement = "SELECT count(*) FROM vector WHERE key = ?"
        return connection.execute(statement, (key,)).fetchone()[0]


async def test_the_newest_messages_are_claimed_first(waiting: OrganizationStore) -> None:
    first = await claim(waiting, limit=2)
    await append(waiting, "text 5")
    second = await claim(waiting, limit=2)

    assert texts(first) == ["text 4", "text 3"]
    assert texts(second) == ["text 5", "text 2"]


async def test_the_oldest_that_waits_is_told_wherever_it_is_in_the_queue(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    assert await organization.oldest_unembedded() is None
    first = clock.now()
    await append(organization, "of the backlog")
    clock.advance(timedelta(hours=1))
    await append(organization, *(f"text {number}" for number in range(150)))
    await organization.adopt_embedder(DEEP)
    clock.advance(timedelta(hours=1))
    third = clock.now()
    await append(organization, "the newest")

    assert await organization.oldest_unembedded() == first
    await store(organization, (await claim(organization, limit=1000))[1:])
    assert await organization.oldest_unembedded() == third
    await embed_waiting(organization)
    assert await organization.oldest_unembedded() == third  # leased to another, it waits still


async def test_the_oldest_of_many_messages_and_memories_is_told(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await organization.adopt_embedder(DEEP)
    oldest = clock.now()
    for _ in range(3):
        await append(organization, *(f"text {number}" for number in range(150)))
        clock.advance(timedelta(hours=1))
        await remember(organization, "a memory")

    assert await organization.oldest_unembedded() == oldest


async def test_the_first_embedder_makes_old_messages_wait_once(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    await append(organization, "the oldest", "old")
    clock.advance(timedelta(hours=1))
    await begin(organization, "new")

    adopted = await asyncio.gather(
        *[one.adopt_embedder(DEEP) for one in (organization, elsewhere) for _ in range(3)]
    )

    assert adopted == [True] * 6
    assert (await organization.counters()).pending == 3
    assert texts(await claim(organization)) == ["new", "old", "the oldest"]


async def test_only_messages_without_deep_vectors_begin_to_wait(
    organization: OrganizationStore,
) -> None:
    await append(organization, "without")

    await append_meant(organization, "with", tier="deep", identity=DEEP)

    assert await organization.identities() == StoredIdentities(deep=DEEP)
    assert texts(await claim(organization)) == ["without"]


async def test_a_second_embedder_is_not_adopted(waiting: OrganizationStore) -> None:
    assert not await waiting.adopt_embedder(OTHER)
    assert await waiting.adopt_embedder(DEEP)

    assert (await waiting.identities()).deep == DEEP
    assert (await waiting.counters()).pending == 5


async def test_a_claim_has_what_is_embedded_and_how_often_it_was_tried(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    drafts = (MessageDraft(role="user", content="said by her", name="Ada"),)
    await organization.append_messages(
        AppendRequest(messages=drafts),
        actor=ACTOR,
        quota=UNBOUNDED,
        indexing=Indexing(is_queued=True),
    )

    for attempt in (1, 2, 3):
        (message,) = await claim(organization)
        assert (message.name, message.content) == ("Ada", "said by her")
        assert message.attempts == attempt
        clock.advance(LEASE)


async def test_nothing_is_claimed_where_nothing_waits(organization: OrganizationStore) -> None:
    await append(organization, "text")

    assert await claim(organization) == ()


@promise("processes")
async def test_a_claimed_message_is_nobody_elses_until_the_lease_ends(
    waiting: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    mine = await claim(waiting, limit=3)

    assert texts(await claim(elsewhere, owner="two")) == ["text 1", "text 0"]
    clock.advance(LEASE - timedelta(seconds=1))
    assert await claim(elsewhere, owner="three") == ()
    clock.advance(timedelta(seconds=1))
    assert keys(await claim(elsewhere, owner="three"))[:3] == keys(mine)


@promise("processes")
async def test_owners_at_once_never_get_the_same_message(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await append_meant(organization, *(f"text {number}" for number in range(100)))

    async def claim_all(store: OrganizationStore, owner: str) -> list[MessageKey]:
        claimed: list[MessageKey] = []
        while messages := await claim(store, owner=owner, limit=7):
            claimed += keys(messages)
        return claimed

    shares = await asyncio.gather(
        *[
            claim_all(store, f"{place} {number}")
            for place, store in (("here", organization), ("there", elsewhere))
            for number in range(3)
        ]
    )

    counts = Counter(key for share in shares for key in share)
    assert len(counts) == 100
    assert set(counts.values()) == {1}


@pytest.mark.parametrize(("characters_max", "count"), [(1, 1), (12, 2), (17, 2), (18, 3), (999, 5)])
async def test_a_claim_is_bounded_by_its_characters(
    waiting: OrganizationStore, characters_max: int, count: int
) -> None:
    assert len(await claim(waiting, characters_max=characters_max)) == count


async def test_a_lost_lease_stores_nothing(
    waiting: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock, tmp_path: Path
) -> None:
    mine = await claim(waiting, limit=2)
    clock.advance(LEASE)
    theirs = await claim(elsewhere, owner="two", limit=1)

    stored = await store(waiting, mine)

    assert stored == 1
    assert (await waiting.counters()).pending == 4
    assert await count_vectors(tmp_path, waiting, theirs[0].key) == 0
    assert await store(elsewhere, theirs, owner="two") == 1
    assert await store(elsewhere, theirs, owner="two") == 0
    assert await findings(waiting) == []


async def test_a_renewed_lease_lasts_longer(
    waiting: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    mine = await claim(waiting)
    clock.advance(LEASE / 2)

    await waiting.renew_unembedded(keys(mine), owner="one", lease=LEASE)
    await elsewhere.renew_unembedded(keys(mine), owner="two", lease=10 * LEASE)

    clock.advance(LEASE / 2)
    assert await claim(elsewhere, owner="two") == ()
    clock.advance(LEASE / 2)
    assert len(await claim(elsewhere, owner="two")) == 5


async def test_postponed_messages_wait_their_time_and_others_go_on(
    waiting: OrganizationStore, clock: FakeClock
) -> None:
    mine = await claim(waiting, limit=2)

    await waiting.postpone_unembedded(keys(mine), owner="one", delay=timedelta(hours=1))

    assert texts(await claim(waiting, owner="two")) == ["text 2", "text 1", "text 0"]
    assert (await waiting.counters()).pending == 5
    clock.advance(timedelta(minutes=59))
    assert not set(keys(mine)) & set(keys(await claim(waiting, owner="two")))
    clock.advance(timedelta(minutes=1))
    again = await claim(waiting, owner="two", limit=2)
    assert keys(again) == keys(mine)
    assert [message.attempts for message in again] == [2, 2]


async def test_messages_of_another_owner_cannot_be_postponed(waiting: OrganizationStore) -> None:
    mine = await claim(waiting)

    await waiting.postpone_unembedded(keys(mine), owner="two", delay=timedelta(0))

    assert await claim(waiting, owner="two") == ()
    assert await store(waiting, mine) == 5


async def test_a_message_given_back_can_be_claimed_at_once(waiting: OrganizationStore) -> None:
    mine = await claim(waiting)

    await waiting.postpone_unembedded(keys(mine), owner="one", delay=timedelta(0))

    assert keys(await claim(waiting, owner="two")) == keys(mine)


async def test_vectors_of_another_embedder_are_passed_over(waiting: OrganizationStore) -> None:
    mine = await claim(waiting)

    assert await store(waiting, mine, identity=OTHER) == 0

    assert (await waiting.counters()).pending == 5
    assert await store(waiting, mine) == 5


async def test_vectors_of_a_deleted_conversation_are_passed_over(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await append_meant(organization, "kept", to=await begin(organization))
    gone = await append_meant(organization, "gone", "gone", to=await begin(organization))
    await organization.adopt_embedder(DEEP)
    mine = await claim(organization)

    await elsewhere.delete_conversation(gone, actor=ACTOR)

    assert await store(organization, mine) == 1
    counters = await organization.counters()
    assert (counters.messages, counters.vectors, counters.pending) == (1, 1, 0)
    assert await findings(organization) == []


async def test_a_message_without_text_gets_its_vector(organization: OrganizationStore) -> None:
    await append_meant(organization, "", "text")

    assert await embed_waiting(organization) == 2
    assert await findings(organization) == []


async def test_a_damaged_message_is_left_waiting_and_others_go_on(
    waiting: OrganizationStore, clock: FakeClock, tmp_path: Path
) -> None:
    damage(tmp_path, waiting, sequences=[4])

    claimed = await claim(waiting)

    assert texts(claimed) == ["text 4", "text 2", "text 1", "text 0"]
    assert await store(waiting, claimed) == 4
    assert (await waiting.counters()).pending == 1
    assert await claim(waiting) == ()
    clock.advance(timedelta(days=1))
    restore(tmp_path, waiting)
    assert texts(await claim(waiting)) == ["text 3"]


async def test_damaged_messages_do_not_hide_those_that_can_be_read(
    waiting: OrganizationStore, tmp_path: Path
) -> None:
    damage(tmp_path, waiting, sequences=[3, 4, 5])

    assert texts(await claim(waiting, limit=2)) == ["text 1"]
    assert texts(await claim(waiting, limit=2)) == ["text 0"]
    assert await claim(waiting, limit=2) == ()


def damage(folder: Path, organization: OrganizationStore, *, sequences: Sequence[int]) -> None:
    with opened(folder, organization) as connection:
        connection.executemany(
            "UPDATE message SET content = 'x' || content WHERE key & 16777215 = ?",
            [(sequence,) for sequence in sequences],
        )


def restore(folder: Path, organization: OrganizationStore) -> None:
    with opened(folder, organization) as connection:
        connection.execute(
            "UPDATE message SET content = /*sqlite:*/ ltrim(content, 'x') /*postgres: ltrim(content, 'x'::bytea) */"
        )
