"""Documents that wait for their text or their index, worked on step by step by all processes.

Each step is one transaction of bounded size, and the document is claimed anew for it: so documents
have their turns, others write in between, and what a dead process held is taken up where it ended.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from engram import limits
from engram.embedding.retry import Sleep
from engram.errors import ConverterMissingError, EngramError, NotFoundError
from engram.ingest.embed import EmbeddedText
from engram.model.ids import DocumentId, OrganizationId
from engram.service.indexing import Indexer
from engram.service.noticed import Noticed
from engram.service.pace import Pace
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store

if TYPE_CHECKING:
    from engram.model.document import Document
    from engram.storage.documents.store import DocumentStore

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
"""Far longer than a step takes; after it another process takes up what a dead one held."""

CONVERSION_LEASE = timedelta(seconds=limits.CONVERSION_S) + LEASE
RETRY_DELAY = timedelta(seconds=30)
"""For a document that cannot be indexed now; doubled with every failure in this process."""

RETRY_DELAY_MAX = timedelta(hours=1)
CONVERTER_DELAY = timedelta(minutes=10)
"""How long a document waits before it is seen whether its converter has been installed."""

FIRST_SWEEP_S = 5.0
"""What waits since before this process began waits until a client has its first answers."""

FAILURE_DELAY_S = 5.0
"""How long the work rests after a failure that is no document's fault."""


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
        self._noticed = Noticed()
        self._failures: dict[DocumentId, int] = {}

    def notice(self, organization_id: OrganizationId) -> None:
        """Look at this organisation's waiting documents soon."""
        self._noticed.add(organization_id)

    def look_again(self) -> None:
        """Notice the organisations whose documents could not be had: held by others, or resting."""
        self._noticed.look_again()

    async def run(self) -> None:
        """Index until cancelled; a failure is logged and never ends the loop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_SWEEP_S):
                await self._noticed.wait()
        while True:
            try:
                await self.sweep()
                while True:
                    await self._work_noticed()
            except Exception:
                logger.exception("documents cannot be indexed now; it will be tried again")
                await self._sleep(FAILURE_DELAY_S)

    async def sweep(self) -> None:
        """Notice every organisation with waiting documents; remove uploads that were given up."""
        for organization in await self._store.control.list_organizations():
            try:
                store = await self._store.organization(organization.id)
                await store.documents.drop_expired_uploads()
                if await store.documents.has_unindexed():
                    self.notice(organization.id)
            except NotFoundError:
                continue  # deleted meanwhile
            except EngramError:
                logger.exception("documents of %s cannot be looked at now", organization.id)

    async def work(self, organization_id: OrganizationId) -> Document | None:
        """Do one step of the document whose turn it is; None when none can be had."""
        try:
            store = await self._store.organization(organization_id)
            return await self._step(store, None)
        except NotFoundError:
            return None  # deleted meanwhile, and its documents with it

    async def finish(self, organization_id: OrganizationId, document_id: DocumentId) -> None:
        """Index a document for a caller who waits, unless another process is at it."""
        store = await self._store.organization(organization_id)
        while await self._step(store, document_id):
            pass

    async def _work_noticed(self) -> None:
        """Do one step for each noticed organisation, or wait until one is noticed."""
        await self._noticed.wait()
        for organization_id in self._noticed.turns():
            try:
                await self._work_paced(organization_id)
            except EngramError:
                logger.exception("documents of %s cannot be indexed now", organization_id)
                self._noticed.leave(organization_id)

    async def _work_paced(self, organization_id: OrganizationId) -> None:
        time = asyncio.get_running_loop().time
        began = time()
        if await self.work(organization_id) is None:
            if await self._is_waiting(organization_id):
                self._noticed.leave(organization_id)
            return
        self.notice(organization_id)
        if self._pace is not None:
            await self._pace.rest(worked_s=time() - began)

    async def _is_waiting(self, organization_id: OrganizationId) -> bool:
        try:
            store = await self._store.organization(organization_id)
            return await store.documents.has_unindexed()
        except NotFoundError:
            return False  # deleted meanwhile

    async def _step(
        self, store: OrganizationStore, document_id: DocumentId | None
    ) -> Document | None:
        """Claim a document and do its next step; return it, None when there is none to be had."""
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
            self._failures.pop(claimed.id, None)
        except ConverterMissingError as exc:
            logger.warning("document %s waits for its converter: %s", claimed.id, exc.message)
            await self._postpone(documents, claimed, exc, delay=CONVERTER_DELAY)
        except EngramError as exc:
            logger.exception("document %s cannot be indexed now", claimed.id)
            await self._postpone(documents, claimed, exc, delay=self._retry_delay(claimed.id))
        else:
            self._failures.pop(claimed.id, None)
        return claimed

    async def _postpone(
        self, documents: DocumentStore, document: Document, reason: EngramError, *, delay: timedelta
    ) -> None:
        """Let a document rest, and tell those who ask for it why."""
        await documents.postpone_unindexed(
            document.id, owner=self._owner, delay=delay, problem=reason.message
        )

    def _retry_delay(self, document_id: DocumentId) -> timedelta:
        failures = self._failures.get(document_id, 0)
        self._failures[document_id] = failures + 1
        return min(RETRY_DELAY * 2 ** min(failures, 10), RETRY_DELAY_MAX)

    async def _convert(self, store: OrganizationStore, document: Document) -> None:
        from engram.service.document_text import convert_body  # noqa: PLC0415 few processes convert

        held = await store.documents.claim_unindexed(
            owner=self._owner, lease=CONVERSION_LEASE, document_id=document.id
        )
        if held is not None:
            organization = await self._store.control.get_organization(store.organization_id)
            await convert_body(store.documents, document, quota=organization.quota)

    async def _index(self, store: OrganizationStore, document: Document) -> None:
        # Most sessions have no document to index.
        from engram.service.document_text import cut_text  # noqa: PLC0415

        text = await store.documents.read_unindexed(
            document.id, bytes_max=limits.DOCUMENT_STEP_BYTES
        )
        chunks = await asyncio.to_thread(cut_text, text)
        texts = [EmbeddedText(None, chunk.text, is_by_sentence=True) for chunk in chunks]
        await store.documents.index_chunks(
            document.id,
            chunks,
            owner=self._owner,
            is_last=text.is_last,
            indexing=await self._indexer.index_texts(texts, organization_id=store.organization_id),
        )
        self._indexer.notice(store.organization_id)
