"""Conversations and messages: requests, and the stored values."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from engram import limits
from engram.errors import InvalidRequestError, RequestTooLargeError
from engram.model.access import QuotaWarning
from engram.model.fields import (
    DEFAULT_PROJECT,
    VISIBLE_ONLY,
    Between,
    Bytes,
    Length,
    Metadata,
    Name,
    Offset,
    Project,
    Tags,
    Title,
)
from engram.model.ids import ConversationId, MessageId
from engram.model.request import Request
from engram.model.trash import Restorable
from engram.model.value import INTERNAL, UNLISTED, Value, computed

Role = Literal["user", "assistant", "system", "tool", "document"]
"""The role of the speaker; `document` is a text without a speaker."""

ConversationSort = Literal["created_at", "updated_at", "message_count"]
SortOrder = Literal["asc", "desc"]

DEFAULT_CONVERSATION_TITLE = "Memory"

_TITLE_ROOM = 4
"""A title repeated at the start of a text may take this many times its characters, as line
breaks, blanks and heading marks come on top."""

IdempotencyKey = Annotated[
    str,
    Length(1, limits.IDEMPOTENCY_KEY_CHARACTERS_MAX),
    VISIBLE_ONLY,
    "The same key within 24 h stores nothing again.",
]


class ConversationDraft(Request):
    """A conversation to create."""

    title: Title | None = None
    agent_id: Name | None = None
    tags: Tags = ()
    metadata: Metadata = {}
    project: Project = DEFAULT_PROJECT


class ConversationChange(Request):
    """Changes to a conversation: an omitted field stays, null removes a title."""

    needs_a_field: ClassVar = True

    title: Title | UnsetType | None = UNSET
    tags: Annotated[Tags | UnsetType, "[] takes all away."] = UNSET
    metadata: Annotated[Metadata | UnsetType, "Replaces all of it."] = UNSET
    project: Annotated[Project | UnsetType, "Moves it there."] = UNSET

    def check(self) -> None:
        if not self.given:
            raise InvalidRequestError(
                "at least one of title, tags, metadata and project is required"
            )

    @property
    def given(self) -> dict[str, Any]:
        """Return the fields to change."""
        values = {
            "title": self.title,
            "tags": self.tags,
            "metadata": self.metadata,
            "project": self.project,
        }
        return {name: value for name, value in values.items() if value is not UNSET}


class MessageDraft(Request):
    """A message to append; `content` is stored verbatim."""

    role: Role
    content: Annotated[str, Bytes(limits.MESSAGE_BYTES_MAX), "Kept verbatim."]
    name: Annotated[Name | None, "Who speaks, if known."] = None
    tool_call_id: Name | None = None
    tool_name: Name | None = None
    occurred_at: Annotated[datetime | None, "When it was said."] = None
    metadata: Metadata | None = None


class AppendRequest(Request):
    """Messages to append atomically to a conversation, by default the default one."""

    messages: Annotated[tuple[MessageDraft, ...], Length(1, limits.MESSAGES_PER_CALL_MAX)]
    idempotency_key: IdempotencyKey | None = None
    conversation_id: Annotated[
        ConversationId | None, "Without it the default conversation takes them."
    ] = None

    def check(self) -> None:
        size = sum(len(message.content.encode()) for message in self.messages)
        if size > limits.CALL_BYTES_MAX:
            raise RequestTooLargeError(
                "messages", limit=limits.CALL_BYTES_MAX, actual=size, unit="bytes"
            )


class AppendReceipt(Value, omit_defaults=True):
    """Receipt of an append: the messages are durable and searchable when it is returned."""

    conversation_id: ConversationId
    message_ids: tuple[MessageId, ...]
    first_sequence: int
    last_sequence: int
    repeated: Annotated[bool, INTERNAL] = False
    """True if an earlier call with the same idempotency key stored the messages."""
    quota_warning: QuotaWarning = None

    @computed
    def appended(self) -> int:
        """Return how many messages were stored."""
        return len(self.message_ids)

    @computed
    def indexed(self) -> int:
        """Return how many messages are searchable: all, as an append indexes what it stores."""
        return len(self.message_ids)


class Conversation(Value):
    """A stored conversation."""

    id: ConversationId
    title: str | None
    agent_id: str | None
    project: str
    tags: tuple[str, ...]
    metadata: Metadata
    message_count: int
    created_at: datetime
    updated_at: datetime


class Message(Value, omit_defaults=True):
    """A stored message; its content is byte for byte what was sent."""

    id: MessageId
    sequence: int
    role: Role
    content: str
    name: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    occurred_at: datetime | None = None
    metadata: Metadata | None = None
    created_at: datetime


def is_called_by_title(message: MessageDraft | Message) -> bool:
    """Return True if the conversation's title is indexed with the message."""
    return message.role == "document" and message.name is None


def called(message: MessageDraft | Message, *, title: str | None) -> str | None:
    """Return the name indexed with a message: its speaker, or a document's title.

    A title that the document itself begins with is left out: its words would count twice.
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


class ConversationQuery(Request):
    """Filters, sort order and page of a list of conversations."""

    limit: Annotated[int, Between(1, limits.CONVERSATION_PAGE_MAX)] = 20
    offset: Offset = 0
    agent_id: Name | None = None
    project: Project | None = None
    tags: Annotated[Tags, "All must match."] = ()
    sort: ConversationSort = "updated_at"
    order: SortOrder = "desc"


class ConversationPage(Value):
    """One page of conversations and the total count."""

    conversations: tuple[Conversation, ...]
    total: int
    next_offset: int | None


class MessageQuery(Request):
    """Selects a page of messages of one conversation."""

    conversation_id: ConversationId
    message_limit: Annotated[int, Between(1, limits.MESSAGE_PAGE_MAX)] = 100
    message_offset: Offset = 0
    around_sequence: Annotated[
        int | None, Between(1, limits.CONVERSATION_MESSAGES_MAX), "Centre the page on this message."
    ] = None
    from_character: Annotated[
        int,
        Between(0, limits.MESSAGE_BYTES_MAX),
        "Begin at this character of it, to read on in a long message.",
    ] = 0
    """Of the first message of the page, which around_sequence then begins with."""

    def check(self) -> None:
        if self.around_sequence is not None and self.message_offset:
            raise InvalidRequestError(
                "cannot be combined with message_offset", field="around_sequence"
            )


class MessagePage(Value):
    """One page of a conversation's messages, ordered by sequence."""

    conversation: Conversation
    messages: tuple[Message, ...]
    total: int
    next_offset: int | None
    from_character: Annotated[int, INTERNAL] = 0
    """Where the content of the first message begins."""
    around_sequence: Annotated[int | None, INTERNAL] = None
    """The message that must be shown, if not all can be."""


class DeletionReceipt(Value, omit_defaults=True):
    """What a deletion removed; `receipt` is the id of its audit row."""

    messages: int
    chunks: int
    vectors: int
    receipt: str
    restorable_until: Restorable = None
    conversation_id: Annotated[ConversationId | None, UNLISTED] = None
    """What to restore it by, if that is possible."""

    @computed
    def deleted(self) -> Literal[True]:
        """Return True."""
        return True
