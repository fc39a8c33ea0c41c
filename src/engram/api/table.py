"""The table of all operations, in the order in which clients see them."""

from __future__ import annotations

from engram.api import (
    account,
    admin,
    aliases,
    conversations,
    documents,
    maintenance,
    memories,
    notes,
    recall,
    search,
)
from engram.api.operation import AnyOperation

OPERATIONS: tuple[AnyOperation, ...] = (
    *search.OPERATIONS,
    *conversations.OPERATIONS,
    *notes.OPERATIONS,
    *memories.STORING,
    *recall.OPERATIONS,
    *memories.OPERATIONS,
    *aliases.OPERATIONS,
    *documents.OPERATIONS,
    *maintenance.OPERATIONS,
    *account.OPERATIONS,
    *admin.OPERATIONS,
)
