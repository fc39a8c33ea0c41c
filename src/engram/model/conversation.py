"""Conversations and their messages, as asked for and as stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError, RequestTooLargeError
from engram.model.checks import (
    check_label,
    check_metadata,
    check_moment,
    check_range,
    check_tags,
    check_text,
)
from engram.model.ids import ConversationId, MessageId

Role = Literal["user", "assistant", "system", "tool", "document"]
"""Who speaks; a document is a text that nobody said."""

ConversationSort = Literal["created_at", "updated_at", "message_count"]
SortOrder = Literal["asc", "desc"]

ROLES: tuple[str, ...] = get_args(Role)
DEFAULT_PROJECT = "default"
DEFAULT_CONVERSATION_TITLE = "Memory"

_TITLE_ROOM = 4
"""Where a text repeats its title it may take so many times the characters: lines, blanks, marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationDraft:
    """A conversation somebody wants to begin."""

    title: str | None = None
    agent_id: str | None = None
    project: str = DEFAULT_PROJECT
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.title is not None:
            check_text("title", self.title, bytes_max=limits.TITLE_BYTES_MAX)
        check_label("agent_id", self.agent_id, characters_max=limits.NAME_CHARACTERS_MAX)
        check_label("project", self.project, characters_max=limits.PROJECT_CHARACTERS_MAX)
        check_tags(self.tags)
        check_metadata(self.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDraft:
    """A message somebody wants kept; `content` is never changed."""

    role: Role
    content: str
    name: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    occurred_at: datetime | None = None
    metadata: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise InvalidRequestError(f"must be one of {', '.join(ROLES)}", field="role")
        check_text("content", self.content, bytes_max=limits.MESSAGE_BYTES_MAX)
        for label in ("name", "tool_call_id", "tool_name"):
            check_label(label, getattr(self, label), characters_max=limits.NAME_CHARACTERS_MAX)
        check_moment("occurred_at", self.occurred_at)
        check_metadata(self.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest:
    """Messages for one conversation, stored all or none; without an id, for the default one."""

    messages: tuple[MessageDraft, ...]
    conversation_id: ConversationId | None = None
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        if not self.messages:
            raise InvalidRequestError("must hold at least one message", field="messages")
        count = len(self.messages)
        if count > limits.MESSAGES_PER_CALL_MAX:
            raise LimitExceededError(
                "messages", limit=limits.MESSAGES_PER_CALL_MAX, actual=count, unit="messages"
            )
        size = sum(len(message.content.encode()) for message in self.messages)
        if size > limits.CALL_BYTES_MAX:
            raise RequestTooLargeError(
                "messages", limit=limits.CALL_BYTES_MAX, actual=size, unit="bytes"
            )
        check_label(
            "idempotency_key",
            self.idempotency_key,
            characters_max=limits.IDEMPOTENCY_KEY_CHARACTERS_MAX,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendReceipt:
    """Where the messages went. It is durable and findable when this is returned."""

    conversation_id: ConversationId
    message_ids: tuple[MessageId, ...]
    first_sequence: int
    last_sequence: int
    repeated: bool = False
    """True when an earlier call with the same idempotency key stored them."""
    quota_warning: str | None = None
    """Says so when the organisation has used most of its quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A stored conversation."""

    id: ConversationId
    title: str | None
    agent_id: str | None
    project: str
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    message_count: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A stored message, byte for byte as it came."""

    id: MessageId
    sequence: int
    role: Role
    content: str
    name: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    occurred_at: datetime | None = None
    metadata: Mapping[str, Any] | None = None
    created_at: datetime


def is_called_by_title(message: MessageDraft | Message) -> bool:
    """Return True if a message is searched together with the title of its conversation."""
    return message.role == "document" and message.name is None


def called(message: MessageDraft | Message, *, title: str | None) -> str | None:
    """Return what a message is called in searches: its speaker, or a document's title.

    A title with which the document itself begins says nothing more, and would count twice.
    """
    if not is_called_by_title(message):
        return message.name
    return None if title is None or _begins_with(message.content, title) else title


def _begins_with(content: str, title: str) -> bool:
    """Return True if a text begins with its title, as prose or as a heading."""
    sought = " ".join(title.split()).rstrip(" .").casefold()
    beginning = content[: _TITLE_ROOM * (len(title) + 1)].lstrip("\ufeff# \t\r\n")
    text = " ".join(beginning.split()).casefold()
    after = text[len(sought) : len(sought) + 1]
    return not sought or (text.startswith(sought) and not after.isalnum())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationQuery:
    """Which conversations to list, and in which order."""

    limit: int = 20
    offset: int = 0
    agent_id: str | None = None
    project: str | None = None
    tags: tuple[str, ...] = ()
    sort: ConversationSort = "updated_at"
    order: SortOrder = "desc"

    def __post_init__(self) -> None:
        check_range("limit", self.limit, minimum=1, maximum=limits.CONVERSATION_PAGE_MAX)
        check_range("offset", self.offset, minimum=0, maximum=limits.WHOLE_NUMBER_MAX)
        if self.sort not in get_args(ConversationSort):
            raise InvalidRequestError(
                f"must be one of {', '.join(get_args(ConversationSort))}", field="sort"
            )
        if self.order not in get_args(SortOrder):
            raise InvalidRequestError("must be asc or desc", field="order")
        check_tags(self.tags)
        check_label("agent_id", self.agent_id, characters_max=limits.NAME_CHARACTERS_MAX)
        check_label("project", self.project, characters_max=limits.PROJECT_CHARACTERS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPage:
    """One page of conversations and the true total."""

    conversations: tuple[Conversation, ...]
    total: int
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """Which messages of one conversation to read; `around_sequence` centres the page."""

    conversation_id: ConversationId
    message_limit: int = 100
    message_offset: int = 0
    around_sequence: int | None = None

    def __post_init__(self) -> None:
        check_range("message_limit", self.message_limit, minimum=1, maximum=limits.MESSAGE_PAGE_MAX)
        check_range(
            "message_offset", self.message_offset, minimum=0, maximum=limits.WHOLE_NUMBER_MAX
        )
        if self.around_sequence is not None:
            check_range(
                "around_sequence",
                self.around_sequence,
                minimum=1,
                maximum=limits.CONVERSATION_MESSAGES_MAX,
            )
            if self.message_offset:
                raise InvalidRequestError(
                    "give either message_offset or around_sequence", field="around_sequence"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """One page of a conversation in order of sequence."""

    conversation: Conversation
    messages: tuple[Message, ...]
    total: int
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionReceipt:
    """What a deletion removed; `receipt` is the id of its audit row."""

    messages: int
    chunks: int
    vectors: int
    receipt: str
