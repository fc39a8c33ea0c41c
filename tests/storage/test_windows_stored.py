"""However messages arrive, the stored words are the same, and so are the windows that follow from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import ConversationId
from engram.model.row_keys import message_key, position_of
from engram.model.search import SearchFilters
from engram.storage.organization import OrganizationStore
from engram.storage.rows.queries import load_queries
from engram.storage.search.found import read_search_state
from engram.storage.sqlite.word_index import BLOCK_BITS
from engram.storage.tenant import Transaction
from engram.text.analyse import message_words, part_words
from tests.promises import promise
from tests.storage.drafts import ACTOR, UNBOUNDED, append, begin, find, findings
from tests.storage.word_store import texts_of_windows

pytestmark = promise("chunks")

_CONVERSATIONS = load_queries("conversations/conversations.sql")

WORDS = ("apple", "the", "Straße", "naïve", "don't", "snake_case", "日本語", "☃", "x1.2", "\x00")

drafts = st.builds(
    MessageDraft,
    role=st.sampled_from(["user", "assistant"]),
    content=st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
    name=st.sampled_from([None, "Ada"]),
    occurred_at=st.sampled_from([None, datetime(2024, 5, 7, tzinfo=UTC)]),
)


@dataclass(frozen=True, slots=True)
class Indexed:
    """What a store holds of words."""

    words: dict[int, Counter[str]]
    """Of each message of a conversation that has any."""
    lengths: dict[int, tuple[int, int]]
    """Of each message how many tell something, and how many are stop words."""
    windows: int
    window_words: int
    """Of all windows of all conversations together."""


async def read_indexed(
    organization: OrganizationStore, conversation_id: ConversationId, messages: list[MessageDraft]
) -> Indexed:
    assert isinstance(organization, OrganizationStore)
    tenant = organization._tenant  # pyright: ignore[reportPrivateUsage] - no method tells of words

    def read(tx: Transaction) -> Indexed:
        (number,) = tx.execute(_CONVERSATIONS["find_conversation"], id=conversation_id).fetchone()[
            :1
        ]
        keys = [message_key(number, place) for place in range(len(messages) + 9)]
        terms = sorted({word for message in messages for word in message_words(message).split()})
        held = tenant.words.postings(tx.connection, terms, organization_id=tenant.number)
        words: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for place, key, count in zip(*(column.tolist() for column in held), strict=True):
            words[position_of(key)][terms[place]] = count
        lengths = tenant.words.lengths(tx.connection, keys, organization_id=tenant.number)
        state = read_search_state(tx)
        return Indexed(
            dict(words),
            {position_of(key): (some, stops) for key, some, stops in lengths},
            *state.windows,
        )

    return await tenant.read(read)


def expected(messages: list[MessageDraft]) -> Indexed:
    """Return what the messages should give, by the definitions alone."""
    words = [message_words(message) for message in messages]
    windows = texts_of_windows(words)
    parted = [[len(part.split()) for part in part_words(text)] for text in words]
    return Indexed(
        {place: Counter(text.split()) for place, text in enumerate(words, 1) if text},
        {place: (telling, stops) for place, (telling, stops) in enumerate(parted, 1)},
        len(windows),
        sum(map(len, windows)),
    )


async def append_drafts(
    organization: OrganizationStore, conversation_id: ConversationId, some: list[MessageDraft]
) -> None:
    request = AppendRequest(messages=tuple(some), conversation_id=conversation_id)
    await organization.append_messages(request, actor=ACTOR, quota=UNBOUNDED)


@given(
    messages=st.lists(drafts, min_size=1, max_size=20),
    cuts=st.sets(st.integers(1, 19)),
    alternating=st.booleans(),
)
async def test_any_batching_gives_the_same_windows_and_words(
    organization: OrganizationStore,
    elsewhere: OrganizationStore,
    messages: list[MessageDraft],
    cuts: set[int],
    *,
    alternating: bool,
) -> None:
    conversation_id = await begin(organization)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(messages)), len(messages)]

    for start, end in pairwise(bounds):
        appender = elsewhere if alternating and start % 2 else organization
        await append_drafts(appender, conversation_id, messages[start:end])

    assert await read_indexed(organization, conversation_id, messages) == expected(messages)
    # Later examples begin with nothing again.
    await organization.delete_conversation(conversation_id, actor=ACTOR)
    assert await findings(organization) == []


async def test_a_conversation_longer_than_a_block_of_rows_is_found_whole(
    organization: OrganizationStore,
) -> None:
    long, short = await begin(organization), await begin(organization, "apple")
    while (await organization.counters()).messages <= 2**BLOCK_BITS + 1:
        await append(organization, *["apple"] * 200, to=long)
    last = (await organization.counters()).messages - 1

    for conversation_id, count in ((long, last), (short, 1)):
        filters = SearchFilters(conversation_id=conversation_id)
        found = await find(organization, "appl", filters=filters, limit=2 * last)
        assert len(found.keys) == count
        assert found.sequences.tolist() == list(range(1, count + 1))
        assert (found.share_message > 0).all()
        assert (found.share_window > 0).all()

    assert await findings(organization) == []
    await organization.delete_conversation(long, actor=ACTOR)
    while await organization.remove_leaving():
        pass
    assert (await organization.coverage()).messages_indexed == 1
