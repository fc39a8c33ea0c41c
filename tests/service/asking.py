"""Documents to ask, and questions to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from engram.model.access import Principal
from engram.model.document import DocumentDraft, DocumentQuery, QueriedDocuments, StoredDocument
from engram.model.ids import MemoryId
from engram.model.memory import MemoryDraft
from engram.model.request import parse
from engram.model.value import replace
from engram.service import Service


async def in_pieces(data: bytes, *, piece: int = 60_000) -> AsyncIterator[bytes]:
    """Yield a body as it might arrive."""
    for start in range(0, len(data), piece):
        yield data[start : start + piece]


async def store_document(
    service: Service, principal: Principal, text: str, **draft: Any
) -> StoredDocument:
    """Store a text as a document, and index it whole."""
    stored = await service.documents.store_stream(
        principal, DocumentDraft(**draft), in_pieces(text.encode())
    )
    if stored.document.state == "indexing":
        organization_id = principal.organization_id
        await service.document_indexing.finish(organization_id, stored.document.id)
    return stored


async def store_text(service: Service, principal: Principal, content: str) -> MemoryId:
    """Store a memory that is no document."""
    kept = await service.memories.store(principal, MemoryDraft(content=content))
    return kept.memories[0].id


async def ask(
    service: Service,
    principal: Principal,
    *memory_ids: MemoryId,
    question: str = "what is it?",
    regex: str | None = None,
    substrings: tuple[str, ...] = (),
    **options: Any,
) -> QueriedDocuments:
    """Ask texts a question."""
    wanted = {"substrings": [*substrings]} | ({} if regex is None else {"regex": regex})
    given = {"memory_ids": [*memory_ids], "question": question, "filter": wanted}
    query = parse(DocumentQuery, given)
    return await service.search.query_document(principal, replace(query, **options))
