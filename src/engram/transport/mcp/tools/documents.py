"""The tools of documents, under the names that engram-go's clients know."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from engram import limits
from engram.model.access import Principal
from engram.service import Service
from engram.text.excerpts import brief
from engram.transport import answers, requests
from engram.transport.mcp.tools.tool import Answer, Tool, warned


async def _memory_store_document(
    service: Service, principal: Principal, request: requests.StoreDocument
) -> Answer:
    draft, body = request.to_model()
    stored = await service.documents.store_stream(principal, draft, _whole(body))
    answer = answers.document_stored(stored, summary=brief(request.content))
    return warned(answer, stored.quota_warning)


async def _memory_query_document(
    service: Service, principal: Principal, request: requests.QueryDocument
) -> Answer:
    queried = await service.document_queries.query(principal, request.to_model())
    return answers.document_queried(queried)


async def _memory_ingest_document_stream(
    service: Service, principal: Principal, request: requests.StreamDocument
) -> Answer:
    documents = service.documents
    match request.action:
        case "start":
            upload = await documents.begin_upload(principal, request.to_model())
        case "append":
            part, data = request.to_part()
            upload_id = request.to_upload_id()
            upload = await documents.add_part(principal, upload_id, part, data)
        case "finish":
            upload_id = request.to_upload_id()
            stored = await documents.finish_upload(principal, upload_id)
            return warned(answers.upload_finished(upload_id, stored), stored.quota_warning)
    warning = await service.account.quota_warning(principal)
    return warned(answers.upload_continued(upload), warning)


async def _whole(body: bytes) -> AsyncGenerator[bytes]:
    yield body


DOCUMENT_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        name="memory_store_document",
        title="Keep a document",
        description="Keep a long text, byte for byte; all of it is searched.",
        toolset="memories",
        request=requests.StoreDocument,
        answer=answers.DocumentStored,
        run=_memory_store_document,
        body_bytes_max=limits.BODY_BYTES_MAX,
    ),
    Tool(
        name="memory_query_document",
        title="Ask a document",
        description="Read the parts of a document or memory that match a filter or answer a question.",
        toolset="memories",
        request=requests.QueryDocument,
        answer=answers.DocumentQueried,
        run=_memory_query_document,
        reads=True,
    ),
    Tool(
        name="memory_ingest_document_stream",
        title="Keep a document in parts",
        description="Keep a document that one call cannot carry: start, append each part, finish.",
        toolset="maintenance",
        request=requests.StreamDocument,
        answer=answers.DocumentStreamed,
        run=_memory_ingest_document_stream,
        body_bytes_max=limits.UPLOAD_BODY_BYTES_MAX,
    ),
)
