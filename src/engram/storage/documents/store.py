"""The `DocumentStore` of one organisation's SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import timedelta

from engram.model.access import UNBOUNDED, Quota
from engram.model.document import (
    ByteRange,
    Document,
    DocumentDraft,
    DocumentLimits,
    StoredDocument,
    Upload,
)
from engram.model.ids import DocumentId, MemoryId
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.bodies import headings as document_headings
from engram.storage.bodies import rows as document_rows
from engram.storage.document_ports import UnindexedText
from engram.storage.documents import finishing as document_finishing
from engram.storage.documents import indexing as document_indexing
from engram.storage.documents import reading as document_reading
from engram.storage.documents import text as document_text
from engram.storage.documents import uploads as document_uploads
from engram.storage.tenant import Tenant
from engram.text.documents import DocumentChunk


class TableDocumentStore:
    """The documents of one organisation, in its own file."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._database = tenant.database

    async def begin_upload(
        self, draft: DocumentDraft, *, actor: str, limits: DocumentLimits, quota: Quota = UNBOUNDED
    ) -> Upload:
        return await document_uploads.begin_upload(
            self._tenant, draft, actor=actor, quota=quota, limits=limits
        )

    async def get_upload(self, document_id: DocumentId) -> Upload:
        return await self._tenant.read(lambda tx: document_uploads.get_upload(tx, document_id))

    async def add_part(
        self,
        document_id: DocumentId,
        part: int,
        data: bytes,
        *,
        limits: DocumentLimits,
        quota: Quota = UNBOUNDED,
    ) -> Upload:
        return await document_uploads.add_part(
            self._tenant, document_id, part, data, quota=quota, limits=limits
        )

    async def finish_upload(
        self, document_id: DocumentId, *, actor: str, quota: Quota, limits: DocumentLimits
    ) -> StoredDocument:
        return await document_finishing.finish_upload(
            self._tenant, document_id, actor=actor, quota=quota, limits=limits
        )

    async def abort_upload(self, document_id: DocumentId) -> bool:
        return await document_uploads.abort_upload(self._tenant, document_id)

    async def drop_expired_uploads(self) -> int:
        return await document_uploads.drop_expired_uploads(self._tenant)

    async def get(self, document_ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await self._tenant.read(lambda tx: document_rows.get(tx, document_ids))

    async def of_memories(self, memory_ids: Sequence[MemoryId]) -> Mapping[MemoryId, Document]:
        return await self._tenant.read(lambda tx: document_rows.of_memories(tx, memory_ids))

    async def headings_at(
        self, document_id: DocumentId, places: Sequence[int]
    ) -> Sequence[tuple[str, ...]]:
        return await self._tenant.read(
            lambda tx: document_headings.headings_at(tx, document_id, places)
        )

    async def put_text(
        self,
        document_id: DocumentId,
        text: Iterable[bytes] | None,
        *,
        problem: str | None = None,
        quota: Quota = UNBOUNDED,
    ) -> None:
        await document_text.put_text(self._tenant, document_id, text, problem=problem, quota=quota)

    async def claim_unindexed(
        self, *, owner: str, lease: timedelta, document_id: DocumentId | None = None
    ) -> Document | None:
        return await document_indexing.claim_unindexed(
            self._tenant, owner=owner, lease=lease, document_id=document_id
        )

    async def has_unindexed(self) -> bool:
        return await document_indexing.has_unindexed(self._tenant)

    async def postpone_unindexed(
        self, document_id: DocumentId, *, owner: str, delay: timedelta, problem: str
    ) -> None:
        await document_indexing.postpone_unindexed(
            self._tenant, document_id, owner=owner, delay=delay, problem=problem
        )

    async def read_unindexed(self, document_id: DocumentId, *, bytes_max: int) -> UnindexedText:
        return await self._tenant.read(
            lambda tx: document_indexing.read_unindexed(tx, document_id, bytes_max=bytes_max)
        )

    async def index_chunks(
        self,
        document_id: DocumentId,
        chunks: Sequence[DocumentChunk],
        *,
        owner: str,
        is_last: bool,
        indexing: Indexing = WORDS_ALONE,
    ) -> bool:
        return await document_indexing.index_chunks(
            self._tenant, document_id, chunks, owner=owner, is_last=is_last, indexing=indexing
        )

    def read_body(
        self, document_id: DocumentId, wanted: ByteRange | None = None
    ) -> AsyncIterator[bytes]:
        return document_reading.read_body(self._tenant, document_id, wanted)

    def read_text(
        self, document_id: DocumentId, wanted: ByteRange | None = None
    ) -> AsyncIterator[bytes]:
        return document_reading.read_text(self._tenant, document_id, wanted)
