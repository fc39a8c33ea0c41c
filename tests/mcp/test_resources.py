"""The text of a resource is bounded and says what it left out."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from engram.mcp.resources import heading, memory_text, transcript
from engram.model.conversation import Conversation, Message, MessagePage
from engram.model.ids import ConversationId, MessageId
from engram.text.quoting import FIRST_LINE, SPOKEN_FIRST_LINE
from engram.text.tokens import count_tokens
from tests.fakes import SOME_DAY
from tests.memories import a_memory
from tests.promises import promise
from tests.text.hostile import STORED, UNSEEN


def page(
    *contents: str, total: int | None = None, title: str | None = None, name: str | None = None
) -> MessagePage:
    conversation = Conversation(
        id=ConversationId("conv_1"),
        title=title,
        agent_id=None,
        project="default",
        tags=(),
        metadata={},
        message_count=total or len(contents),
        created_at=SOME_DAY,
        updated_at=SOME_DAY,
    )
    messages = tuple(
        Message(
            id=MessageId(f"msg_{sequence}"),
            sequence=sequence,
            role="user",
            name=name,
            content=content,
            created_at=SOME_DAY,
        )
        for sequence, content in enumerate(contents, start=1)
    )
    return MessagePage(
        conversation=conversation, messages=messages, total=total or len(contents), next_offset=None
    )


def test_a_short_conversation_is_shown_whole() -> None:
    text = transcript(page("one", "two"), tokens_max=400)

    assert text.endswith("[1] user: one\n\n[2] user: two")


def test_an_empty_conversation_is_its_heading() -> None:
    empty = page()

    assert transcript(empty, tokens_max=400) == (
        f"{SPOKEN_FIRST_LINE}\n{heading(empty.conversation)}"
    )


def test_a_message_that_does_not_fit_is_left_to_the_next_call() -> None:
    text = transcript(page("one", "x " * 100, "three"), tokens_max=400)

    assert "x x" not in text
    assert text.endswith(
        "(2 of 3 messages are not shown in full: read on with"
        ' get_conversation(conversation_id="conv_1", message_offset=1))'
    )


def test_a_first_message_longer_than_the_bound_says_from_where_to_read_on() -> None:
    text = transcript(page("x " * 100), tokens_max=400)

    shown = text.count("x ") + text.count("x\n")
    assert 20 < shown < 100
    assert f"around_sequence=1, from_character={len('x ' * shown)}))" in text


def test_messages_past_the_first_page_are_counted() -> None:
    text = transcript(page("one", total=7), tokens_max=400)

    assert "6 of 7 messages are not shown" in text


@promise("bounded")
@given(st.lists(st.text(max_size=200), max_size=12), st.integers(400, 600))
def test_a_transcript_never_passes_its_bound(contents: list[str], tokens_max: int) -> None:
    text = transcript(page(*contents, title="a long title " * 40), tokens_max=tokens_max)

    assert count_tokens(text) <= tokens_max


@given(st.lists(STORED, max_size=5), STORED, STORED)
def test_no_stored_text_looks_like_a_message_or_a_line_of_ours(
    contents: list[str], title: str, name: str
) -> None:
    text = transcript(page(*contents, title=title, name=name), tokens_max=100_000)

    first, head, *lines = text.splitlines()
    assert first == SPOKEN_FIRST_LINE
    assert head.endswith(f"(conv_1, {len(contents)} messages, updated 2026-05-08T12:00:00.000000Z)")
    ours = [line for line in lines if line and not line.startswith("| ")]
    numbers = [re.match(r"\[(\d+)\] ", line) for line in ours]
    assert [number and number[1] for number in numbers] == [
        str(sequence) for sequence, _ in enumerate(contents, start=1)
    ]
    assert not set(UNSEEN) - set("\u200c\u200d\ufe0f") & set(text)


@given(STORED)
def test_a_memory_is_quoted_whole(content: str) -> None:
    first, *lines = memory_text(a_memory(content), tokens_max=100_000).splitlines()

    assert first == FIRST_LINE
    assert all(line.startswith("| ") for line in lines)
    assert len(lines) == 1 + content.replace("\r\n", "\n").count("\n")


@promise("bounded")
@given(st.lists(STORED, max_size=9).map("".join), st.integers(310, 340))
def test_a_memory_never_passes_its_bound(content: str, tokens_max: int) -> None:
    text = memory_text(a_memory(content, project="项目" * 64), tokens_max=tokens_max)

    assert count_tokens(text) <= tokens_max


def test_a_long_memory_says_how_to_read_on() -> None:
    text = memory_text(a_memory("x " * 120, project='a "b"'), tokens_max=400)

    quoted, _, how = text.partition("\n\n")
    shown = len(quoted.partition("\n| ")[2])
    assert f"({240 - shown} of 240 characters are not shown: read on with" in how
    assert how.endswith(
        f' memory_fetch(id="mem_x", project="a \\"b\\"", detail="full", from_character={shown}))'
    )
