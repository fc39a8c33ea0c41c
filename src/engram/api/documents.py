"""Operations on documents: storing, uploading in parts, querying, listing and removing."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args
from urllib.parse import quote

from msgspec.structs import asdict

from engram import limits
from engram.api.document_query import DocumentQueried, queried_text, query_document
from engram.api.memories import Degraded, DocumentProgress, dated, document_progress
from engram.api.operation import STREAMED, Command, KeyOperation, Operation, Route, Tool
from engram.errors import InvalidRequestError
from engram.model.access import Principal, QuotaWarning
from engram.model.document import (
    TEXT_MEDIA_TYPE,
    Document,
    DocumentDraft,
    DocumentQuery,
    DocumentState,
    DocumentTier,
    OwnedDocument,
    StoredDocument,
    Upload,
)
from engram.model.fields import Between, Length, Name, Offset, Project, Tags, check_text
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import (
    Category,
    MemoryFilters,
    MemoryOptions,
    MemoryQuery,
    MemoryType,
    Tombstone,
)
from engram.model.request import Request
from engram.model.trash import Undo
from engram.model.value import Value, derived
from engram.text.excerpts import brief

if TYPE_CHECKING:
    from engram.service import Service

GROUP = "documents"
DocumentMode = Literal["document", "document_synopsis", "raw_document"]
"""How the owning memory represents the document, in engram-go's terms; indexed by tier."""

MODES: tuple[DocumentMode, ...] = get_args(DocumentMode)

UploadSize = Annotated[int, Between(1, limits.WHOLE_NUMBER_MAX), "Exactly as much must arrive."]


class DocumentFields(MemoryOptions):
    """The fields of a document: its name, and those of its memory."""

    name: Annotated[Name | None, "Its file name, or another."] = None

    def draft(self, *, media_type: str, size_bytes: int | None) -> DocumentDraft:
        """Return the draft of the document."""
        own = {name: getattr(self, name) for name in MemoryOptions.__struct_fields__}
        options = MemoryOptions(**own)
        return DocumentDraft(
            name=self.name,
            media_type=media_type,
            options=dated(options),
            size_bytes=size_bytes,
        )


class StoreDocument(DocumentFields):
    """A document sent in one call."""

    content: Annotated[str, Length(1), "Kept verbatim."]
    media_type: Name = TEXT_MEDIA_TYPE


class BeginUpload(DocumentFields):
    """A document to be uploaded in parts."""

    media_type: Name = TEXT_MEDIA_TYPE
    size_bytes: UploadSize | None = None


class StreamDocument(BeginUpload):
    """One step of an upload in parts."""

    action: Literal["start", "append", "finish"]
    upload_id: Annotated[DocumentId | None, "As start gave it."] = None
    part: Annotated[
        int | None, Between(0, limits.WHOLE_NUMBER_MAX), "0, 1, 2 …; may be repeated."
    ] = None
    data: Annotated[str | None, "Base64."] = None
    text: Annotated[str | None, "In place of data."] = None

    def upload(self) -> DocumentId:
        """Return the upload to continue; fields of the document are accepted at its start only."""
        for name in sorted({*BeginUpload.__struct_fields__} - {"project"}):
            if getattr(self, name) != getattr(_NO_FIELDS, name):
                raise InvalidRequestError("can only be given with action start", field=name)
        if self.upload_id is None:
            raise InvalidRequestError(f"is required to {self.action}", field="upload_id")
        return self.upload_id

    def sent(self) -> tuple[int, bytes]:
        """Return the number of the part and its bytes."""
        if self.part is None:
            raise InvalidRequestError("is required to append", field="part")
        if (self.data is None) == (self.text is None):
            raise InvalidRequestError(
                "is required to append, unless text is given instead", field="data"
            )
        return self.part, self._decoded() if self.text is None else self._encoded(self.text)

    def _decoded(self) -> bytes:
        try:
            return b64decode(self.data or "", validate=True)
        except ValueError as exc:
            raise InvalidRequestError("must be base64", field="data") from exc

    def _encoded(self, text: str) -> bytes:
        check_text("text", text, bytes_max=limits.UPLOAD_PART_BYTES_MAX)
        return text.encode()


_NO_FIELDS = BeginUpload()


class DocumentListing(Request):
    """Filters and page of a list of documents, newest first."""

    limit: Annotated[int, Between(1, limits.DOCUMENT_PAGE_MAX)] = 20
    offset: Offset = 0
    project: Annotated[Project | None, "Of this project alone."] = None
    tags: Annotated[Tags, "Any may match."] = ()


