"""The answers about documents."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.document import (
    Document,
    DocumentPage,
    DocumentState,
    DocumentTier,
    OwnedDocument,
    StoredDocument,
    Upload,
)
from engram.model.memory import Category, MemoryType
from engram.transport.answers.memory_views import DegradedView

DocumentMode = Literal["document", "document_synopsis", "raw_document"]
"""How the memory shows the document; the names of engram-go."""

MODES: tuple[DocumentMode, ...] = ("document", "document_synopsis", "raw_document")


class DocumentStored(TypedDict):
    id: str
    """Of the memory that owns it."""
    status: Literal["stored"]
    document_id: str
    mode: DocumentMode
    tier: DocumentTier
    size_bytes: int
    sha256: str
    state: DocumentState
    degraded: DegradedView
    summary: NotRequired[str]
    """Of a document that the memory does not show whole."""
    duplicate_of: NotRequired[str]
    problem: NotRequired[str]


class DocumentProgress(TypedDict):
    id: str
    document_id: str
    state: DocumentState
    text_bytes: int
    text_bytes_indexed: int
    progress: float
    """The share of the text that is searched, 0 to 1."""
    problem: NotRequired[str]


class DocumentView(DocumentProgress):
    name: str | None
    media_type: str
    mode: DocumentMode
    tier: DocumentTier
    size_bytes: int
    sha256: str
    project: str
    memory_type: MemoryType
    category: Category
    tags: list[str]
    created_at: str
    forgotten: NotRequired[Literal[True]]


class DocumentsListed(TypedDict):
    documents: list[DocumentView]
    count: int
    total: int
    next_offset: int | None


class UploadView(TypedDict):
    upload_id: str
    parts: int
    """How many have arrived; the next one has this number."""
    received_bytes: int
    expires_at: str


class DocumentStreamed(TypedDict):
    """How far a document is that comes in parts; once it is stored, as any other."""

    status: Literal["uploading", "stored"]
    upload_id: str
    parts: NotRequired[int]
    """How many have arrived; the next one has this number."""
    received_bytes: NotRequired[int]
    expires_at: NotRequired[str]
    id: NotRequired[str]
    document_id: NotRequired[str]
    mode: NotRequired[DocumentMode]
    tier: NotRequired[DocumentTier]
    size_bytes: NotRequired[int]
    sha256: NotRequired[str]
    state: NotRequired[DocumentState]
    degraded: NotRequired[DegradedView]
    duplicate_of: NotRequired[str]
    problem: NotRequired[str]


def document_stored(stored: StoredDocument, *, summary: str | None = None) -> DocumentStored:
    document = stored.document
    view: DocumentStored = {
        "id": document.memory_id,
        "status": "stored",
        "document_id": document.id,
        "mode": MODES[document.tier],
        "tier": document.tier,
        "size_bytes": document.size_bytes,
        "sha256": document.sha256,
        "state": document.state,
        "degraded": _degraded(document),
    }
    if summary is not None and document.tier:
        view["summary"] = summary
    if stored.is_duplicate:
        view["duplicate_of"] = document.memory_id
    if document.problem is not None:
        view["problem"] = document.problem
    return view


def document_progress(document: Document) -> DocumentProgress:
    view: DocumentProgress = {
        "id": document.memory_id,
        "document_id": document.id,
        "state": document.state,
        "text_bytes": document.text_bytes,
        "text_bytes_indexed": document.text_bytes_indexed,
        "progress": _progress(document),
    }
    if document.problem is not None:
        view["problem"] = document.problem
    return view


def document_view(owned: OwnedDocument) -> DocumentView:
    document, memory = owned.document, owned.memory
    view: DocumentView = {
        **document_progress(document),
        "name": document.name,
        "media_type": document.media_type,
        "mode": MODES[document.tier],
        "tier": document.tier,
        "size_bytes": document.size_bytes,
        "sha256": document.sha256,
        "project": memory.project,
        "memory_type": memory.memory_type,
        "category": memory.category,
        "tags": list(memory.tags),
        "created_at": format_time(document.created_at),
    }
    if not memory.is_searched:
        view["forgotten"] = True
    return view


def documents_listed(page: DocumentPage) -> DocumentsListed:
    return {
        "documents": [document_view(owned) for owned in page.documents],
        "count": len(page.documents),
        "total": page.total,
        "next_offset": page.next_offset,
    }


def upload_view(upload: Upload) -> UploadView:
    return {
        "upload_id": upload.id,
        "parts": upload.parts,
        "received_bytes": upload.received_bytes,
        "expires_at": format_time(upload.expires_at),
    }


def upload_continued(upload: Upload) -> DocumentStreamed:
    return {"status": "uploading", **upload_view(upload)}


def upload_finished(upload_id: str, stored: StoredDocument) -> DocumentStreamed:
    return {"upload_id": upload_id, **document_stored(stored)}


def _degraded(document: Document) -> DegradedView:
    """Return True if something of a document cannot be found yet, or ever."""
    is_indexed = document.state == "indexed"
    return {"embed": not is_indexed, "reason": None if is_indexed else document.state}


def _progress(document: Document) -> float:
    if document.state == "indexed":
        return 1.0
    if not document.text_bytes:
        return 0.0
    # Only what is finished may look finished.
    return min(round(document.text_bytes_indexed / document.text_bytes, 4), 0.9999)
