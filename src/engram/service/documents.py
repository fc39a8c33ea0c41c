"""Documents: arriving in one stream or in parts, read back byte for byte, listed and removed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

from engram import limits
from engram.clock import Clock
from engram.errors import EngramError, InvalidRequestError, NotFoundError, RequestTooLargeError
from engram.model.access import Principal
from engram.model.document import (
    ByteRange,
    Document,
    DocumentDraft,
    DocumentLimits,
    DocumentPage,
    OwnedDocument,
    StoredDocument,
    Upload,
)
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import MemoryQuery, Tombstone
from engram.service.background import Background
from engram.service.document_indexing import DocumentIndexing
from engram.service.quota import find_quota_warning
from engram.storage.documents.store import DocumentStore
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store

logger = logging.getLogger(__name__)

STREAM_PART_BYTES = 1_048_576
"""Of a stream that is held in memory and stored in one transaction."""

MEMORY_PREFIX = "mem_"


class Documents:
    """The use cases of documents, questions about them apart.

    A document is known by its own id and by that of the memory that owns it.
    """

    def __init__(
        self,
        store: Store,
        *,
        indexing: DocumentIndexing,
        background: Background,
        clock: Clock,
        bounds: DocumentLimits,
    ) -> None:
        self._store = store
        self._indexing = indexing
        self._background = background
        self._clock = clock
        self.bounds = bounds
        """The sizes that decide how a document is kept, or that it is refused."""

    async def store_stream(
        self, principal: Principal, draft: DocumentDraft, body: AsyncIterator[bytes]
    ) -> StoredDocument:
        """Keep a document as it arrives; if it does not arrive whole, nothing of it stays.

        A document of tier 0 can be found when this returns, unless it has no text; larger ones are
        indexed afterwards.

        Raises:
            RequestTooLargeError: it is larger than any document may be.
            InvalidRequestError: it is not what it is said to be.
            QuotaExceededError: it does not fit the quota any more.
        """
        principal.require("write")
        documents = await self._documents(principal)
        upload = await self.begin_upload(principal, draft)
        try:
            number = 0
            async for part in self._parts(body):
                await documents.add_part(
                    upload.id, number, part, limits=self.bounds, quota=principal.quota
                )
                number += 1
            return await self.finish_upload(principal, upload.id)
        except BaseException:
            # Also when the caller is cancelled: what nobody finishes should not wait to expire.
            await asyncio.shield(_abort(documents, upload.id))
            raise

    async def begin_upload(self, principal: Principal, draft: DocumentDraft) -> Upload:
        """Make room for a document that will come in parts."""
        principal.require("write")
        documents = await self._documents(principal)
        return await documents.begin_upload(
            draft, actor=principal.actor, limits=self.bounds, quota=principal.quota
        )

    async def add_part(
        self, principal: Principal, document_id: DocumentId, part: int, data: bytes
    ) -> Upload:
        """Keep the next part of an upload; the last one again changes nothing.

        Raises:
            ConflictError: another part is due.
            NotFoundError: there is no such upload, or it has expired.
        """
        principal.require("write")
        check_part(len(data))
        if not data:
            raise InvalidRequestError("must not be empty", field="part")
        documents = await self._documents(principal)
        return await documents.add_part(
            document_id, part, data, limits=self.bounds, quota=principal.quota
        )

    async def find_upload(self, principal: Principal, document_id: DocumentId) -> Upload:
        """Return how much of an upload has arrived."""
        principal.require("write")
        return await (await self._documents(principal)).get_upload(document_id)

    async def finish_upload(self, principal: Principal, document_id: DocumentId) -> StoredDocument:
        """Make a document of what has arrived; finished again, the first answer is given."""
        principal.require("write")
        store = await self._store.organization(principal.organization_id)
        stored = await store.documents.finish_upload(
            document_id, actor=principal.actor, quota=principal.quota, limits=self.bounds
        )
        document = stored.document
        if document.tier == 0 and document.state == "indexing":
            document = await self._index_now(principal, store, document)
        elif document.state == "indexing":
            self._indexing.notice(principal.organization_id)
        self._background.notice(principal.organization_id)
        warning = await find_quota_warning(principal, store)
        # Who may not read could find out by guessing what is stored.
        is_told = stored.is_duplicate and principal.allows("read")
        return replace(stored, document=document, is_duplicate=is_told, quota_warning=warning)

    async def abort_upload(self, principal: Principal, document_id: DocumentId) -> None:
        """Remove what has arrived of a document.

        Raises:
            NotFoundError: there is no such upload, or it is finished.
        """
        principal.require("write")
        if not await (await self._documents(principal)).abort_upload(document_id):
            raise NotFoundError("upload", document_id)

    async def get(self, principal: Principal, identifier: str) -> Document:
        """Return a document without its body, by its id or that of its memory."""
        principal.require("read")
        return await _find(await self._documents(principal), identifier)

    async def show(self, principal: Principal, identifier: str) -> OwnedDocument:
        """Return a document with the memory that owns it."""
        principal.require("read")
        store = await self._store.organization(principal.organization_id)
        document = await _find(store.documents, identifier)
        memory = (await store.memories.get([document.memory_id])).get(document.memory_id)
        if memory is None:
            raise NotFoundError("document", identifier)
        return OwnedDocument(document=document, memory=memory)

    async def list(self, principal: Principal, query: MemoryQuery) -> DocumentPage:
        """Return one page of documents, newest first."""
        principal.require("read")
        store = await self._store.organization(principal.organization_id)
        filters = replace(query.filters, storage_mode="document")
        page = await store.memories.list(replace(query, filters=filters), now=self._clock.now())
        owned = await store.documents.of_memories([memory.id for memory in page.memories])
        return DocumentPage(
            documents=tuple(
                OwnedDocument(document=owned[memory.id], memory=memory)
                for memory in page.memories
                if memory.id in owned
            ),
            total=page.total,
            next_offset=page.next_offset,
        )

    async def read_body(
        self, principal: Principal, document: Document, wanted: ByteRange | None = None
    ) -> AsyncIterator[bytes]:
        """Return a body's bytes, read piece by piece as they are taken."""
        principal.require("read")
        return (await self._documents(principal)).read_body(document.id, wanted)

    async def read_text(self, principal: Principal, document: Document) -> AsyncIterator[bytes]:
        """Return the UTF-8 of the text that is searched, piece by piece."""
        principal.require("read")
        return (await self._documents(principal)).read_text(document.id)

    async def remove(
        self, principal: Principal, identifier: str, *, force: bool = False
    ) -> Tombstone:
        """Remove a document, its memory and all that was derived from them."""
        principal.require("delete")
        store = await self._store.organization(principal.organization_id)
        document = await _find(store.documents, identifier)
        return await store.memories.purge(document.memory_id, actor=principal.actor, force=force)

    async def _index_now(
        self, principal: Principal, store: OrganizationStore, document: Document
    ) -> Document:
        try:
            await self._indexing.finish(principal.organization_id, document.id)
        except EngramError:
            # It is stored, which is what was asked for; the background tries again.
            logger.exception("document %s is indexed later", document.id)
            self._indexing.notice(principal.organization_id)
        found = await store.documents.get([document.id])
        return found.get(document.id, document)

    async def _parts(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield a stream in parts of one size, and refuse it as soon as it is too long."""
        received, part = 0, bytearray()
        async for data in body:
            received += len(data)
            self.bounds.check(received)
            part += data
            while len(part) >= STREAM_PART_BYTES:
                yield bytes(part[:STREAM_PART_BYTES])
                del part[:STREAM_PART_BYTES]
        if part:
            yield bytes(part)

    async def _documents(self, principal: Principal) -> DocumentStore:
        return (await self._store.organization(principal.organization_id)).documents


def check_part(size_bytes: int) -> None:
    """Refuse a part that is larger than one may be."""
    if size_bytes > limits.UPLOAD_PART_BYTES_MAX:
        raise RequestTooLargeError(
            "part", limit=limits.UPLOAD_PART_BYTES_MAX, actual=size_bytes, unit="bytes"
        )


async def _abort(documents: DocumentStore, document_id: DocumentId) -> None:
    with suppress(EngramError):  # It expires, if it cannot be removed now.
        await documents.abort_upload(document_id)


async def _find(documents: DocumentStore, identifier: str) -> Document:
    """Return the document of an id.

    Raises:
        NotFoundError: there is none, or it is not yours.
    """
    if identifier.startswith(MEMORY_PREFIX):
        memory_id = MemoryId(identifier)
        found = (await documents.of_memories([memory_id])).get(memory_id)
    else:
        document_id = DocumentId(identifier)
        found = (await documents.get([document_id])).get(document_id)
    if found is None:
        raise NotFoundError("document", identifier)
    return found
