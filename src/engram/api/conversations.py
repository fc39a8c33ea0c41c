"""Operations on conversations and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram import limits
from engram.api.lean import LeanText, add_messages, date_of, list_text
from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.model.access import Principal
from engram.model.conversation import (
    AppendReceipt,
    AppendRequest,
    Conversation,
    ConversationDraft,
    ConversationPage,
    ConversationQuery,
    DeletionReceipt,
    MessagePage,
    MessageQuery,
)
from engram.model.ids import ConversationId
from engram.model.request import Request
from engram.model.value import Value
from engram.text.quoting import label

if TYPE_CHECKING:
    from engram.service import Service

TOOLSET = "conversations"


class ConversationReference(Request):
    """Names one conversation."""

    conversation_id: ConversationId


class ConversationCreated(Value):
    """The id of a new conversation."""

    conversation_id: ConversationId


async def create_conversation(
    service: Service, principal: Principal, request: ConversationDraft
) -> ConversationCreated:
    created = await service.conversations.create_conversation(principal, request)
    return ConversationCreated(conversation_id=created)


def conversation_text(page: MessagePage, token_budget: int) -> str:
    """Return a page of a conversation in order of sequence."""
    text = LeanText(token_budget)
    head = f"{_conversation_head(page.conversation)}, {page.total} messages"
    hidden = add_messages(text, head, page.messages, is_in_order=True)
    shown = len(page.messages) - hidden
    if hidden and shown:
        offset = page.messages[shown].sequence - 1
        return text.finish([f"token_budget reached; go on with message_offset={offset}"])
    if hidden:
        return text.finish([head, "the first message does not fit: raise token_budget"])
    if not page.messages:
        text.add(f"{head}; none here")
    following = page.next_offset
    return text.finish([] if following is None else [f"go on with message_offset={following}"])


def conversations_text(page: ConversationPage, token_budget: int) -> str:
    """Return a page of conversations, a line each."""
    lines = [
        f"{_conversation_head(each)}, {each.message_count} messages, {date_of(each.updated_at)}"
        for each in page.conversations
    ]
    return list_text(lines, page.total, page.next_offset, token_budget, noun="conversations")


def _conversation_head(conversation: Conversation) -> str:
    return f"{conversation.id} {label(conversation.title or 'untitled')}"


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="append_messages",
        description="Keep messages verbatim: durable and searchable when this returns.",
        request=AppendRequest,
        answer=AppendReceipt,
        run=lambda service, me, request: service.conversations.append_messages(me, request),
        scopes=("write",),
        toolset=TOOLSET,
        body_bytes_max=limits.BODY_BYTES_MAX,
        tool=Tool(title="Keep messages"),
        routes=(
            Route(method="POST", path="/api/v1/conversations/{conversation_id}/messages"),
            Route(
                method="POST",
                path="/api/v1/messages",
                name="append_messages_to_default",
                description="Keep messages in the organisation's default conversation, unless the"
                " body names another.",
            ),
        ),
    ),
    Operation(
        name="create_conversation",
        description="Begin a conversation of its own, to append messages to.",
        request=ConversationDraft,
        answer=ConversationCreated,
        run=create_conversation,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Begin conversation"),
        routes=(Route(method="POST", path="/api/v1/conversations", status=201),),
        command=Command(words=("conversations", "create")),
    ),
    Operation(
        name="get_conversation",
        description="Read messages in order, a page at a time: go on at next_offset.",
        request=MessageQuery,
        answer=MessagePage,
        run=lambda service, me, request: service.conversations.get_conversation(me, request),
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="Read conversation", hints=("reads",), lean=conversation_text),
        routes=(Route(method="GET", path="/api/v1/conversations/{conversation_id}"),),
        command=Command(words=("conversations", "show"), arguments=("conversation_id",)),
    ),
    Operation(
        name="list_conversations",
        description="List conversations, last used first.",
        request=ConversationQuery,
        answer=ConversationPage,
        run=lambda service, me, request: service.conversations.list_conversations(me, request),
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="List conversations", hints=("reads",), lean=conversations_text),
        routes=(Route(method="GET", path="/api/v1/conversations"),),
        command=Command(words=("conversations", "list")),
    ),
    Operation(
        name="delete_conversation",
        description="Delete a conversation for good, when the user asks for it.",
        request=ConversationReference,
        answer=DeletionReceipt,
        run=lambda service, me, request: service.conversations.delete_conversation(
            me, request.conversation_id
        ),
        scopes=("delete",),
        toolset=TOOLSET,
        tool=Tool(title="Delete conversation", hints=("destroys", "repeatable")),
        routes=(Route(method="DELETE", path="/api/v1/conversations/{conversation_id}"),),
        command=Command(
            words=("conversations", "delete"),
            arguments=("conversation_id",),
            question="Delete the conversation {conversation_id} for good?",
        ),
    ),
)
