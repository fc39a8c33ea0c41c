"""A session of another program is stored once, whoever captures it, and not again once deleted."""

from __future__ import annotations

import asyncio

from engram.model.capture import CaptureRequest
from engram.model.conversation import MessageQuery
from engram.storage.organization import OrganizationStore
from tests.storage.captures import session
from tests.storage.drafts import ACTOR, UNBOUNDED


async def capture(organization: OrganizationStore, request: CaptureRequest) -> bool:
    return await organization.capture_messages(request, actor=ACTOR, quota=UNBOUNDED)


async def contents(organization: OrganizationStore, request: CaptureRequest) -> list[str]:
    left = await organization.find_uncaptured(request)
    page = await organization.get_conversation(MessageQuery(conversation_id=left.conversation_id))
    return [message.content for message in page.messages]


async def test_a_session_is_appended_in_the_order_of_arrival(
    organization: OrganizationStore,
) -> None:
    assert await capture(organization, session("a", "b"))
    assert await capture(organization, session("c"))

    assert ["said a", "said b", "said c"] == await contents(organization, session("a"))
    left = await organization.find_uncaptured(session("a", "d", "b"))
    assert ["d"] == [message.original_id for message in left.messages]
    page = await organization.get_conversation(MessageQuery(conversation_id=left.conversation_id))
    assert "Ferry" == page.conversation.title
    assert "harbour" == page.conversation.project
    assert [] == [finding async for finding in organization.verify()]


async def test_a_capture_with_a_known_message_stores_nothing(
    organization: OrganizationStore,
) -> None:
    await capture(organization, session("a"))

    assert not await capture(organization, session("b", "a"))
    assert ["said a"] == await contents(organization, session("a"))


async def test_two_processes_that_capture_at_once_store_one_copy(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    request = session(*map(str, range(20)))

    done = await asyncio.gather(capture(organization, request), capture(elsewhere, request))

    assert [False, True] == sorted(done)
    assert 20 == len(await contents(organization, request))


async def test_the_same_ids_in_another_session_are_other_messages(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    assert await capture(organization, session("a"))
    assert await capture(organization, session("a", name="s2"))
    assert await capture(other, session("a"))

    ids = {
        (await store.find_uncaptured(session("a", name=name))).conversation_id
        for store, name in ((organization, "s1"), (organization, "s2"), (other, "s1"))
    }
    assert 3 == len(ids)


async def test_a_deleted_session_is_not_captured_again(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await capture(organization, session("a"))
    conversation_id = (await organization.find_uncaptured(session("a"))).conversation_id

    await organization.delete_conversation(conversation_id, actor=ACTOR)

    left = await elsewhere.find_uncaptured(session("a", "b"))
    assert left.is_forgotten
    assert () == left.messages
    assert not await capture(elsewhere, session("b"))
    assert 0 == (await organization.counters()).conversations
    assert 0 == (await organization.counters()).stored_bytes
    assert [] == [finding async for finding in organization.verify()]


async def test_a_message_that_is_named_twice_is_stored_once(
    organization: OrganizationStore,
) -> None:
    left = await organization.find_uncaptured(session("a", "b", "a"))

    assert ["a", "b"] == [message.original_id for message in left.messages]
    assert not await capture(organization, session("a", "a"))
