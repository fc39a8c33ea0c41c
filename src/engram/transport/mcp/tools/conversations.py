"""The tools of the toolset `conversations`, but for the one that searches."""

from __future__ import annotations

from typing import Any

from engram import limits
from engram.model.access import Principal
from engram.model.ids import ConversationId
from engram.service import Service
from engram.transport import answers, requests
from engram.transport.mcp.tools.tool import Answer, Tool, warned

TOOLSET = "conversations"


async def _create_conversation(
    service: Service, principal: Principal, request: requests.CreateConversation
) -> Answer:
    created = await service.conversations.create_conversation(principal, request.to_model())
    return answers.ConversationCreated(conversation_id=created)


async def _append_messages(
    service: Service, principal: Principal, request: requests.AppendMessages
) -> Answer:
    receipt = await service.conversations.append_messages(principal, request.to_model())
    return warned(answers.messages_appended(receipt), receipt.quota_warning)


async def _get_conversation(
    service: Service, principal: Principal, request: requests.GetConversation
) -> Answer:
    page = await service.conversations.get_conversation(principal, request.to_model())
    return answers.conversation_read(page)


async def _list_conversations(
    service: Service, principal: Principal, request: requests.ListConversations
) -> Answer:
    page = await service.conversations.list_conversations(principal, request.to_model())
    return answers.conversations_listed(page)


async def _delete_conversation(
    service: Service, principal: Principal, request: requests.DeleteConversation
) -> Answer:
    conversation_id = ConversationId(request.conversation_id)
    receipt = await service.conversations.delete_conversation(principal, conversation_id)
    return answers.conversation_deleted(receipt)


CONVERSATION_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        name="append_messages",
        title="Keep messages",
        description="Keep messages verbatim: durable and searchable when this returns.",
        toolset=TOOLSET,
        request=requests.AppendMessages,
        answer=answers.MessagesAppended,
        run=_append_messages,
        body_bytes_max=limits.BODY_BYTES_MAX,
    ),
    Tool(
        name="create_conversation",
        title="Begin conversation",
        description="Begin a conversation of its own, to append messages to.",
        toolset=TOOLSET,
        request=requests.CreateConversation,
        answer=answers.ConversationCreated,
        run=_create_conversation,
    ),
    Tool(
        name="get_conversation",
        title="Read conversation",
        description="Read messages in order, a page at a time: go on at next_offset.",
        toolset=TOOLSET,
        request=requests.GetConversation,
        answer=answers.ConversationRead,
        run=_get_conversation,
        reads=True,
    ),
    Tool(
        name="list_conversations",
        title="List conversations",
        description="List conversations, last used first.",
        toolset=TOOLSET,
        request=requests.ListConversations,
        answer=answers.ConversationsListed,
        run=_list_conversations,
        reads=True,
    ),
    Tool(
        name="delete_conversation",
        title="Delete conversation",
        description="Delete a conversation for good, when the user asks for it.",
        toolset=TOOLSET,
        request=requests.DeleteConversation,
        answer=answers.ConversationDeleted,
        run=_delete_conversation,
        destroys=True,
        repeatable=True,
    ),
)
