"""What callers may send, for every transport: the shape here, the bounds proved by `engram.model`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.transport.exports import exports_from

if TYPE_CHECKING:
    from engram.transport.requests.access import (
        AuditQuery,
        BackfillCompress,
        ChangeOrganization,
        CreateKey,
        CreateOrganization,
        DeleteAccount,
        RotateKey,
        UsageQuery,
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
    from engram.transport.requests.document_query import (
        DocumentQuestion,
        QueryDocument,
    )
    from engram.transport.requests.documents import (
        BeginUpload,
        DocumentFields,
        ListDocuments,
        StoreDocument,
        StreamDocument,
    )
    from engram.transport.requests.fields import Query
    from engram.transport.requests.maintenance import (
        ConsolidateMemories,
        DeleteProject,
        DumpMemories,
        EndEpisode,
        ExportMemories,
        ImportFile,
        ListEpisodes,
        MigrateEmbedder,
        RecallEpisode,
        StartEpisode,
        SummarizeMemory,
        VerifyMemories,
    )
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
    from engram.transport.requests.request import (
        Location,
        Request,
        check_encodable,
        invalid_request,
    )
    from engram.transport.requests.search import Search

__all__ = [
    "AppendMessages",
    "AuditQuery",
    "BackfillCompress",
    "BatchedMemory",
    "BeginUpload",
    "ChangeOrganization",
    "ConnectMemories",
    "ConsolidateMemories",
    "CorrectMemory",
    "CreateConversation",
    "CreateKey",
    "CreateOrganization",
    "DeleteAccount",
    "DeleteConversation",
    "DeleteProject",
    "DocumentFields",
    "DocumentQuestion",
    "DumpMemories",
    "EndEpisode",
    "ExportMemories",
    "FetchContext",
    "FetchMemory",
    "ForgetMemory",
    "GetConversation",
    "ImportFile",
    "InProject",
    "ListConversations",
    "ListDocuments",
    "ListEntries",
    "ListEpisodes",
    "ListMemories",
    "ListProjects",
    "Location",
    "MemoryCorrection",
    "MemoryFeedback",
    "MemoryHistoryOf",
    "MemoryInput",
    "MemoryStatusOf",
    "MessageInput",
    "MessagePageQuery",
    "MessagesBody",
    "MigrateEmbedder",
    "Query",
    "QueryDocument",
    "RecallEpisode",
    "RecallMemories",
    "RemoveEntry",
    "Request",
    "RotateKey",
    "Search",
    "StartEpisode",
    "StoreDocument",
    "StoreMemories",
    "StoreMemory",
    "StoreNote",
    "StoreNotes",
    "StreamDocument",
    "SummarizeMemory",
    "Timeline",
    "UsageQuery",
    "VerifyMemories",
    "check_encodable",
    "invalid_request",
]

_MODULES = {
    "access": [
        "AuditQuery",
        "BackfillCompress",
        "ChangeOrganization",
        "CreateKey",
        "DeleteAccount",
        "RotateKey",
        "CreateOrganization",
        "UsageQuery",
    ],
    "conversations": [
        "AppendMessages",
        "CreateConversation",
        "DeleteConversation",
        "GetConversation",
        "ListConversations",
        "MessageInput",
        "MessagePageQuery",
        "MessagesBody",
    ],
    "document_query": [
        "DocumentQuestion",
        "QueryDocument",
    ],
    "documents": [
        "BeginUpload",
        "DocumentFields",
        "ListDocuments",
        "StoreDocument",
        "StreamDocument",
    ],
    "fields": [
        "Query",
    ],
    "maintenance": [
        "ConsolidateMemories",
        "DeleteProject",
        "DumpMemories",
        "EndEpisode",
        "ExportMemories",
        "ImportFile",
        "ListEpisodes",
        "MigrateEmbedder",
        "RecallEpisode",
        "StartEpisode",
        "SummarizeMemory",
        "VerifyMemories",
    ],
    "memories": [
        "BatchedMemory",
        "ConnectMemories",
        "CorrectMemory",
        "FetchMemory",
        "ForgetMemory",
        "InProject",
        "ListMemories",
        "ListProjects",
        "MemoryCorrection",
        "MemoryFeedback",
        "MemoryHistoryOf",
        "MemoryInput",
        "MemoryStatusOf",
        "StoreMemories",
        "StoreMemory",
        "Timeline",
    ],
    "notes": [
        "FetchContext",
        "ListEntries",
        "RemoveEntry",
        "StoreNote",
        "StoreNotes",
    ],
    "recall": [
        "RecallMemories",
    ],
    "request": [
        "Location",
        "Request",
        "check_encodable",
        "invalid_request",
    ],
    "search": [
        "Search",
    ],
}
"""Where each name is defined; the names are those of `__all__`."""

if not TYPE_CHECKING:  # To a checker it would say that there is any name.
    __getattr__ = exports_from(__name__, _MODULES)