MEDIA_TYPE = re.compile(
    r"[\w.+-]+/[\w.+-]+(?:;[ \t]*[\w.+-]+=(?:[\w.+:-]+|\"[\w .+:-]*\"))*", re.ASCII
)

UNKNOWN_TYPE = "application/octet-stream"
"""The type of a body that declares none; its name and its bytes decide."""


def download_headers(document: Document) -> dict[str, str]:
    """Return the headers of a document's body, with which nothing in it runs in a browser."""
    is_plain = MEDIA_TYPE.fullmatch(document.media_type) is not None
    digest = b64encode(bytes.fromhex(document.sha256)).decode()
    name = quote(document.name or document.id, safe="")
    return {
        "content-type": document.media_type if is_plain else UNKNOWN_TYPE,
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'",
        "cache-control": "private, no-cache",
        "repr-digest": f"sha-256=:{digest}:",
    }


class DocumentReference(Request):
    """Names one document, or the memory that owns it."""

    document_id: str


class DocumentRemoval(DocumentReference):
    """The document to remove."""

    force: Annotated[bool, "Remove it even if it is immutable."] = False
    undo: Undo = False


class UploadReference(Request):
    """Names one upload."""

    upload_id: DocumentId


class UploadPart(UploadReference):
    """Names one part of an upload."""

    part: Annotated[int, Between(0, 999_999_999)]


class DocumentStored(Value, omit_defaults=True):
    """Result of storing a document."""

    id: MemoryId
    """Id of the memory that owns it."""
    status: Literal["stored"]
    document_id: DocumentId
    mode: DocumentMode
    tier: DocumentTier
    size_bytes: int
    sha256: str
    state: DocumentState
    degraded: Degraded
    summary: str | None = None
    """Only for a document that is not the whole content of its memory."""
    duplicate_of: MemoryId | None = None
    problem: str | None = None
    quota_warning: QuotaWarning = None


class DocumentView(DocumentProgress, omit_defaults=True):
    """A document's fields and indexing progress."""

    name: str | None
    media_type: str
    mode: DocumentMode
    tier: DocumentTier
    size_bytes: int
    sha256: str
    project: str
    memory_type: MemoryType
    category: Category
    tags: tuple[str, ...]
    created_at: datetime
    forgotten: bool = False


class DocumentsListed(Value):
    """One page of documents, newest first."""

    documents: tuple[DocumentView, ...]
    count: int
    total: int
    next_offset: int | None


class UploadView(Value):
    """How much of an upload has arrived."""

    upload_id: DocumentId
    parts: int
    """How many have arrived; the next one has this number."""
    received_bytes: int
    expires_at: datetime


class DocumentStreamed(Value, omit_defaults=True):
    """Progress of an upload in parts; once it is finished, the fields of `DocumentStored`."""

    status: Literal["uploading", "stored"]
    upload_id: DocumentId
    parts: int | None = None
    """How many have arrived; the next one has this number."""
    received_bytes: int | None = None
    expires_at: datetime | None = None
    id: MemoryId | None = None
    document_id: DocumentId | None = None
    mode: DocumentMode | None = None
    tier: DocumentTier | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    state: DocumentState | None = None
    degraded: Degraded | None = None
    duplicate_of: MemoryId | None = None
    problem: str | None = None
    quota_warning: QuotaWarning = None


async def store_document(
    service: Service, principal: Principal, request: StoreDocument
) -> DocumentStored:
    check_text("content", request.content, bytes_max=limits.BODY_BYTES_MAX)
    body = request.content.encode()
    draft = request.draft(media_type=request.media_type, size_bytes=len(body))
    stored = await service.documents.store_stream(principal, draft, _whole(body))
    return document_stored(stored, summary=brief(request.content))


async def _whole(body: bytes) -> AsyncGenerator[bytes]:
    yield body


async def stream_document(
    service: Service, principal: Principal, request: StreamDocument
) -> DocumentStreamed:
    documents = service.documents
    match request.action:
        case "start":
            draft = request.draft(media_type=request.media_type, size_bytes=request.size_bytes)
            upload = await documents.begin_upload(principal, draft)
        case "append":
            part, data = request.sent()
            upload = await documents.add_part(principal, request.upload(), part, data)
        case "finish":
            upload_id = request.upload()
            stored = document_stored(await documents.finish_upload(principal, upload_id))
            fields = asdict(stored)
            del fields["summary"]
            return DocumentStreamed(upload_id=upload_id, **fields)
    warning = await service.account.quota_warning(principal)
    return DocumentStreamed(
        status="uploading", quota_warning=warning, **asdict(upload_view(upload))
    )


