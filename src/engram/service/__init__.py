"""The use cases of Engram, each one method: authorise, bound, transact."""

from __future__ import annotations

from dataclasses import dataclass

from engram.service.access import Access
from engram.service.account import Account
from engram.service.activity import Activity
from engram.service.background import Background
from engram.service.context import Contexts
from engram.service.conversations import Conversations
from engram.service.doctor import Doctor
from engram.service.document_indexing import DocumentIndexing
from engram.service.document_query import DocumentQueries
from engram.service.documents import Documents
from engram.service.indexing import Indexer
from engram.service.maintenance import Maintenance
from engram.service.memories import Memories
from engram.service.memory_recall import MemoryRecall
from engram.service.notes import Notes
from engram.service.operator import Operator
from engram.service.recall import Recall
from engram.service.reembedding import Reembedding

__all__ = ["Service"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Everything a transport may call."""

    access: Access
    activity: Activity
    account: Account
    background: Background
    contexts: Contexts
    conversations: Conversations
    doctor: Doctor
    document_indexing: DocumentIndexing
    document_queries: DocumentQueries
    documents: Documents
    indexer: Indexer
    maintenance: Maintenance
    memories: Memories
    memory_recall: MemoryRecall
    notes: Notes
    operator: Operator
    recall: Recall
    reembedding: Reembedding
