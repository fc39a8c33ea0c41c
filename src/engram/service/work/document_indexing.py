"""Converts and indexes documents in steps that all processes share.

Each step is one transaction of bounded size, and the document is leased again for it: so documents
take turns, others write in between, and another process resumes what a dead one had leased.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engram import limits
from engram.embedding.passages import EmbeddedText
from engram.embedding.retry import Sleep
from engram.errors import ConversionError, ConverterMissingError, EngramError, NotFoundError
from engram.model.ids import DocumentId, OrganizationId
from engram.service.work.indexing import Indexer
from engram.service.work.schedule import OrganizationQueue, Pace, open_if_exists, settle
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store

if TYPE_CHECKING:
    from engram.convert.kinds import Kind
    from engram.model.access import Quota
    from engram.model.document import Document
    from engram.storage.documents.indexing import UnindexedText
    from engram.storage.documents.store import DocumentStore
    from engram.text.documents import DocumentChunk

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
"""Far longer than a step takes; after it another process takes up what a dead one held."""

CONVERSION_LEASE = timedelta(seconds=limits.CONVERSION_S) + LEASE
CONVERTER_DELAY = timedelta(minutes=10)
"""How long a document waits before the next check whether its converter has been installed."""

FAILURE_DELAY_S = 5.0
"""The pause after a failure that is not due to a document."""


class DocumentIndexing:
    """Makes documents searchable, part by part."""

    def __init__(
        self,
        store: Store,
        indexer: Indexer,
        *,
        owner: str,
        pace: Pace | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._store = store
        self._indexer = indexer
        self._owner = owner
        self._pace = pace
        self._sleep = sleep
        self.queue = OrganizationQueue()
        """Organisations that may have documents to index, or uploads that have expired."""

    async def run(self) -> None:
        """Index until cancelled; a failure is logged and never ends the loop."""
        while True:
            try:
                await self.queue.wait()
                await self.work_queued()
            except Exception:
                logger.exception("documents cannot be indexed now; it will be tried again")
                await self._sleep(FAILURE_DELAY_S)

    async def work(self, organization_id: OrganizationId) -> Document | None:
        """Do one step of the next document; return None if there is none to lease."""
        try:
            store = await self._store.organization(organization_id)
            return await self._step(store, None)
        except NotFoundError:
            return None  # deleted meanwhile, and its documents with it

    async def finish(self, organization_id: OrganizationId, document_id: DocumentId) -> None:
        """Index a document for a caller who waits, unless another process has leased it."""
        store = await self._store.organization(organization_id)
        while await self._step(store, document_id):
            pass

    async def work_queued(self) -> None:
        """Do one step for each queued organisation; where none is left, remove expired uploads."""
        for organization_id in self.queue.take():
            try:
                await self._work_paced(organization_id)
            except EngramError:
                logger.exception("documents of %s cannot be indexed now", organization_id)

    async def _work_paced(self, organization_id: OrganizationId) -> None:
        time = asyncio.get_running_loop().time
        began = time()
        work = partial(self.work, organization_id)
        if await work() is None and await self._settle(organization_id, work) is None:
            return
        self.queue.add(organization_id)
        if self._pace is not None:
            await self._pace.rest(worked_s=time() - began)

    async def _settle(
        self, organization_id: OrganizationId, work: Callable[[], Awaitable[Document | None]]
    ) -> Document | None:
        store = await open_if_exists(self._store, organization_id)
        if store is None:
            return None
        await store.documents.drop_expired_uploads()
        return await settle(store, "documents", work)

    async def _step(
        self, store: OrganizationStore, document_id: DocumentId | None
    ) -> Document | None:
        """Lease a document and do its next step; return it, None if there is none to lease."""
        documents = store.documents
        claimed = await documents.claim_unindexed(
            owner=self._owner, lease=LEASE, document_id=document_id
        )
        if claimed is None:
            return None
        try:
            await (self._convert if claimed.needs_text else self._index)(store, claimed)
        except NotFoundError:
            logger.debug("document %s was removed while it was indexed", claimed.id)
        except ConverterMissingError as exc:
            logger.warning("document %s waits for its converter: %s", claimed.id, exc.message)
            await self._postpone(documents, claimed, exc, delay=CONVERTER_DELAY)
        except EngramError as exc:
            logger.exception("document %s cannot be indexed now", claimed.id)
            await self._postpone(documents, claimed, exc)
        return claimed

    async def _postpone(
        self,
        documents: DocumentStore,
        document: Document,
        reason: EngramError,
        *,
        delay: timedelta | None = None,
    ) -> None:
        """Give a document back with a delay, and store the reason for those who ask for it."""
        await documents.postpone_unindexed(
            document.id, owner=self._owner, delay=delay, problem=reason.message
        )

    async def _convert(self, store: OrganizationStore, document: Document) -> None:
        is_held = await store.documents.renew_unindexed(
            document.id, owner=self._owner, lease=CONVERSION_LEASE
        )
        if is_held:
            organization = await self._store.control.get_organization(store.organization_id)
            await _convert_body(store.documents, document, quota=organization.quota)

    async def _index(self, store: OrganizationStore, document: Document) -> None:
        text = await store.documents.read_unindexed(
            document.id, bytes_max=limits.DOCUMENT_STEP_BYTES
        )
        chunks = await asyncio.to_thread(_cut_text, text)
        texts = [EmbeddedText(None, chunk.text, units="sentences") for chunk in chunks]
        await store.documents.index_chunks(
            document.id,
            chunks,
            owner=self._owner,
            is_last=text.is_last,
            indexing=await self._indexer.index_texts(texts, organization_id=store.organization_id),
        )
        self._indexer.enqueue(store.organization_id)


def _cut_text(text: UnindexedText) -> list[DocumentChunk]:
    """Return the chunks that are complete in the next part of a document's text."""
    # Most processes have no document to index.
    from engram.text.documents import DocumentChunker  # noqa: PLC0415
    from engram.text.utf8 import Utf8Reader  # noqa: PLC0415

    reader = Utf8Reader(offset_bytes=text.state.read_from_bytes)
    chunker = DocumentChunker(text.state)
    chunks = chunker.feed(reader.feed(text.data))
    if text.is_last:
        reader.finish()
        chunks += chunker.finish()
    return chunks


