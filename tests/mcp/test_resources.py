"""The text of a resource is bounded and says what it left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.model.conversation import Conversation, Message, MessagePage
from engram.model.ids import ConversationId, MessageId
from engram.transport.mcp.resources import heading, memory_text, transcript
from tests.fakes import SOME_DAY
from tests.memories import a_memory


def page(*contents: str, total: int | None = None) -> MessagePage:
    conversation = Conversation(
        id=ConversationId("conv_1"),
        title=None,
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
            content=content,
            created_at=SOME_DAY,
        )
        for sequence, content in enumerate(contents, start=1)
    )
    return MessagePage(
        conversation=conversation, messages=messages, total=total or len(contents), next_offset=None
    )


def test_a_short_conversation_is_shown_whole() -> None:
    text = transcript(page("one", "two"), characters_max=100)

    assert text.endswith("[1] user: one\n\n[2] user: two")


def test_an_empty_conversation_is_its_heading() -> None:
    empty = page()

    assert transcript(empty, characters_max=100) == heading(empty.conversation)


def test_a_message_that_does_not_fit_is_left_to_the_next_call() -> None:
    text = transcript(page("one", "x" * 100, "three"), characters_max=50)

    assert "xxx" not in text
    assert text.endswith(
        '(2 of 3 messages are not shown: read on with get_conversation(conversation_id="conv_1",'
        " message_offset=1))"
    )


def test_a_first_message_longer_than_the_bound_is_cut_visibly() -> None:
    text = transcript(page("x" * 100), characters_max=50)

    assert "cut here" in text
    assert "message_offset=0" in text


def test_messages_past_the_first_page_are_counted() -> None:
    text = transcript(page("one", total=7), characters_max=50)

    assert "6 of 7 messages are not shown" in text


@given(st.lists(st.text(max_size=60), max_size=12), st.integers(20, 200))
def test_a_transcript_never_passes_its_bound_by_more_than_its_notices(
    contents: list[str], characters_max: int
) -> None:
    notices = 400

    text = transcript(page(*contents), characters_max=characters_max)

    assert len(text) <= characters_max + notices


@given(st.text(max_size=100))
def test_a_memory_that_fits_is_its_very_text(content: str) -> None:
    assert memory_text(a_memory(content), characters_max=100) == content


def test_a_long_memory_says_how_to_read_on() -> None:
    text = memory_text(a_memory("x" * 120, project='a "b"'), characters_max=100)

    assert text == (
        "x" * 100 + "\n\n(20 of 120 characters are not shown: read on with"
        ' memory_fetch(id="mem_x", project="a \\"b\\"", detail="chunk"))'
    )
