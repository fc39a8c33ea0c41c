"""What callers may send about conversations and their messages."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.conversation import (
    DEFAULT_PROJECT,
    AppendRequest,
    ConversationDraft,
    ConversationQuery,
    ConversationSort,
    MessageDraft,
    MessageQuery,
    Role,
    SortOrder,
)
from engram.model.ids import ConversationId
from engram.transport.requests.fields import LABEL, WHOLE, Moment, Name, Project, Tags
from engram.transport.requests.request import Request


class CreateConversation(Request):
    title: str | None = None
    agent_id: Name | None = None
    tags: Tags = []
    metadata: dict[str, Any] = {}
    project: Project = DEFAULT_PROJECT

    def to_model(self) -> ConversationDraft:
        return ConversationDraft(
            title=self.title,
            agent_id=self.agent_id,
            project=self.project,
            tags=tuple(self.tags),
            metadata=self.metadata,
        )


class MessageInput(Request):
    role: Role
    content: Annotated[str, Field(description="Kept verbatim.")]
    name: Annotated[Name | None, Field(description="Who speaks, if known.")] = None
    tool_call_id: Name | None = None
    tool_name: Name | None = None
    occurred_at: Annotated[Moment | None, Field(description="When it was said.")] = None
    metadata: dict[str, Any] | None = None

    def to_model(self) -> MessageDraft:
        return MessageDraft(
            role=self.role,
            content=self.content,
            name=self.name,
            tool_call_id=self.tool_call_id,
            tool_name=self.tool_name,
            occurred_at=self.occurred_at,
            metadata=self.metadata,
        )


Messages = Annotated[
    list[MessageInput], Field(min_length=1, max_length=limits.MESSAGES_PER_CALL_MAX)
]
IdempotencyKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=limits.IDEMPOTENCY_KEY_CHARACTERS_MAX,
        description="The same key within 24 h stores nothing again.",
    ),
    LABEL,
]


class MessagesBody(Request):
    """Messages whose conversation the address names."""

    messages: Messages
    idempotency_key: IdempotencyKey | None = None

    def to_append(self, conversation_id: str | None) -> AppendRequest:
        drafts = list[MessageDraft]()
        for index, message in enumerate(self.messages):
            try:
                drafts.append(message.to_model())
            except InvalidRequestError as exc:
                raise exc.within(f"messages[{index}]") from exc
        return AppendRequest(
            messages=tuple(drafts),
            conversation_id=None if conversation_id is None else ConversationId(conversation_id),
            idempotency_key=self.idempotency_key,
        )


class AppendMessages(MessagesBody):
    conversation_id: Annotated[
        str | None, Field(description="Without it the default conversation takes them.")
    ] = None

    def to_model(self) -> AppendRequest:
        return self.to_append(self.conversation_id)


class MessagePageQuery(Request):
    """Which messages of a conversation to read."""

    message_limit: Annotated[int, Field(ge=1, le=limits.MESSAGE_PAGE_MAX), WHOLE] = 100
    message_offset: Annotated[int, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), WHOLE] = 0
    around_sequence: Annotated[
        int | None,
        Field(
            ge=1,
            le=limits.CONVERSATION_MESSAGES_MAX,
            description="Centre the page on this message.",
        ),
        WHOLE,
    ] = None

    def to_query(self, conversation_id: str) -> MessageQuery:
        return MessageQuery(
            conversation_id=ConversationId(conversation_id),
            message_limit=self.message_limit,
            message_offset=self.message_offset,
            around_sequence=self.around_sequence,
        )


class GetConversation(MessagePageQuery):
    conversation_id: str

    def to_model(self) -> MessageQuery:
        return self.to_query(self.conversation_id)


class ListConversations(Request):
    limit: Annotated[int, Field(ge=1, le=limits.CONVERSATION_PAGE_MAX), WHOLE] = 20
    offset: Annotated[int, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), WHOLE] = 0
    agent_id: Name | None = None
    project: Project | None = None
    tags: Annotated[Tags, Field(description="All must match.")] = []
    sort: ConversationSort = "updated_at"
    order: SortOrder = "desc"

    def to_model(self) -> ConversationQuery:
        return ConversationQuery(
            limit=self.limit,
            offset=self.offset,
            agent_id=self.agent_id,
            project=self.project,
            tags=tuple(self.tags),
            sort=self.sort,
            order=self.order,
        )


class DeleteConversation(Request):
    conversation_id: str
