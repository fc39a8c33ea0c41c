"""However messages arrive, the stored words are the same, and so are the windows that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import ConversationId
from engram.model.search import SearchFilters
from engram.storage.ports import OrganizationStore
from engram.storage.sqlite.word_keys import BLOCK_BITS, key_of_word_row
from engram.storage.tables.keys import conversation_of, position_of
from engram.text.analyse import message_words, part_words
from tests.storage.drafts import ACTOR, UNBOUNDED, append, begin, find, findings, opened
from tests.storage.word_store import texts_of_windows

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
    """What the file holds of words."""

    words: dict[int, list[list[str]]]
    """Of each message of a conversation, without and with stop words alone."""
    windows: int
    window_words: int
    """Of all windows of all conversations together."""


def read_indexed(
    folder: Path, organization: OrganizationStore, conversation_id: ConversationId
) -> Indexed:
    with opened(folder, organization) as connection:
        (number,) = connection.execute(
            "SELECT number FROM conversation WHERE id = ?", (conversation_id,)
        ).fetchone()
        words: dict[int, list[list[str]]] = {
            position_of(key): [list[str](), list[str]()]
            for (row,) in connection.execute("SELECT id FROM message_words_docsize")
            if conversation_of(key := key_of_word_row(row)) == number
        }
        places = connection.execute(
            "SELECT doc, col = 'stops', term FROM message_word_places ORDER BY doc, offset"
        )
        for row, is_stop, term in places:
            if conversation_of(key := key_of_word_row(row)) == number:
                words[position_of(key)][int(is_stop)].append(term)
    return Indexed(words, *read_window_words(folder, organization))


def read_window_words(folder: Path, organization: OrganizationStore) -> tuple[int, int]:
    with opened(folder, organization) as connection:
        return connection.execute("SELECT chunks, window_words FROM counters, upkeep").fetchone()


def expected(messages: list[MessageDraft]) -> Indexed:
    """Return what the messages should give, by the definitions alone."""
    words = [message_words(message) for message in messages]
    windows = texts_of_windows(words)
    parted = ([part.split() for part in part_words(text)] for text in words)
    return Indexed(dict(enumerate(parted, 1)), len(windows), sum(map(len, windows)))


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
    tmp_path: Path,
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

    assert read_indexed(tmp_path, organization, conversation_id) == expected(messages)
    await organization.delete_conversation(conversation_id, actor=ACTOR)
    assert read_window_words(tmp_path, organization) == (0, 0)


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
    assert (await organization.coverage()).messages_indexed == 1
