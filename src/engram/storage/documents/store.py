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
from engram.storage.documents import finishing as document_finishing
from engram.storage.documents import indexing as document_indexing
from engram.storage.documents import reading as document_reading
from engram.storage.documents import text as document_text
from engram.storage.documents import uploads as document_uploads
from engram.storage.documents.indexing import UnindexedText
from engram.storage.tenant import Tenant
from engram.text.documents import DocumentChunk


class DocumentStore:
    """The documents of one organisation, in its own file."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._database = tenant.database

    async def begin_upload(
        self, draft: DocumentDraft, *, actor: str, limits: DocumentLimits, quota: Quota = UNBOUNDED
    ) -> Upload:
        """Make room for a document whose parts will follow; nobody sees it before it is finished.

        Raises:
            RequestTooLargeError: it is announced larger than any document may be.
            LimitExceededError: `UPLOADS_MAX` uploads are under way.
            NotFoundError: it names an episode that is not here.
            QuotaExceededError: not even the upload itself fits the quota any more.
        """
        return await document_uploads.begin_upload(
            self._tenant, draft, actor=actor, quota=quota, limits=limits
        )

    async def get_upload(self, document_id: DocumentId) -> Upload:
        """Return how much of an upload has arrived.

        Raises:
            NotFoundError: there is no such upload, or it is finished or has expired.
        """
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
        """Keep the next part, durably; parts count from 0. The last one again changes nothing.

        Raises:
            NotFoundError: there is no such upload, or it has expired.
            ConflictError: another part is due, or the last one was other bytes.
            InvalidRequestError: more has arrived than was announced; nothing of it stays.
            RequestTooLargeError: the document is larger than any may be; nothing of it stays.
            QuotaExceededError: the part does not fit the quota any more; those before it stay.
        """
        return await document_uploads.add_part(
            self._tenant, document_id, part, data, quota=quota, limits=limits
        )

    async def finish_upload(
        self, document_id: DocumentId, *, actor: str, quota: Quota, limits: DocumentLimits
    ) -> StoredDocument:
        """Make what has arrived a document, owned by a new memory, and let it wait for its index.

        The tier follows from the size, and from the beginning of the body whether it is text or has
        to be converted. Finished again, the first answer is given. If the project has a searched
        document of the same bytes, that one is the answer and the upload is gone.

        Raises:
            NotFoundError: there is no such upload, or it has expired.
            InvalidRequestError: nothing has arrived, or not as much as was announced, or the body
                is not the UTF-8 text that its media type says; nothing of it stays.
            QuotaExceededError: it does not fit the quota any more; nothing of it stays.
        """
        return await document_finishing.finish_upload(
            self._tenant, document_id, actor=actor, quota=quota, limits=limits
        )

    async def abort_upload(self, document_id: DocumentId) -> bool:
        """Remove an upload that is not finished; False when there is none."""
        return await document_uploads.abort_upload(self._tenant, document_id)

    async def drop_expired_uploads(self) -> int:
        """Remove uploads that rest for longer than `UPLOAD_MINUTES`; return how many."""
        return await document_uploads.drop_expired_uploads(self._tenant)

    async def get(self, document_ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        """Return those that exist; what is still uploaded does not."""
        return await self._tenant.read(lambda tx: document_rows.get(tx, document_ids))

    async def of_memories(self, memory_ids: Sequence[MemoryId]) -> Mapping[MemoryId, Document]:
        """Return the documents of those of the memories that own one."""
        return await self._tenant.read(lambda tx: document_rows.of_memories(tx, memory_ids))

    async def headings_at(
        self, document_id: DocumentId, places: Sequence[int]
    ) -> Sequence[tuple[str, ...]]:
        """Return the headings that each byte of the text stands under, the outermost first.

        Where the text is not indexed, or not yet, none are known.
        """
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
        """Keep the UTF-8 that a body was converted to, or why it could not be.

        The text is taken in a thread, piece by piece. With a problem, without any text, or with one
        that does not fit the quota any more, the document is unreadable, and found by its name. Of a document that does not need a text, or
        is gone, nothing is changed.

        Raises:
            NotTextError: it is not UTF-8.
        """
        await document_text.put_text(self._tenant, document_id, text, problem=problem, quota=quota)

    async def claim_unindexed(
        self, *, owner: str, lease: timedelta, document_id: DocumentId | None = None
    ) -> Document | None:
        """Return a document that waits for its text or its index, held for `owner`.

        Of those that nobody else holds it is the one claimed longest ago, or `document_id`. Claim
        before every step: the lease begins anew, and each document has its turn.
        """
        return await document_indexing.claim_unindexed(
            self._tenant, owner=owner, lease=lease, document_id=document_id
        )

    async def has_unindexed(self) -> bool:
        """Return True if a document waits for its text or its index, whoever holds it."""
        return await document_indexing.has_unindexed(self._tenant)

    async def postpone_unindexed(
        self, document_id: DocumentId, *, owner: str, delay: timedelta, problem: str
    ) -> None:
        """Let nobody claim a document of `owner` for a while: what it needs failed for now.

        The problem is told of the document until a later step succeeds.
        """
        await document_indexing.postpone_unindexed(
            self._tenant, document_id, owner=owner, delay=delay, problem=problem
        )

    async def read_unindexed(self, document_id: DocumentId, *, bytes_max: int) -> UnindexedText:
        """Return the next text to index; with 64 KiB or more, at least one chunk can be made of it.

        Raises:
            NotFoundError: there is no such document, or it does not wait for its index.
            StoreCorruptError: a piece's bytes do not match its hash.
        """
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
        """Store the next chunks with their words and vectors; False when the lease was lost.

        They must follow those stored before without a gap; False if others were faster. With the
        last, the document is indexed.
        """
        return await document_indexing.index_chunks(
            self._tenant, document_id, chunks, owner=owner, is_last=is_last, indexing=indexing
        )

    def read_body(
        self, document_id: DocumentId, wanted: ByteRange | None = None
    ) -> AsyncIterator[bytes]:
        """Yield a body's bytes in order, piece by piece, each proved against its hash.

        Raises:
            NotFoundError: there is no such document.
            InvalidRequestError: the range begins past the end; one that only ends there is cut.
            StoreCorruptError: a piece's bytes do not match its hash.
        """
        return document_reading.read_body(self._tenant, document_id, wanted)

    def read_text(
        self, document_id: DocumentId, wanted: ByteRange | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the UTF-8 of the text that is searched: the body, or what it was converted to.

        A range may part characters at its ends. What of it is past the end is not there, and
        while there is no text nothing is.
        """
        return document_reading.read_text(self._tenant, document_id, wanted)
