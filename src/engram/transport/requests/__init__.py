"""What callers may send, for every transport: the shape here, the bounds proved by `engram.model`."""

from __future__ import annotations

from engram.transport.requests.access import (
    AuditQuery,
    BackfillCompress,
    CreateKey,
    CreateOrganization,
)
from engram.transport.requests.conversations import (
    AppendMessages,
    CreateConversation,
    DeleteConversation,
    GetConversation,
    ListConversations,
    MessageInput,
    MessagePageQuery,
    MessagesBody,
)
from engram.transport.requests.fields import Query
from engram.transport.requests.request import Request, invalid_request
from engram.transport.requests.search import Search

__all__ = [
    "AppendMessages",
    "AuditQuery",
    "BackfillCompress",
    "CreateConversation",
    "CreateKey",
    "CreateOrganization",
    "DeleteConversation",
    "GetConversation",
    "ListConversations",
    "MessageInput",
    "MessagePageQuery",
    "MessagesBody",
    "Query",
    "Request",
    "Search",
    "invalid_request",
]
