"""Use cases of documents: upload as a stream or in parts, read, list, remove."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cached_property

from engram import limits
from engram.errors import EngramError, InvalidRequestError, NotFoundError, RequestTooLargeError
from engram.model.access import KeyScope, Principal
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
from engram.model.value import replace
from engram.service import UseCases
from engram.service.access.usage import find_quota_warning
from engram.service.memories import purge_memory
from engram.service.projects import with_episodes
from engram.storage.documents.store import DocumentStore
from engram.storage.organization import OrganizationStore

logger = logging.getLogger(__name__)

STREAM_PART_BYTES = 1_048_576
"""How much of a stream is buffered and stored in one transaction."""

MEMORY_PREFIX = "mem_"


class Documents(UseCases):
    """The use cases of documents, except for queries.

    A document is known by its own id or by that of the memory that owns it.
    """

    @cached_property
    def bounds(self) -> DocumentLimits:
        """The sizes that decide how a document is stored, or that it is refused."""
        return DocumentLimits(
            body_bytes_max=self._tools.document_bytes_max,
            raw_bytes_max=self._tools.raw_document_bytes_max,
        )

    async def store_stream(
        self, principal: Principal, draft: DocumentDraft, body: AsyncIterator[bytes]
    ) -> StoredDocument:
        """Store a document as it arrives; if the stream breaks off, nothing of it remains.

        A document of tier 0 can be found when this returns, unless it has no text; larger ones are
        indexed afterwards.

        Raises:
            RequestTooLargeError: it is larger than any document may be.
            InvalidRequestError: it is not what it is said to be.
            QuotaExceededError: it does not fit the quota any more.
        """
        documents = await self._documents(principal, "write")
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
        """Begin the upload of a document in parts."""
        store = await self._open(principal, "write")
        (options,) = await with_episodes(store.memories, principal, [draft.options])
        draft = replace(draft, options=options)
        return await store.documents.begin_upload(
            draft, actor=principal.actor, limits=self.bounds, quota=principal.quota
        )

    async def add_part(
        self, principal: Principal, document_id: DocumentId, part: int, data: bytes
    ) -> Upload:
        """Store the next part of an upload; repeating the last one changes nothing.

        Raises:
            ConflictError: another part is due.
            NotFoundError: there is no such upload, or it has expired.
        """
        documents = await self._documents(principal, "write")
        check_part(len(data))
        if not data:
            raise InvalidRequestError("must not be empty", field="part")
        return await documents.add_part(
            document_id, part, data, limits=self.bounds, quota=principal.quota
        )

    async def find_upload(self, principal: Principal, document_id: DocumentId) -> Upload:
        """Return how much of an upload has arrived."""
        return await (await self._documents(principal, "write")).get_upload(document_id)

    async def finish_upload(self, principal: Principal, document_id: DocumentId) -> StoredDocument:
        """Turn a finished upload into a document; idempotent."""
        store = await self._open(principal, "write")
        stored = await store.documents.finish_upload(
            document_id, actor=principal.actor, quota=principal.quota, limits=self.bounds
        )
        document = stored.document
        if document.tier == 0 and document.state == "indexing":
            document = await self._index_now(principal, store, document)
        self._tools.background.announce_work(
            principal.organization_id, "vectors", "jobs", "documents"
        )
        warning = await find_quota_warning(principal, store)
        # Whoever may not read could find out by guessing what is stored.
        is_told = stored.is_duplicate and principal.allows("read")
        return replace(stored, document=document, is_duplicate=is_told, quota_warning=warning)

    async def abort_upload(self, principal: Principal, document_id: DocumentId) -> None:
        """Remove an unfinished upload.

        Raises:
            NotFoundError: there is no such upload, or it is finished.
        """
        if not await (await self._documents(principal, "write")).abort_upload(document_id):
            raise NotFoundError("upload", document_id)

    async def get(self, principal: Principal, identifier: str) -> Document:
        """Return a document without its body, by its id or that of its memory."""
        return await _find(await self._documents(principal, "read"), identifier)

    async def show(self, principal: Principal, identifier: str) -> OwnedDocument:
        """Return a document with the memory that owns it."""
        store = await self._open(principal, "read")
        document = await _find(store.documents, identifier)
        memory = (await store.memories.get([document.memory_id])).get(document.memory_id)
        if memory is None:
            raise NotFoundError("document", identifier)
        return OwnedDocument(document=document, memory=memory)

    async def list(self, principal: Principal, query: MemoryQuery) -> DocumentPage:
        """Return one page of documents, newest first."""
        store = await self._open(principal, "read")
        filters = replace(query.filters, storage_mode="document")
        page = await store.memories.list(
            replace(query, filters=filters), now=self._tools.clock.now()
        )
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
        """Return the bytes of a body as a stream."""
        return (await self._documents(principal, "read")).read_body(document.id, wanted)

    async def read_text(self, principal: Principal, document: Document) -> AsyncIterator[bytes]:
        """Return the UTF-8 of the searched text as a stream."""
        return (await self._documents(principal, "read")).read_text(document.id)

    async def remove(
        self, principal: Principal, identifier: str, *, force: bool = False, undo: bool = False
    ) -> Tombstone:
        """Remove a document and its memory, or with `undo` move both to the trash."""
        store = await self._open(principal, "delete")
        memory_id = (await _find(store.documents, identifier)).memory_id
        keep = self._tools.trash_stay if undo else None
        return await purge_memory(store, memory_id, actor=principal.actor, force=force, keep=keep)

    async def _index_now(
        self, principal: Principal, store: OrganizationStore, document: Document
    ) -> Document:
        try:
            await self._tools.document_indexing.finish(principal.organization_id, document.id)
        except EngramError:
            # The document is stored; the background will index it.
            logger.exception("document %s is indexed later", document.id)
            self._tools.background.announce_work(principal.organization_id, "documents")
        found = await store.documents.get([document.id])
        return found.get(document.id, document)

    async def _parts(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield a stream in parts of equal size, and refuse it as soon as it is too long."""
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

    async def _documents(self, principal: Principal, scope: KeyScope) -> DocumentStore:
        return (await self._open(principal, scope)).documents


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