async def list_documents(
    service: Service, principal: Principal, request: DocumentListing
) -> DocumentsListed:
    filters = MemoryFilters(
        projects=None if request.project is None else (request.project,), tags=request.tags
    )
    query = MemoryQuery(limit=request.limit, offset=request.offset, filters=filters)
    page = await service.documents.list(principal, query)
    return DocumentsListed(
        documents=tuple(map(document_view, page.documents)),
        count=len(page.documents),
        total=page.total,
        next_offset=page.next_offset,
    )


async def document_status(
    service: Service, principal: Principal, request: DocumentReference
) -> DocumentView:
    return document_view(await service.documents.show(principal, request.document_id))


async def begin_upload(service: Service, principal: Principal, request: BeginUpload) -> UploadView:
    draft = request.draft(media_type=request.media_type, size_bytes=request.size_bytes)
    return upload_view(await service.documents.begin_upload(principal, draft))


async def get_upload(
    service: Service, principal: Principal, request: UploadReference
) -> UploadView:
    return upload_view(await service.documents.find_upload(principal, request.upload_id))


async def finish_upload(
    service: Service, principal: Principal, request: UploadReference
) -> DocumentStored:
    return document_stored(await service.documents.finish_upload(principal, request.upload_id))


async def abort_upload(service: Service, principal: Principal, request: UploadReference) -> None:
    await service.documents.abort_upload(principal, request.upload_id)


async def not_json(_: Service, __: Principal, request: Request) -> Any:
    """Placeholder for operations whose body or answer is not JSON; see `engram.http.documents`."""
    raise TypeError(
        f"{type(request).__name__} has a body that is not JSON: only HTTP routes can carry it"
    )


def document_stored(stored: StoredDocument, *, summary: str | None = None) -> DocumentStored:
    """Return the answer for a stored document."""
    document = stored.document
    return derived(
        DocumentStored,
        document,
        stored,
        id=document.memory_id,
        status="stored",
        document_id=document.id,
        mode=MODES[document.tier],
        degraded=_degraded(document),
        summary=summary if document.tier else None,
        duplicate_of=document.memory_id if stored.is_duplicate else None,
    )


def _degraded(document: Document) -> Degraded:
    """Return why a document is not fully searchable, if it is not."""
    is_indexed = document.state == "indexed"
    return Degraded(embed=not is_indexed, reason=None if is_indexed else document.state)


def document_view(owned: OwnedDocument) -> DocumentView:
    """Return a document with fields of its memory."""
    document, memory = owned.document, owned.memory
    return derived(
        DocumentView,
        document_progress(document),
        document,
        memory,
        mode=MODES[document.tier],
        forgotten=not memory.is_searched,
    )