async def _convert_body(documents: DocumentStore, document: Document, *, quota: Quota) -> None:
    """Convert a body to text, or record why that failed.

    Raises:
        ConverterMissingError: the converter is not installed; nothing is recorded.
    """
    # Most processes never convert anything.
    import tempfile  # noqa: PLC0415

    from engram.convert.kinds import document_kind  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="engram-") as directory:
        source, target = Path(directory, "source"), Path(directory, "text")
        head = await _write_body(documents, document, source)
        kind = document_kind(head, media_type=document.media_type, name=document.name)
        try:
            await _convert(source, target, kind=kind, media_type=document.media_type)
        except ConversionError as exc:
            await documents.put_text(document.id, None, problem=exc.message)
        else:
            await documents.put_text(document.id, _pieces(target), quota=quota)


async def _convert(source: Path, target: Path, *, kind: Kind, media_type: str) -> None:
    if kind == "text":
        raise ConversionError("it is neither text in UTF-8 nor a kind that text is made of")
    from engram.convert.kinds import declared_charset  # noqa: PLC0415
    from engram.convert.sandbox import convert_file  # noqa: PLC0415

    charset = declared_charset(media_type)
    await asyncio.to_thread(partial(convert_file, source, target, kind=kind, charset=charset))


async def _write_body(documents: DocumentStore, document: Document, path: Path) -> bytes:
    """Write a body to a file, and return its first piece."""
    head = b""
    with path.open("wb") as file:
        async for piece in documents.read_body(document.id):
            head = head or piece
            await asyncio.to_thread(file.write, piece)
    return head


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(limits.DOCUMENT_PIECE_BYTES):
            yield piece
