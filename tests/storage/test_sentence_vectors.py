"""The contract of sentence vectors: they join a message's own, once, and are searched with it."""

from __future__ import annotations

import pytest

from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import MessageKey
from engram.model.row_keys import message_key
from engram.model.vectors import Embedded, Indexing, NewVectors
from engram.storage.organization import OrganizationStore
from tests.storage.drafts import ACTOR, UNBOUNDED, findings
from tests.storage.embedded import DEEP, OTHER, nearest, passages_of, whole_of
from tests.storage.memory_drafts import remember

ASIDE = "a hallway to paint and a kitten called Biscuit from the shelter"
OTHERS = ("a kitten is mentioned in this longer one too, and a shelter for kittens", "short")
FIRST = MessageKey(0)


@pytest.fixture
async def whole(organization: OrganizationStore) -> OrganizationStore:
    """Fill the store: each message has one deep vector, as earlier versions made them."""
    texts = (ASIDE, *OTHERS)
    vectors = [[whole_of(text, DEEP)] for text in texts]
    indexing = Indexing(vectors=NewVectors(tier="deep", identity=DEEP, messages=vectors))
    messages = tuple(MessageDraft(role="user", content=text) for text in texts)
    await organization.append_messages(
        AppendRequest(messages=messages), actor=ACTOR, quota=UNBOUNDED, indexing=indexing
    )
    return organization


async def undivided(organization: OrganizationStore, *, identity: str = DEEP) -> list[MessageKey]:
    """Return the messages that may lack vectors of sentences."""
    batch = await organization.read_undivided(
        identity, after=FIRST, limit=100, characters_max=1_000_000
    )
    return [message.key for message in batch.messages]


def divided() -> Embedded:
    """Return the vectors of the first message and of its parts."""
    passages = [whole_of(ASIDE, DEEP), *passages_of(ASIDE, DEEP)]
    return Embedded(key=message_key(1, 1), passages=passages)


async def test_a_message_is_found_by_its_sentence_beside_messages_without_any(
    whole: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    sentence = ASIDE[40:60]
    for organization in (whole, elsewhere):
        assert await nearest(organization, OTHERS[0]) == message_key(1, 2)

    assert await whole.add_missing_vectors(DEEP, [divided()]) == 1

    for organization in (whole, elsewhere):
        assert await nearest(organization, sentence) == message_key(1, 1)
        assert await nearest(organization, ASIDE) == message_key(1, 1)
        assert await nearest(organization, OTHERS[0]) == message_key(1, 2)
    assert await findings(whole) == []


async def test_vectors_that_are_there_are_not_added_again(whole: OrganizationStore) -> None:
    await whole.add_missing_vectors(DEEP, [divided()])
    before = await whole.counters()

    assert await whole.add_missing_vectors(DEEP, [divided()]) == 0

    assert await whole.counters() == before
    assert await findings(whole) == []


async def test_only_messages_of_conversations_with_one_vector_are_read(
    whole: OrganizationStore,
) -> None:
    await remember(whole, "a note of a length at which a message would be divided into sentences")
    assert await undivided(whole) == [message_key(1, 1), message_key(1, 2)]

    await whole.add_missing_vectors(DEEP, [divided()])

    assert await undivided(whole) == [message_key(1, 2)]


async def test_vectors_of_another_embedder_and_of_missing_messages_are_passed_over(
    whole: OrganizationStore,
) -> None:
    missing = Embedded(key=message_key(7, 1), passages=divided().passages)

    assert await whole.add_missing_vectors(OTHER, [divided()]) == 0
    assert await whole.add_missing_vectors(DEEP, [missing]) == 0

    assert await undivided(whole, identity=OTHER) == []
    assert await findings(whole) == []