def upload_view(upload: Upload) -> UploadView:
    """Return how much of an upload has arrived."""
    return derived(UploadView, upload, upload_id=upload.id)


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="memory_store_document",
        description="Keep a long text, byte for byte; all of it is searched.",
        request=StoreDocument,
        answer=DocumentStored,
        run=store_document,
        group=GROUP,
        scopes=("write",),
        toolset="memories",
        body_bytes_max=limits.BODY_BYTES_MAX,
        tool=Tool(title="Keep a document"),
    ),
    Operation(
        name="upload_document",
        description="Keep a document: the body is its bytes, of any media type and sent as they"
        " come.",
        request=DocumentFields,
        answer=DocumentStored,
        run=not_json,
        group=GROUP,
        scopes=("write",),
        toolset="memories",
        body_bytes_max=STREAMED,
        routes=(
            Route(
                method="POST",
                path="/api/v1/documents",
                name="memory_store_document",
                status=201,
                body="stream",
            ),
        ),
    ),
    Operation(
        name="memory_query_document",
        description="Read the parts of a document or memory that match a filter or answer a question.",
        request=DocumentQuery,
        answer=DocumentQueried,
        run=query_document,
        group=GROUP,
        scopes=("search",),
        toolset="memories",
        tool=Tool(title="Ask a document", hints=("reads",), lean=queried_text),
        routes=(
            Route(
                method="POST",
                path="/api/v1/documents/{document_id:document_id}/query",
                aliases={"memory_id": "document_id"},
                fixed={"project": None, "memory_ids": ()},
            ),
        ),
    ),
    Operation(
        name="memory_ingest_document_stream",
        description="Keep a document that one call cannot carry: start, append each part, finish.",
        request=StreamDocument,
        answer=DocumentStreamed,
        run=stream_document,
        group=GROUP,
        scopes=("write",),
        toolset="maintenance",
        body_bytes_max=limits.UPLOAD_BODY_BYTES_MAX,
        tool=Tool(title="Keep a document in parts"),
    ),
    Operation(
        name="list_documents",
        description="List documents, newest first, with their true total.",
        request=DocumentListing,
        answer=DocumentsListed,
        run=list_documents,
        group=GROUP,
        scopes=("read",),
        toolset="memories",
        routes=(Route(method="GET", path="/api/v1/documents"),),
        command=Command(words=("documents", "list")),
    ),
    Operation(
        name="get_document",
        description="Read a document's bytes, all or a range of them.",
        request=DocumentReference,
        answer=Value,
        run=not_json,
        group=GROUP,
        scopes=("read",),
        toolset="memories",
        routes=(
            Route(
                method="GET", path="/api/v1/documents/{document_id:document_id}", sends_bytes=True
            ),
            Route(
                method="HEAD",
                path="/api/v1/documents/{document_id:document_id}",
                name="head_document",
                is_documented=False,
                sends_bytes=True,
            ),
        ),
    ),
    Operation(
        name="document_status",
        description="Say what a document is, and how much of it is searched by now.",
        request=DocumentReference,
        answer=DocumentView,
        run=document_status,
        group=GROUP,
        scopes=("read",),
        toolset="memories",
        routes=(Route(method="GET", path="/api/v1/documents/{document_id:document_id}/status"),),
        command=Command(words=("documents", "show"), arguments=("document_id",)),
    ),
    Operation(
        name="remove_document",
        description="Remove a document with its memory and everything derived from it.",
        request=DocumentRemoval,
        answer=Tombstone,
        run=lambda service, me, request: service.documents.remove(
            me, request.document_id, force=request.force, undo=request.undo
        ),
        group=GROUP,
        scopes=("delete",),
        toolset="memories",
        routes=(Route(method="DELETE", path="/api/v1/documents/{document_id:document_id}"),),
        command=Command(
            words=("documents", "remove"),
            arguments=("document_id",),
            question="Remove the document {document_id} for good?",
            is_undoable=True,
        ),
    ),
    Operation(
        name="begin_upload",
        description="Begin a document that comes in parts; nobody sees it before it is finished.",
        request=BeginUpload,
        answer=UploadView,
        run=begin_upload,
        group=GROUP,
        scopes=("write",),
        toolset="maintenance",
        routes=(Route(method="POST", path="/api/v1/documents/uploads", status=201),),
    ),
    Operation(
        name="get_upload",
        description="Say how much of an upload has arrived, to go on with it.",
        request=UploadReference,
        answer=UploadView,
        run=get_upload,
        group=GROUP,
        scopes=("write",),
        toolset="maintenance",
        routes=(Route(method="GET", path="/api/v1/documents/uploads/{upload_id}"),),
    ),
    Operation(
        name="add_part",
        description="Keep the next part, counted from 0; the last one sent again changes nothing.",
        request=UploadPart,
        answer=UploadView,
        run=not_json,
        group=GROUP,
        scopes=("write",),
        toolset="maintenance",
        body_bytes_max=limits.UPLOAD_PART_BYTES_MAX,
        routes=(
            Route(
                method="PUT",
                path="/api/v1/documents/uploads/{upload_id}/parts/{part:part}",
                body="bytes",
            ),
        ),
    ),
    Operation(
        name="finish_upload",
        description="Make a document of the parts; finished again, the first answer is given.",
        request=UploadReference,
        answer=DocumentStored,
        run=finish_upload,
        group=GROUP,
        scopes=("write",),
        toolset="maintenance",
        routes=(
            Route(
                method="POST",
                path="/api/v1/documents/uploads/{upload_id}/finish",
                status=201,
                body="none",
            ),
        ),
    ),
    Operation(
        name="abort_upload",
        description="Remove what has arrived of a document.",
        request=UploadReference,
        answer=type(None),
        run=abort_upload,
        group=GROUP,
        scopes=("write",),
        toolset="maintenance",
        routes=(Route(method="DELETE", path="/api/v1/documents/uploads/{upload_id}", status=204),),
    ),
)
