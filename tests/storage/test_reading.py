"""The contract of reading: pages, ranges, lists and look-ups by key."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.conversation import Conversation, ConversationQuery, MessageQuery
from engram.model.ids import CONVERSATION_PREFIX, ConversationId, ConversationKey, MessageKey
from engram.model.search import Candidates, SearchFilters
from engram.storage.organization import OrganizationStore
from tests.fakes import FakeClock
from tests.storage.drafts import ACTOR, append, begin, find
from tests.storage.finding import Kept

NOWHERE = ConversationId("conv_nowhere")
SHORT = len(CONVERSATION_PREFIX) + limits.CONVERSATION_REFERENCE_CHARACTERS
TEN = tuple(f"text {number}" for number in range(1, 11))


async def test_an_unknown_conversation_is_not_found(organization: OrganizationStore) -> None:
    with pytest.raises(NotFoundError):
        await organization.get_conversation(MessageQuery(conversation_id=NOWHERE))


async def test_an_id_that_is_no_text_is_refused(organization: OrganizationStore) -> None:
    no_text = ConversationId("conv_\ud800")

    for attempt in (
        organization.get_conversation(MessageQuery(conversation_id=no_text)),
        append(organization, "text", to=no_text),
        organization.delete_conversation(no_text, actor=ACTOR),
        find(organization, "word", filters=SearchFilters(conversation_id=no_text)),
    ):
        with pytest.raises(InvalidRequestError):
            await attempt


@pytest.mark.parametrize("start", [0, len(CONVERSATION_PREFIX)])
async def test_the_beginning_of_an_id_is_enough_to_read(
    organization: OrganizationStore, start: int
) -> None:
    conversation_id = await begin(organization, "a text about herons")
    beginning = ConversationId(conversation_id[start:-1])

    page = await organization.get_conversation(MessageQuery(conversation_id=beginning))
    found = await find(organization, "heron", filters=SearchFilters(conversation_id=beginning))

    assert page.conversation.id == conversation_id
    assert len(found.keys) == 1
    for attempt in (
        append(organization, "text", to=beginning),
        organization.delete_conversation(beginning, actor=ACTOR),
    ):
        with pytest.raises(NotFoundError):
            await attempt


async def test_a_beginning_that_several_ids_share_is_refused(
    organization: OrganizationStore,
) -> None:
    conversation_id = await begin(organization, "one")
    await begin(organization, "another")
    shared = ConversationId(conversation_id[:SHORT])

    with pytest.raises(InvalidRequestError) as refused:
        await organization.get_conversation(MessageQuery(conversation_id=shared))

    assert refused.value.field == "conversation_id"


async def test_a_beginning_that_is_too_short_is_not_found(organization: OrganizationStore) -> None:
    conversation_id = await begin(organization, "one")
    short = conversation_id[: SHORT - 1]

    with pytest.raises(NotFoundError):
        await organization.get_conversation(MessageQuery(conversation_id=ConversationId(short)))


async def test_pages_follow_each_other(organization: OrganizationStore) -> None:
    conversation_id = await begin(organization, *TEN)

    sequences: list[list[int]] = []
    offset: int | None = 0
    while offset is not None:
        page = await organization.get_conversation(
            MessageQuery(conversation_id=conversation_id, message_limit=4, message_offset=offset)
        )
        assert page.total == 10
        sequences.append([message.sequence for message in page.messages])
        offset = page.next_offset

    assert sequences == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


@pytest.mark.parametrize("offset", [10, 11, 2**53])
async def test_a_page_past_the_end_is_empty(organization: OrganizationStore, offset: int) -> None:
    conversation_id = await begin(organization, *TEN)

    page = await organization.get_conversation(
        MessageQuery(conversation_id=conversation_id, message_offset=offset)
    )

    assert (page.messages, page.total, page.next_offset) == ((), 10, None)


@pytest.mark.parametrize(
    ("around", "limit", "expected"),
    [
        (5, 3, [4, 5, 6]),
        (5, 4, [3, 4, 5, 6]),
        (1, 3, [1, 2, 3]),
        (10, 3, [8, 9, 10]),
        (9, 5, [6, 7, 8, 9, 10]),
        (3, 500, list(range(1, 11))),
        (7, 1, [7]),
    ],
)
async def test_a_page_can_be_centred_on_a_message(
    organization: OrganizationStore, around: int, limit: int, expected: list[int]
) -> None:
    conversation_id = await begin(organization, *TEN)

    page = await organization.get_conversation(
        MessageQuery(conversation_id=conversation_id, message_limit=limit, around_sequence=around)
    )

    assert [message.sequence for message in page.messages] == expected
    assert page.next_offset == (None if expected[-1] == 10 else expected[-1])


@pytest.mark.parametrize("texts", [(), TEN])
async def test_a_centre_past_the_end_is_an_error(
    organization: OrganizationStore, texts: tuple[str, ...]
) -> None:
    conversation_id = await begin(organization, *texts)

    with pytest.raises(InvalidRequestError) as caught:
        await organization.get_conversation(
            MessageQuery(conversation_id=conversation_id, around_sequence=len(texts) + 1)
        )

    assert caught.value.field == "around_sequence"


@pytest.mark.parametrize(
    ("asked", "expected", "next_offset"),
    [
        ({"message_offset": 0}, [1, 2], 2),
        ({"message_offset": 2}, [3], 3),
        ({"message_offset": 3}, [4, 5], None),
        ({"around_sequence": 3}, [3], 3),
    ],
)
async def test_a_page_too_large_for_memory_says_where_it_goes_on(
    organization: OrganizationStore,
    monkeypatch: pytest.MonkeyPatch,
    asked: dict[str, int],
    expected: list[int],
    next_offset: int | None,
) -> None:
    conversation_id = await begin(organization, "1" * 40, "2" * 60, "3" * 500, "4", "5")
    monkeypatch.setattr(limits, "PAGE_CHARACTERS_MAX", 100)

    page = await organization.get_conversation(
        MessageQuery(conversation_id=conversation_id, **asked)
    )

    assert [message.sequence for message in page.messages] == expected
    assert page.next_offset == next_offset


async def test_what_is_chosen_of_the_candidates_of_a_search_is_read_with_it(
    organization: OrganizationStore,
) -> None:
    one = await begin(organization, "apple", "pear")
    two = await begin(organization, "apple pie")

    def choose(found: Candidates) -> Kept:
        keys = [MessageKey(key) for key in (*found.keys.tolist(), 7)]
        numbers = [ConversationKey(number) for number in (*found.conversations.tolist(), 99)]
        return Kept(found, keys, numbers)

    kept, loaded = await organization.search(
        ["appl"], vectors=(), filters=SearchFilters(), now=0, limit=10, choose=choose
    )

    *keys, unknown = kept.messages
    assert sorted(message.content for message in loaded.messages.values()) == sorted(
        ["apple", "pear", "apple pie"]
    )
    assert unknown not in loaded.messages
    assert {conversation.id for conversation in loaded.conversations.values()} == {one, two}
    found = kept.candidates
    assert [loaded.messages[key].sequence for key in keys] == found.sequences.tolist()
    assert [len(loaded.messages[key].content) for key in keys] == found.characters.tolist()
    assert loaded.pending == 0


async def test_what_choosing_raises_reaches_the_searcher_and_harms_no_later_search(
    organization: OrganizationStore,
) -> None:
    await begin(organization, "apple")

    def refuse(found: Candidates) -> Kept:
        raise InvalidRequestError(f"not among {len(found.keys)}")

    with pytest.raises(InvalidRequestError, match="not among 1"):
        await organization.search(
            ["appl"], vectors=(), filters=SearchFilters(), now=0, limit=10, choose=refuse
        )

    assert len((await find(organization, "appl")).keys) == 1


async def test_a_range_of_messages_is_loaded_in_order(organization: OrganizationStore) -> None:
    await begin(organization, *TEN)
    await begin(organization, "another conversation")
    found = await find(organization, "text", limit=1)
    conversation = ConversationKey(found.conversations.tolist()[0])

    async def load(start: int, end: int) -> list[int]:
        messages = await organization.load_range(conversation, start=start, end=end)
        return [message.sequence for message in messages]

    assert await load(4, 8) == [4, 5, 6, 7, 8]
    assert await load(-5, 2) == [1, 2]
    assert await load(9, 2**40) == [9, 10]
    assert await load(11, 20) == []
    assert await load(5, 4) == []
    assert await organization.load_range(ConversationKey(99), start=1, end=5) == ()


async def list_titles(
    organization: OrganizationStore, query: ConversationQuery
) -> list[str | None]:
    page = await organization.list_conversations(query)
    assert page.total == len(page.conversations)
    return [conversation.title for conversation in page.conversations]


async def test_conversations_are_filtered_by_everything_asked(
    organization: OrganizationStore,
) -> None:
    await begin(organization, title="a", agent_id="x", tags=("red", "big"))
    await begin(organization, title="b", agent_id="y", tags=("red",))
    await begin(organization, title="c", agent_id="x", project="other", tags=("big", "red", "z"))

    async def titles(query: ConversationQuery) -> list[str | None]:
        return sorted(await list_titles(organization, query), key=str)

    assert await titles(ConversationQuery()) == ["a", "b", "c"]
    assert await titles(ConversationQuery(agent_id="x")) == ["a", "c"]
    assert await titles(ConversationQuery(project="default")) == ["a", "b"]
    assert await titles(ConversationQuery(tags=("red",))) == ["a", "b", "c"]
    assert await titles(ConversationQuery(tags=("red", "big"))) == ["a", "c"]
    assert await titles(ConversationQuery(tags=("red", "RED"))) == []
    assert await titles(ConversationQuery(agent_id="x", project="other", tags=("z",))) == ["c"]
    assert await titles(ConversationQuery(agent_id="y", tags=("big",))) == []


async def test_conversations_are_sorted_as_asked(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    ids: dict[str, ConversationId] = {}
    for title, texts in (("a", ("1", "2")), ("b", ()), ("c", ("1", "2", "3"))):
        ids[title] = await begin(organization, *texts, title=title)
        clock.advance(timedelta(seconds=1))
    await append(organization, "later", to=ids["a"])

    async def titles(query: ConversationQuery) -> str:
        return "".join(map(str, await list_titles(organization, query)))

    assert await titles(ConversationQuery()) == "acb"
    assert await titles(ConversationQuery(order="asc")) == "bca"
    assert await titles(ConversationQuery(sort="created_at")) == "cba"
    assert await titles(ConversationQuery(sort="created_at", order="asc")) == "abc"
    assert await titles(ConversationQuery(sort="message_count", order="asc")) == "bac"


async def test_conversations_of_one_moment_are_sorted_by_their_beginnings(
    elsewhere: OrganizationStore,
) -> None:
    begun = [await begin(elsewhere) for _ in range(8)]

    async def listed(query: ConversationQuery) -> list[ConversationId]:
        page = await elsewhere.list_conversations(query)
        return [conversation.id for conversation in page.conversations]

    assert await listed(ConversationQuery(order="asc")) == begun
    assert await listed(ConversationQuery(order="desc")) == begun[::-1]


@given(
    limit=st.integers(1, 9),
    sort=st.sampled_from(["created_at", "updated_at", "message_count"]),
    order=st.sampled_from(["asc", "desc"]),
    tagged=st.booleans(),
)
async def test_pages_of_conversations_hold_each_once(
    organization: OrganizationStore, limit: int, sort: str, order: str, *, tagged: bool
) -> None:
    if not (await organization.counters()).conversations:
        for number in range(11):
            tags = ("even",) if number % 2 == 0 else ()
            await begin(organization, *["text"] * (number % 3), tags=tags)
    tags = ("even",) if tagged else ()
    listed: list[Conversation] = []
    offset: int | None = 0

    while offset is not None:
        query = ConversationQuery(limit=limit, offset=offset, sort=sort, order=order, tags=tags)  # pyright: ignore[reportArgumentType] - drawn from the literals
        page = await organization.list_conversations(query)
        assert page.total == (6 if tagged else 11)
        listed.extend(page.conversations)
        offset = page.next_offset

    keys = [(getattr(conversation, sort), conversation.id) for conversation in listed]
    assert len(keys) == len(set(keys)) == (6 if tagged else 11)
    assert all((one < other) == (order == "asc") for one, other in pairwise(keys))


async def test_a_page_of_conversations_past_the_end_is_empty(
    organization: OrganizationStore,
) -> None:
    await begin(organization)

    page = await organization.list_conversations(ConversationQuery(offset=5))

    assert (page.conversations, page.total, page.next_offset) == ((), 1, None)
