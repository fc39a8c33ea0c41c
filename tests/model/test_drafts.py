"""Values prove their bounds when they are constructed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.access import KeyDraft, OrganizationDraft
from engram.model.conversation import (
    AppendRequest,
    ConversationDraft,
    ConversationQuery,
    MessageDraft,
    MessageQuery,
)
from engram.model.ids import ConversationId
from engram.model.search import SearchRequest
from tests.promises import promise

A_MESSAGE = MessageDraft(role="user", content="hello")
SOME_CONVERSATION = ConversationId("conv_x")


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def wrong(value: str) -> Any:
    """Return a value that the type checker would refuse and a caller may still send."""
    return value


REFUSALS: list[tuple[str, str, Callable[[], object]]] = [
    ("messages", "invalid_request", lambda: AppendRequest(messages=())),
    ("messages", "limit_exceeded", lambda: AppendRequest(messages=(A_MESSAGE,) * 201)),
    ("role", "invalid_request", lambda: MessageDraft(role=wrong("robot"), content="x")),
    ("content", "limit_exceeded", lambda: MessageDraft(role="user", content="x" * 10_000_001)),
    ("content", "limit_exceeded", lambda: MessageDraft(role="user", content="é" * 5_000_001)),
    ("content", "invalid_request", lambda: MessageDraft(role="user", content="a\ud800b")),
    ("name", "invalid_request", lambda: MessageDraft(role="user", content="x", name="")),
    ("name", "invalid_request", lambda: MessageDraft(role="user", content="x", name="a\u202eb")),
    ("tool_name", "limit_exceeded", lambda: MessageDraft(role="tool", content="", tool_name="t" * 257)),
    ("occurred_at", "invalid_request", lambda: MessageDraft(role="user", content="x", occurred_at=datetime(2026, 1, 1))),  # noqa: DTZ001 - a time without a zone is the case
    ("occurred_at", "invalid_request", lambda: MessageDraft(role="user", content="x", occurred_at=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))))),
    ("metadata", "limit_exceeded", lambda: MessageDraft(role="user", content="x", metadata=nested(33))),
    ("metadata", "limit_exceeded", lambda: MessageDraft(role="user", content="x", metadata={"a": "x" * 65_536})),
    ("metadata", "invalid_request", lambda: MessageDraft(role="user", content="x", metadata={"a": float("nan")})),
    ("metadata", "invalid_request", lambda: MessageDraft(role="user", content="x", metadata={"a": "\udfff"})),
    ("idempotency_key", "limit_exceeded", lambda: AppendRequest(messages=(A_MESSAGE,), idempotency_key="k" * 257)),
    ("title", "limit_exceeded", lambda: ConversationDraft(title="t" * 1_025)),
    ("tags", "limit_exceeded", lambda: ConversationDraft(tags=tuple(map(str, range(51))))),
    ("tags[1]", "limit_exceeded", lambda: ConversationDraft(tags=("a", "b" * 257))),
    ("tags[0]", "invalid_request", lambda: ConversationDraft(tags=("",))),
    ("tags", "invalid_request", lambda: ConversationDraft(tags=("a", "a"))),
    ("project", "invalid_request", lambda: ConversationDraft(project="a\x00b")),
    ("project", "limit_exceeded", lambda: ConversationDraft(project="p" * 129)),
    ("limit", "invalid_request", lambda: ConversationQuery(limit=0)),
    ("limit", "invalid_request", lambda: ConversationQuery(limit=101)),
    ("offset", "invalid_request", lambda: ConversationQuery(offset=-1)),
    ("sort", "invalid_request", lambda: ConversationQuery(sort=wrong("title"))),
    ("order", "invalid_request", lambda: ConversationQuery(order=wrong("up"))),
    ("message_limit", "invalid_request", lambda: MessageQuery(conversation_id=SOME_CONVERSATION, message_limit=501)),
    ("message_offset", "invalid_request", lambda: MessageQuery(conversation_id=SOME_CONVERSATION, message_offset=-1)),
    ("around_sequence", "invalid_request", lambda: MessageQuery(conversation_id=SOME_CONVERSATION, around_sequence=0)),
    ("around_sequence", "invalid_request", lambda: MessageQuery(conversation_id=SOME_CONVERSATION, around_sequence=3, message_offset=1)),
    ("query", "invalid_request", lambda: SearchRequest(query=" \n")),
    ("query", "limit_exceeded", lambda: SearchRequest(query="q" * 100_001)),
    ("limit", "invalid_request", lambda: SearchRequest(query="q", limit=0)),
    ("limit", "invalid_request", lambda: SearchRequest(query="q", limit=201)),
    ("token_budget", "invalid_request", lambda: SearchRequest(query="q", token_budget=99)),
    ("min_score", "invalid_request", lambda: SearchRequest(query="q", min_score=1.1)),
    ("min_score", "invalid_request", lambda: SearchRequest(query="q", min_score=float("nan"))),
    ("kinds", "invalid_request", lambda: SearchRequest(query="q", kinds=())),
    ("detail", "invalid_request", lambda: SearchRequest(query="q", detail=wrong("all"))),
    ("since", "invalid_request", lambda: SearchRequest(query="q", since=datetime(2026, 1, 1))),  # noqa: DTZ001 - a time without a zone is the case
    ("role", "invalid_request", lambda: SearchRequest(query="q", role=wrong("robot"))),
    ("name", "invalid_request", lambda: KeyDraft(name="")),
    ("scopes", "invalid_request", lambda: KeyDraft(name="k", scopes=())),
    ("scopes[0]", "invalid_request", lambda: KeyDraft(name="k", scopes=(wrong("root"),))),
    ("name", "limit_exceeded", lambda: OrganizationDraft(name="o" * 257)),
    ("messages_max", "invalid_request", lambda: OrganizationDraft(name="o", messages_max=-1)),
]  # fmt: skip


@promise("clear")
@pytest.mark.parametrize(("field", "code", "construct"), REFUSALS)
def test_a_value_outside_its_bounds_is_refused_and_the_field_named(
    field: str, code: str, construct: Callable[[], object]
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        construct()

    assert (caught.value.field, caught.value.code) == (field, code)


def test_a_call_of_too_many_bytes_is_refused() -> None:
    large = MessageDraft(role="user", content="x" * limits.MESSAGE_BYTES_MAX)

    with pytest.raises(InvalidRequestError) as caught:
        AppendRequest(messages=(large,) * 4)

    assert (caught.value.field, caught.value.code) == ("messages", "request_too_large")


@promise("verbatim")
@pytest.mark.parametrize("content", ["", "\x00", "\r", "\x1b[31mred\x1b[0m", "a\u202eb", "🦝"])
def test_any_text_that_utf8_can_hold_is_a_message(content: str) -> None:
    assert MessageDraft(role="tool", content=content).content == content


def test_values_at_their_bounds_are_accepted() -> None:
    MessageDraft(role="user", content="x" * limits.MESSAGE_BYTES_MAX)
    ConversationDraft(title="t" * 1_024, tags=tuple(f"{n:0256}" for n in range(50)))
    SearchRequest(query="q" * 100_000, limit=200, token_budget=100_000, min_score=1.0)
    AppendRequest(messages=(A_MESSAGE,) * 200)
