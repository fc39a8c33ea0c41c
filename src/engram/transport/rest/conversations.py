"""Conversations, their messages, and searching them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from engram import limits
from engram.model.conversation import AppendReceipt, AppendRequest
from engram.model.ids import ConversationId
from engram.transport import answers, requests
from engram.transport.rest.needs import needs
from engram.transport.rest.routes import Call, JsonRoute

UNTITLED = requests.CreateConversation()
"""What an empty body asks for."""

router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["conversations"])


class SearchQuery(requests.Search):
    """The fields of `search` as parameters of an address."""

    query: Annotated[requests.Query, Field(alias="q")]


@router.post("/conversations/{conversation_id}/messages", operation_id="append_messages")
@needs("write", body_bytes_max=limits.BODY_BYTES_MAX)
async def append_messages(
    call: Call, conversation_id: str, body: requests.MessagesBody
) -> answers.MessagesAppended:
    """Keep messages verbatim; they are durable and findable when this is answered."""
    return await _append(call, body.to_append(conversation_id))


@router.post("/search", operation_id="search")
@needs("search")
async def search(call: Call, body: requests.Search) -> answers.SearchAnswered:
    """Find what was said, by its words, within a token budget."""
    return answers.search_answered(
        await call.service.recall.search(call.principal, body.to_model())
    )


@router.get("/search", operation_id="search_by_address")
@needs("search")
async def search_by_address(
    call: Call, query: Annotated[SearchQuery, Query()]
) -> answers.SearchAnswered:
    """Find what was said; the same as `search`, with its fields in the address."""
    return answers.search_answered(
        await call.service.recall.search(call.principal, query.to_model())
    )


@router.post("/messages", operation_id="append_messages_to_default")
@needs("write", body_bytes_max=limits.BODY_BYTES_MAX)
async def append_messages_to_default(
    call: Call, body: requests.AppendMessages
) -> answers.MessagesAppended:
    """Keep messages in the organisation's default conversation, unless the body names another."""
    return await _append(call, body.to_model())


@router.post("/conversations", operation_id="create_conversation", status_code=201)
@needs("write")
async def create_conversation(
    call: Call, body: requests.CreateConversation = UNTITLED
) -> answers.ConversationCreated:
    """Begin a conversation."""
    created = await call.service.conversations.create_conversation(call.principal, body.to_model())
    return {"conversation_id": created}


@router.get("/conversations", operation_id="list_conversations")
@needs("read")
async def list_conversations(
    call: Call, query: Annotated[requests.ListConversations, Query()]
) -> answers.ConversationsListed:
    """List conversations, with their true total."""
    page = await call.service.conversations.list_conversations(call.principal, query.to_model())
    return answers.conversations_listed(page)


@router.get("/conversations/{conversation_id}", operation_id="get_conversation")
@needs("read")
async def get_conversation(
    call: Call, conversation_id: str, query: Annotated[requests.MessagePageQuery, Query()]
) -> answers.ConversationRead:
    """Read a page of a conversation, verbatim."""
    asked = query.to_query(conversation_id)
    return answers.conversation_read(
        await call.service.conversations.get_conversation(call.principal, asked)
    )


@router.delete("/conversations/{conversation_id}", operation_id="delete_conversation")
@needs("delete")
async def delete_conversation(call: Call, conversation_id: str) -> answers.ConversationDeleted:
    """Remove a conversation with everything derived from it."""
    receipt = await call.service.conversations.delete_conversation(
        call.principal, ConversationId(conversation_id)
    )
    return answers.conversation_deleted(receipt)


async def _append(call: Call, request: AppendRequest) -> answers.MessagesAppended:
    receipt: AppendReceipt = await call.service.conversations.append_messages(
        call.principal, request
    )
    call.warn_of_quota(receipt.quota_warning)
    return answers.messages_appended(receipt)
