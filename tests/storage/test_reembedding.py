"""The contract of re-embedding: other vectors grow beside the old ones and take over at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from engram.errors import ConflictError
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import MessageKey
from engram.model.row_keys import kind_of, message_key
from engram.model.vectors import Embedded, ReembeddingBegun, StoredIdentities
from engram.storage.organization import OrganizationStore
from engram.storage.vectors import reembedding
from tests.storage.drafts import ACTOR, UNBOUNDED, append, begin, findings, opened
from tests.storage.embedded import (
    DEEP,
    OTHER,
    OWNER,
    QUICK,
    append_meant,
    embed_waiting,
    identity_of,
    nearest,
    passages_of,
    reembed,
    reembed_some,
)
from tests.storage.memory_drafts import remember

THIRD = identity_of("third", dimensions=12)
LONG = "a text that is long enough to have four passages, each with a vector"
FIRST = MessageKey(0)


def key_of(sequence: int, *, conversation: int = 1) -> MessageKey:
    return message_key(conversation, sequence)


@pytest.fixture
async def meant(organization: OrganizationStore) -> OrganizationStore:
    """Fill the store: messages 1 to 3 have deep vectors, 4 an instant one."""
    conversation_id = await append_meant(organization, "apple", "pear", LONG)
    await embed_waiting(organization)
    await append_meant(organization, "cherry", to=conversation_id)
    return organization


async def read_keys(
    organization: OrganizationStore,
    identity: str = OTHER,
    *,
    after: MessageKey | None = FIRST,
    limit: int = 100,
    characters_max: int = 1_000_000,
    without: tuple[MessageKey, ...] = (),
) -> list[MessageKey]:
    """Return the messages that are read next."""
    batch = await organization.read_unmoved(
        identity, after=after, limit=limit, characters_max=characters_max, without=without
    )
    return [message.key for message in batch.messages]


async def test_old_vectors_are_searched_until_the_new_ones_take_over(
    meant: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await meant.begin_reembedding(OTHER)
    await reembed_some(meant, OTHER)

    assert await meant.identities() == StoredIdentities(instant=QUICK, deep=DEEP, next=OTHER)
    for organization in (meant, elsewhere):
        assert await nearest(organization, "pear") == key_of(2)
        assert await nearest(organization, "pear", identity=OTHER) is None
    assert await findings(meant) == []

    assert await meant.finish_reembedding(OTHER)

    assert await meant.identities() == StoredIdentities(deep=OTHER)
    for organization in (meant, elsewhere):
        assert await nearest(organization, "pear") is None
        assert await nearest(organization, "pear", identity=OTHER) == key_of(2)
        assert await nearest(organization, "cherry", identity=OTHER) == key_of(4)
        assert await nearest(organization, "cherry", identity=QUICK, tier="instant") is None
    assert await findings(meant) == []


async def test_what_was_replaced_is_removed_afterwards(
    meant: OrganizationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reembedding, "ROWS_AT_ONCE", 2)
    before = (await meant.counters()).vectors
    await reembed(meant, OTHER)
    assert (await meant.counters()).vectors == before + 7

    assert await meant.drop_old_vectors() == before

    assert (await meant.counters()).vectors == 7
    assert await findings(meant) == []
    with opened(tmp_path, meant) as connection:
        roles = connection.execute("SELECT role, identity FROM embedder").fetchall()
    assert roles == [("deep", OTHER)]
    assert await meant.drop_old_vectors() == 0
    assert await nearest(meant, "apple", identity=OTHER) == key_of(1)


async def test_nobody_waits_for_old_vectors_after_the_new_ones_took_over(
    meant: OrganizationStore,
) -> None:
    assert (await meant.counters()).pending == 1

    await reembed(meant, OTHER)

    assert (await meant.counters()).pending == 0
    assert (await meant.coverage()).messages_deep == 4
    assert await embed_waiting(meant, identity=OTHER) == 0
    assert await findings(meant) == []


async def test_vectors_for_a_lease_that_is_older_than_the_change_are_not_stored(
    meant: OrganizationStore,
) -> None:
    (claimed,) = await meant.claim_unembedded(
        owner=OWNER, lease=timedelta(minutes=1), limit=9, characters_max=999
    )
    await reembed(meant, OTHER)

    embedded = [Embedded(key=claimed.key, passages=passages_of(claimed.content, DEEP))]

    assert await meant.store_vectors(DEEP, embedded, owner=OWNER) == 0
    assert await findings(meant) == []


async def test_messages_that_arrive_meanwhile_get_new_vectors_before_the_change(
    meant: OrganizationStore,
) -> None:
    await meant.begin_reembedding(OTHER)
    await reembed_some(meant, OTHER)
    later = await begin(meant)
    await append_meant(meant, "plum", to=later)
    await append_meant(meant, "fig", to=later, tier="deep", identity=DEEP)

    assert not await meant.finish_reembedding(OTHER)
    assert (await meant.identities()).deep == DEEP
    assert await reembed_some(meant, OTHER) == [
        key_of(1, conversation=2),
        key_of(2, conversation=2),
    ]

    assert await meant.finish_reembedding(OTHER)
    assert await nearest(meant, "plum", identity=OTHER) == key_of(1, conversation=2)
    assert await findings(meant) == []


async def test_a_conversation_deleted_meanwhile_leaves_no_vector(
    meant: OrganizationStore,
) -> None:
    conversation_id = await append_meant(meant, "plum", to=await begin(meant))
    await meant.begin_reembedding(OTHER)
    batch = await meant.read_unmoved(OTHER, after=key_of(99), limit=9, characters_max=999)
    await reembed_some(meant, OTHER, limit=2)
    embedded = [
        Embedded(key=message.key, passages=passages_of(message.content, OTHER))
        for message in batch.messages
    ]

    await meant.delete_conversation(conversation_id, actor=ACTOR)

    assert len(embedded) == 1
    assert await meant.store_next_vectors(OTHER, embedded) == 0
    await reembed(meant, OTHER)
    assert await nearest(meant, "plum", identity=OTHER) != key_of(1, conversation=2)
    assert await findings(meant) == []


async def test_begun_again_it_goes_on_where_it_was(
    meant: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    assert await meant.begin_reembedding(OTHER) == ReembeddingBegun(is_current=False, dropped=None)
    done = await reembed_some(meant, OTHER, limit=2)

    assert await elsewhere.begin_reembedding(OTHER) == ReembeddingBegun(
        is_current=False, dropped=None
    )
    assert done == [key_of(1), key_of(2)]
    assert await read_keys(elsewhere) == [key_of(3), key_of(4)]
    measured = await elsewhere.measure_unmoved(OTHER, passage_characters=20)
    assert (measured.messages, measured.unmoved, measured.passages) == (4, 2, 5)


async def test_begun_for_another_embedder_the_half_built_vectors_are_given_up(
    meant: OrganizationStore,
) -> None:
    before = (await meant.counters()).vectors
    await meant.begin_reembedding(OTHER)
    half_built = await reembed_some(meant, OTHER, limit=2)

    begun = await meant.begin_reembedding(THIRD)

    assert begun == ReembeddingBegun(is_current=False, dropped=OTHER)
    assert await findings(meant) == []
    for attempt in (
        meant.read_unmoved(OTHER, after=FIRST, limit=9, characters_max=999),
        meant.store_next_vectors(OTHER, []),
        meant.finish_reembedding(OTHER),
    ):
        with pytest.raises(ConflictError):
            await attempt
    assert await meant.drop_old_vectors() == len(half_built)
    assert (await meant.counters()).vectors == before
    await reembed(meant, THIRD)
    assert await nearest(meant, "apple", identity=THIRD) == key_of(1)


async def test_begun_for_the_deep_embedder_there_is_nothing_to_move(
    meant: OrganizationStore,
) -> None:
    await meant.begin_reembedding(OTHER)
    await reembed_some(meant, OTHER)

    begun = await meant.begin_reembedding(DEEP)

    assert begun == ReembeddingBegun(is_current=True, dropped=OTHER)
    assert await meant.identities() == StoredIdentities(instant=QUICK, deep=DEEP)
    assert await read_keys(meant, DEEP) == []
    assert await meant.store_next_vectors(DEEP, []) == 0
    assert await meant.finish_reembedding(DEEP)
    assert await meant.drop_old_vectors() == 7
    assert await findings(meant) == []


async def test_without_a_deep_embedder_the_first_one_is_it_at_once(
    organization: OrganizationStore,
) -> None:
    await append(organization, "apple", "pear")

    begun = await organization.begin_reembedding(DEEP)

    assert begun == ReembeddingBegun(is_current=True, dropped=None)
    assert (await organization.counters()).pending == 2
    assert await embed_waiting(organization) == 2
    assert await findings(organization) == []


async def test_messages_that_get_no_vector_wait_and_keep_their_instant_ones(
    meant: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    without = (key_of(3), key_of(4), key_of(77))
    await meant.begin_reembedding(OTHER)
    await reembed_some(meant, OTHER, limit=2)
    assert await nearest(elsewhere, "cherry", identity=QUICK, tier="instant") == key_of(4)
    assert not await meant.finish_reembedding(OTHER, without=without[1:])

    assert await meant.finish_reembedding(OTHER, without=without)

    assert await meant.identities() == StoredIdentities(instant=QUICK, deep=OTHER)
    assert (await meant.counters()).pending == 2
    coverage = await meant.coverage()
    assert (coverage.messages_deep, coverage.messages_instant) == (2, 1)
    assert await findings(meant) == []
    await meant.drop_old_vectors()
    assert await nearest(elsewhere, "cherry", identity=QUICK, tier="instant") == key_of(4)
    assert await embed_waiting(meant, identity=OTHER) == 2
    assert await findings(meant) == []


async def test_messages_are_read_in_order_within_bounds(meant: OrganizationStore) -> None:
    await meant.begin_reembedding(OTHER)

    assert await read_keys(meant, limit=2) == [key_of(1), key_of(2)]
    assert await read_keys(meant, characters_max=9) == [key_of(1), key_of(2)]
    assert await read_keys(meant, after=key_of(2), characters_max=0) == [key_of(3)]
    assert await read_keys(meant, without=(key_of(1), key_of(3))) == [key_of(2), key_of(4)]
    assert await read_keys(meant, after=key_of(4)) == []


async def test_processes_that_begin_together_begin_at_different_messages(
    meant: OrganizationStore,
) -> None:
    await meant.begin_reembedding(OTHER)
    await reembed_some(meant, OTHER, limit=1)

    begun = {(await read_keys(meant, after=None, limit=1))[0] for _ in range(100)}

    assert begun == {key_of(2), key_of(3), key_of(4)}


async def test_processes_begin_among_conversations_as_well_as_among_memories(
    meant: OrganizationStore,
) -> None:
    await remember(meant, "a memory", "another one", "a third one")
    for text in ("more", "and more"):
        await append_meant(meant, text, to=await begin(meant))
    await meant.begin_reembedding(OTHER)

    begun = {(await read_keys(meant, after=None, limit=1))[0] >> 24 for _ in range(200)}

    assert {kind_of(number) for number in begun} == {"conversation", "memory"}


async def test_a_message_that_two_processes_embed_is_stored_once(
    meant: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await meant.begin_reembedding(OTHER)
    batch = await meant.read_unmoved(OTHER, after=None, limit=100, characters_max=1_000)
    embedded = [
        Embedded(key=message.key, passages=passages_of(message.content, OTHER))
        for message in batch.messages
    ]

    stored = await asyncio.gather(
        meant.store_next_vectors(OTHER, embedded), elsewhere.store_next_vectors(OTHER, embedded)
    )

    assert sorted(stored) == [0, len(embedded)]
    assert await findings(meant) == []


async def test_a_message_that_cannot_be_read_is_told(
    meant: OrganizationStore, tmp_path: Path
) -> None:
    with opened(tmp_path, meant) as connection:
        connection.execute("UPDATE message SET content = 'x' WHERE key = ?", (key_of(2),))
    await meant.begin_reembedding(OTHER)

    batch = await meant.read_unmoved(OTHER, after=FIRST, limit=3, characters_max=1_000)

    assert [message.key for message in batch.messages] == [key_of(1), key_of(3)]
    assert batch.unreadable == (key_of(2),)
    assert batch.last == key_of(3)


async def test_a_message_of_a_lost_conversation_is_told(
    meant: OrganizationStore, tmp_path: Path
) -> None:
    await append_meant(meant, "plum", to=await begin(meant))
    with opened(tmp_path, meant) as connection:
        connection.execute("DELETE FROM conversation WHERE number = 2")
    await meant.begin_reembedding(OTHER)

    batch = await meant.read_unmoved(OTHER, after=key_of(4), limit=3, characters_max=1_000)

    assert (batch.messages, batch.unreadable) == ((), (key_of(1, conversation=2),))


async def test_the_names_of_speakers_are_read_with_their_messages(
    organization: OrganizationStore,
) -> None:
    message = MessageDraft(role="user", content="hello", name="Ann")
    await organization.append_messages(
        AppendRequest(messages=(message,)), actor=ACTOR, quota=UNBOUNDED
    )
    await organization.begin_reembedding(DEEP)
    await organization.begin_reembedding(OTHER)

    batch = await organization.read_unmoved(OTHER, after=None, limit=1, characters_max=1_000)

    assert [(one.name, one.content) for one in batch.messages] == [("Ann", "hello")]


async def test_instant_vectors_of_a_new_model_are_stored_after_the_change(
    meant: OrganizationStore,
) -> None:
    newer = identity_of("newer quick", dimensions=10)
    await append_meant(meant, "plum", identity=newer)
    assert (await meant.coverage()).messages_without_vector == 1

    await reembed(meant, OTHER)
    await append_meant(meant, "fig", identity=newer)

    assert await meant.identities() == StoredIdentities(instant=newer, deep=OTHER)
    assert (await meant.coverage()).messages_without_vector == 0
    assert await findings(meant) == []


async def test_there_and_back_again(meant: OrganizationStore, elsewhere: OrganizationStore) -> None:
    for identity in (OTHER, DEEP, OTHER):
        await reembed(meant, identity)

        assert await nearest(elsewhere, "apple", identity=identity) == key_of(1)
    assert await meant.drop_old_vectors() > 0
    assert (await meant.counters()).vectors == 7
    assert await findings(meant) == []


async def test_an_empty_store_changes_its_embedder_too(organization: OrganizationStore) -> None:
    await organization.begin_reembedding(DEEP)
    await organization.begin_reembedding(OTHER)

    assert await read_keys(organization, after=None) == []
    assert await organization.finish_reembedding(OTHER)

    assert await organization.identities() == StoredIdentities(deep=OTHER)
