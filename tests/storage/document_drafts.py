"""Short ways to store documents in a test."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from engram import limits
from engram.model.access import Quota
from engram.model.document import (
    ByteRange,
    Document,
    DocumentDraft,
    DocumentLimits,
    StoredDocument,
    Upload,
)
from engram.model.ids import DocumentId
from engram.model.memory import MemoryOptions
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.documents.indexing import UnindexedText
from engram.storage.organization import OrganizationStore
from engram.text.documents import DocumentChunk, DocumentChunker
from engram.text.utf8 import Utf8Reader
from tests.storage.drafts import ACTOR, UNBOUNDED

BOUNDS = DocumentLimits(body_bytes_max=600_000, raw_bytes_max=800_000)
"""Small enough for documents of every tier to be stored in a moment."""

WORKER = "worker"
LEASE = timedelta(minutes=1)
PDF = "application/pdf"


async def begin(organization: OrganizationStore, **fields: Any) -> Upload:
    """Begin an upload."""
    draft = DocumentDraft(**fields)
    return await organization.documents.begin_upload(draft, actor=ACTOR, limits=BOUNDS)


async def send(
    organization: OrganizationStore, document_id: DocumentId, *parts: bytes, first: int = 0
) -> list[Upload]:
    """Send parts, and return how far the upload was after each."""
    return [
        await organization.documents.add_part(document_id, number, part, limits=BOUNDS)
        for number, part in enumerate(parts, first)
    ]


async def finish(
    organization: OrganizationStore,
    document_id: DocumentId,
    *,
    quota: Quota = UNBOUNDED,
    bounds: DocumentLimits = BOUNDS,
) -> StoredDocument:
    """Finish an upload."""
    return await organization.documents.finish_upload(
        document_id, actor=ACTOR, quota=quota, limits=bounds
    )


async def upload(
    organization: OrganizationStore,
    *parts: bytes,
    name: str | None = None,
    media_type: str = "text/plain",
    **options: Any,
) -> Document:
    """Store a document that waits for its index."""
    begun = await begin(
        organization, name=name, media_type=media_type, options=MemoryOptions(**options)
    )
    await send(organization, begun.id, *parts)
    return (await finish(organization, begun.id)).document


async def store(organization: OrganizationStore, body: str, **fields: Any) -> Document:
    """Store a document of text and index all of it."""
    document = await upload(organization, body.encode(), **fields)
    await index(organization, document.id)
    return await get(organization, document.id)


async def get(organization: OrganizationStore, document_id: DocumentId) -> Document:
    """Return one document."""
    return (await organization.documents.get([document_id]))[document_id]


async def read(
    organization: OrganizationStore, document_id: DocumentId, wanted: ByteRange | None = None
) -> bytes:
    """Return the bytes of a body."""
    pieces = organization.documents.read_body(document_id, wanted)
    return b"".join([piece async for piece in pieces])


async def read_text(organization: OrganizationStore, document_id: DocumentId) -> bytes:
    """Return the text that is searched."""
    return b"".join([piece async for piece in organization.documents.read_text(document_id)])


async def claim(
    organization: OrganizationStore, document_id: DocumentId | None = None, owner: str = WORKER
) -> Document | None:
    """Claim a document, or the next one."""
    return await organization.documents.claim_unindexed(
        owner=owner, lease=LEASE, document_id=document_id
    )


def cut(text: UnindexedText) -> list[DocumentChunk]:
    """Return the chunks that can be made of the next text of a document."""
    reader = Utf8Reader(offset_bytes=text.state.read_from_bytes)
    chunker = DocumentChunker(text.state)
    chunks = chunker.feed(reader.feed(text.data))
    return chunks + chunker.finish() if text.is_last else chunks


async def step(
    organization: OrganizationStore,
    document_id: DocumentId,
    *,
    bytes_max: int = limits.DOCUMENT_STEP_BYTES,
    owner: str = WORKER,
    indexing: Indexing = WORDS_ALONE,
) -> bool:
    """Index the next text of a document; say whether it was taken."""
    text = await organization.documents.read_unindexed(document_id, bytes_max=bytes_max)
    return await organization.documents.index_chunks(
        document_id, cut(text), owner=owner, is_last=text.is_last, indexing=indexing
    )


async def index(
    organization: OrganizationStore,
    document_id: DocumentId,
    *,
    bytes_max: int = limits.DOCUMENT_STEP_BYTES,
) -> int:
    """Index all of a document; return how many steps that took."""
    steps = 0
    while await claim(organization, document_id) is not None:
        assert await step(organization, document_id, bytes_max=bytes_max)
        steps += 1
    return steps
