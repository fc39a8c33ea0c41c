"""Documents: sent and fetched as the bytes they are."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from engram import limits
from engram.model.document import StoredDocument
from engram.model.ids import DocumentId
from engram.transport import answers, requests
from engram.transport.rest import memory_inputs as inputs
from engram.transport.rest.bodies import announced_size, announced_type, document_response
from engram.transport.rest.needs import STREAMED, needs
from engram.transport.rest.paths import DocumentPath, PartPath
from engram.transport.rest.routes import Call, JsonRoute

router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["documents"])

BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
ANY_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/octet-stream": BINARY}}
}
DOWNLOAD: dict[int | str, dict[str, Any]] = {
    200: {"description": "The bytes as they came.", "content": {"*/*": BINARY}},
    206: {"description": "The range that was asked for.", "content": {"*/*": BINARY}},
    304: {"description": "The client has it already."},
    416: {"description": "The range begins past the end."},
}
UNNAMED = requests.BeginUpload()
"""What an empty body begins."""


@router.post(
    "/documents",
    operation_id="memory_store_document",
    status_code=201,
    openapi_extra=ANY_BODY,
)
@needs("write", body_bytes_max=STREAMED)
async def memory_store_document(
    call: Call, query: Annotated[requests.DocumentFields, Query()]
) -> answers.DocumentStored:
    """Keep a document: the body is its bytes, of any media type and sent as they come."""
    draft = query.to_draft(media_type=announced_type(call), size_bytes=announced_size(call))
    return _stored(
        call, await call.service.documents.store_stream(call.principal, draft, call.stream())
    )


@router.get("/documents", operation_id="list_documents")
@needs("read")
async def list_documents(
    call: Call, query: Annotated[requests.ListDocuments, Query()]
) -> answers.DocumentsListed:
    """List documents, newest first, with their true total."""
    page = await call.service.documents.list(call.principal, query.to_model())
    return answers.documents_listed(page)


@router.get(
    "/documents/{document_id:document_id}",
    operation_id="get_document",
    response_class=Response,
    responses=DOWNLOAD,
)
@needs("read")
async def get_document(call: Call, document_id: DocumentPath) -> Response:
    """Read a document's bytes, all or a range of them."""
    document = await call.service.documents.get(call.principal, document_id)
    return await document_response(call, document)


@router.head("/documents/{document_id:document_id}", include_in_schema=False)
@needs("read")
async def head_document(call: Call, document_id: DocumentPath) -> Response:
    """Say what `get_document` would send."""
    return await get_document(call, document_id)


@router.get("/documents/{document_id:document_id}/status", operation_id="document_status")
@needs("read")
async def document_status(call: Call, document_id: DocumentPath) -> answers.DocumentView:
    """Say what a document is, and how much of it is searched by now."""
    return answers.document_view(await call.service.documents.show(call.principal, document_id))


@router.post("/documents/{document_id:document_id}/query", operation_id="memory_query_document")
@needs("search")
async def memory_query_document(
    call: Call, document_id: DocumentPath, body: requests.DocumentQuestion
) -> answers.DocumentQueried:
    """Read the parts of a document, or of a memory, that match a filter or answer a question."""
    query = body.to_query((document_id,), project=None)
    return answers.document_queried(
        await call.service.document_queries.query(call.principal, query)
    )


@router.delete("/documents/{document_id:document_id}", operation_id="remove_document")
@needs("delete")
async def remove_document(
    call: Call, document_id: DocumentPath, query: Annotated[inputs.PurgeQuery, Query()]
) -> answers.EntryRemoved:
    """Remove a document with its memory and everything derived from it."""
    tombstone = await call.service.documents.remove(call.principal, document_id, force=query.force)
    return answers.entry_removed(tombstone)


@router.post("/documents/uploads", operation_id="begin_upload", status_code=201)
@needs("write")
async def begin_upload(call: Call, body: requests.BeginUpload = UNNAMED) -> answers.UploadView:
    """Begin a document that comes in parts; nobody sees it before it is finished."""
    upload = await call.service.documents.begin_upload(call.principal, body.to_model())
    return answers.upload_view(upload)


@router.get("/documents/uploads/{upload_id}", operation_id="get_upload")
@needs("write")
async def get_upload(call: Call, upload_id: str) -> answers.UploadView:
    """Say how much of an upload has arrived, to go on with it."""
    upload = await call.service.documents.find_upload(call.principal, DocumentId(upload_id))
    return answers.upload_view(upload)


@router.put(
    "/documents/uploads/{upload_id}/parts/{part:part}",
    operation_id="add_part",
    openapi_extra=ANY_BODY,
)
@needs("write", body_bytes_max=limits.UPLOAD_PART_BYTES_MAX)
async def add_part(call: Call, upload_id: str, part: PartPath) -> answers.UploadView:
    """Keep the next part, counted from 0; the last one sent again changes nothing."""
    async with call.receive_body(field="part") as data:
        upload = await call.service.documents.add_part(
            call.principal, DocumentId(upload_id), part, bytes(data)
        )
    return answers.upload_view(upload)


@router.post("/documents/uploads/{upload_id}/finish", operation_id="finish_upload", status_code=201)
@needs("write")
async def finish_upload(call: Call, upload_id: str) -> answers.DocumentStored:
    """Make a document of the parts; finished again, the first answer is given."""
    documents = call.service.documents
    return _stored(call, await documents.finish_upload(call.principal, DocumentId(upload_id)))


@router.delete("/documents/uploads/{upload_id}", operation_id="abort_upload", status_code=204)
@needs("write")
async def abort_upload(call: Call, upload_id: str) -> None:
    """Remove what has arrived of a document."""
    await call.service.documents.abort_upload(call.principal, DocumentId(upload_id))


def _stored(call: Call, stored: StoredDocument) -> answers.DocumentStored:
    call.warn_of_quota(stored.quota_warning)
    return answers.document_stored(stored)
