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
from engram.transport.requests.memories import (
    BatchedMemory,
    ConnectMemories,
    CorrectMemory,
    FetchMemory,
    ForgetMemory,
    InProject,
    ListMemories,
    ListProjects,
    MemoryCorrection,
    MemoryFeedback,
    MemoryHistoryOf,
    MemoryInput,
    MemoryStatusOf,
    StoreMemories,
    StoreMemory,
    Timeline,
)
from engram.transport.requests.notes import (
    FetchContext,
    ListEntries,
    RemoveEntry,
    StoreNote,
    StoreNotes,
)
from engram.transport.requests.recall import (
    RecallMemories,
)
from engram.transport.requests.request import Request, invalid_request
from engram.transport.requests.search import Search

__all__ = [
    "AppendMessages",
    "AuditQuery",
    "BackfillCompress",
    "BatchedMemory",
    "ConnectMemories",
    "CorrectMemory",
    "CreateConversation",
    "CreateKey",
    "CreateOrganization",
    "DeleteConversation",
    "FetchContext",
    "FetchMemory",
    "ForgetMemory",
    "GetConversation",
    "InProject",
    "ListConversations",
    "ListEntries",
    "ListMemories",
    "ListProjects",
    "MemoryCorrection",
    "MemoryFeedback",
    "MemoryHistoryOf",
    "MemoryInput",
    "MemoryStatusOf",
    "MessageInput",
    "MessagePageQuery",
    "MessagesBody",
    "Query",
    "RecallMemories",
    "RemoveEntry",
    "Request",
    "Search",
    "StoreMemories",
    "StoreMemory",
    "StoreNote",
    "StoreNotes",
    "Timeline",
    "invalid_request",
]
