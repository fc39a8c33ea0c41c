"""However messages arrive, the stored windows and word indexes are the same."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import ConversationId
from engram.model.search import SearchFilters
from engram.storage.ports import OrganizationStore
from engram.storage.tables.keys import (
    BLOCK_BITS,
    conversation_of,
    key_of_word_row,
    position_of,
)
from engram.text.analyse import message_words, window_words
from engram.text.windows import windows_of
from tests.storage.drafts import ACTOR, UNBOUNDED, append, begin, find, findings, opened

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
    """What the file holds of a conversation's windows and words."""

    chunks: list[tuple[int, int, int]]
    message_words: dict[int, list[str]]
    window_words: dict[int, list[str]]


def read_indexed(
    folder: Path, organization: OrganizationStore, conversation_id: ConversationId
) -> Indexed:
    with opened(folder, organization) as connection:
        (number,) = connection.execute(
            "SELECT number FROM conversation WHERE id = ?", (conversation_id,)
        ).fetchone()
        chunks = [
            (position_of(key), start, end)
            for key, start, end in connection.execute(
                "SELECT key, start_sequence, end_sequence FROM chunk ORDER BY key"
            )
            if conversation_of(key) == number
        ]
        words: list[dict[int, list[str]]] = []
        for table in ("message", "window"):
            found: dict[int, list[str]] = {
                position_of(key): []
                for (row,) in connection.execute(f"SELECT id FROM {table}_words_docsize")  # noqa: S608 - fixed names
                if conversation_of(key := key_of_word_row(row)) == number
            }
            places = connection.execute(
                f"SELECT doc, term FROM {table}_word_places ORDER BY doc, offset"  # noqa: S608 - fixed names
            )
            for row, term in places:
                if conversation_of(key := key_of_word_row(row)) == number:
                    found[position_of(key)].append(term)
            words.append(found)
    return Indexed(chunks, *words)


def expected(messages: list[MessageDraft]) -> Indexed:
    """Return what the messages should give, by the definitions alone."""
    words = [message_words(message) for message in messages]
    windows = windows_of(len(messages))
    return Indexed(
        [(window.number, window.start, window.end) for window in windows],
        {sequence: text.split() for sequence, text in enumerate(words, 1)},
        {
            window.number: window_words(words[window.start - 1 : window.end]).split()
            for window in windows
        },
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


async def test_a_tail_too_long_to_analyse_under_the_lock_is_read_before(
    organization: OrganizationStore,
    elsewhere: OrganizationStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "INLINE_CHARACTERS_MAX", 50)
    long = "word " * 20
    conversation_id = await begin(organization, long, "short")

    await append(elsewhere, "from another process", to=conversation_id)
    await append(organization, "and back", to=conversation_id)

    assert await findings(organization) == []


async def test_processes_that_append_long_messages_at_once_agree(
    organization: OrganizationStore,
    elsewhere: OrganizationStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "INLINE_CHARACTERS_MAX", 50)
    conversation_id = await begin(organization)
    long = "word " * 20

    await asyncio.gather(
        *[
            append(appender, f"{number} {long}", to=conversation_id)
            for number in range(5)
            for appender in (organization, elsewhere)
        ]
    )

    assert (await organization.counters()).messages == 10
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
    assert (await organization.coverage()).messages_indexed == 1
