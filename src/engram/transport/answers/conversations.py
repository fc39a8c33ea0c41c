"""The answers about conversations and their messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.conversation import (
    AppendReceipt,
    Conversation,
    ConversationPage,
    DeletionReceipt,
    Message,
    MessagePage,
    Role,
)


class ConversationCreated(TypedDict):
    conversation_id: str


class MessagesAppended(TypedDict):
    conversation_id: str
    appended: int
    message_ids: list[str]
    first_sequence: int
    last_sequence: int
    indexed: int


class ConversationView(TypedDict):
    id: str
    title: str | None
    agent_id: str | None
    project: str
    tags: list[str]
    metadata: Mapping[str, Any]
    message_count: int
    created_at: str
    updated_at: str


class MessageView(TypedDict):
    id: str
    sequence: int
    role: Role
    content: str
    created_at: str
    name: NotRequired[str]
    tool_call_id: NotRequired[str]
    tool_name: NotRequired[str]
    occurred_at: NotRequired[str]
    metadata: NotRequired[Mapping[str, Any]]


class ConversationRead(TypedDict):
    conversation: ConversationView
    messages: list[MessageView]
    total: int
    next_offset: int | None


class ConversationsListed(TypedDict):
    conversations: list[ConversationView]
    total: int
    next_offset: int | None


class ConversationDeleted(TypedDict):
    deleted: Literal[True]
    messages: int
    chunks: int
    vectors: int
    receipt: str


def messages_appended(receipt: AppendReceipt) -> MessagesAppended:
    """A repeated call gets the first answer again."""
    count = len(receipt.message_ids)
    return {
        "conversation_id": receipt.conversation_id,
        "appended": count,
        "message_ids": list(receipt.message_ids),
        "first_sequence": receipt.first_sequence,
        "last_sequence": receipt.last_sequence,
        "indexed": count,
    }


def conversation_view(conversation: Conversation) -> ConversationView:
    return {
        "id": conversation.id,
        "title": conversation.title,
        "agent_id": conversation.agent_id,
        "project": conversation.project,
        "tags": list(conversation.tags),
        "metadata": conversation.metadata,
        "message_count": conversation.message_count,
        "created_at": format_time(conversation.created_at),
        "updated_at": format_time(conversation.updated_at),
    }


def message_view(message: Message) -> MessageView:
    """Absent fields are left out: an answer is paid for by the token."""
    view: MessageView = {
        "id": message.id,
        "sequence": message.sequence,
        "role": message.role,
        "content": message.content,
        "created_at": format_time(message.created_at),
    }
    if message.name is not None:
        view["name"] = message.name
    if message.tool_call_id is not None:
        view["tool_call_id"] = message.tool_call_id
    if message.tool_name is not None:
        view["tool_name"] = message.tool_name
    if message.occurred_at is not None:
        view["occurred_at"] = format_time(message.occurred_at)
    if message.metadata is not None:
        view["metadata"] = message.metadata
    return view


def conversation_read(page: MessagePage) -> ConversationRead:
    return {
        "conversation": conversation_view(page.conversation),
        "messages": [message_view(message) for message in page.messages],
        "total": page.total,
        "next_offset": page.next_offset,
    }


def conversations_listed(page: ConversationPage) -> ConversationsListed:
    return {
        "conversations": [conversation_view(item) for item in page.conversations],
        "total": page.total,
        "next_offset": page.next_offset,
    }


def conversation_deleted(receipt: DeletionReceipt) -> ConversationDeleted:
    return {
        "deleted": True,
        "messages": receipt.messages,
        "chunks": receipt.chunks,
        "vectors": receipt.vectors,
        "receipt": receipt.receipt,
    }
