"""What Engram asks of a store about documents, beside what `engram.storage.ports` asks of it.

A document is owned by a memory of storage mode `document`: forgetting, restoring and purging are
those of the memory, and take the body along in the same transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

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
from engram.text.documents import ChunkerState, DocumentChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class UnindexedText:
    """The next text of a document to be cut into chunks."""

    data: bytes
    """UTF-8 from `state.read_from_bytes` on; unless it is the last, it may end inside a character."""
    state: ChunkerState
    """Where the last chunk ended."""
    is_last: bool
    """The text ends with it."""


class DocumentStore(Protocol):
    """The documents of one organisation."""

    async def begin_upload(
        self,
        draft: DocumentDraft,
        *,
        actor: str,
        limits: DocumentLimits,
        quota: Quota = UNBOUNDED,
    ) -> Upload:
        """Make room for a document whose parts will follow; nobody sees it before it is finished.

        Raises:
            RequestTooLargeError: it is announced larger than any document may be.
            LimitExceededError: `UPLOADS_MAX` uploads are under way.
            NotFoundError: it names an episode that is not here.
            QuotaExceededError: not even the upload itself fits the quota any more.
        """
        ...

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
        ...

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
        ...

    async def get_upload(self, document_id: DocumentId) -> Upload:
        """Return how much of an upload has arrived.

        Raises:
            NotFoundError: there is no such upload, or it is finished or has expired.
        """
        ...

    async def abort_upload(self, document_id: DocumentId) -> bool:
        """Remove an upload that is not finished; False when there is none."""
        ...

    async def drop_expired_uploads(self) -> int:
        """Remove uploads that rest for longer than `UPLOAD_MINUTES`; return how many."""
        ...

    async def get(self, document_ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        """Return those that exist; what is still uploaded does not."""
        ...

    async def of_memories(self, memory_ids: Sequence[MemoryId]) -> Mapping[MemoryId, Document]:
        """Return the documents of those of the memories that own one."""
        ...

    def read_body(
        self, document_id: DocumentId, wanted: ByteRange | None = None
    ) -> AsyncIterator[bytes]:
        """Yield a body's bytes in order, piece by piece, each proved against its hash.

        Raises:
            NotFoundError: there is no such document.
            InvalidRequestError: the range begins past the end; one that only ends there is cut.
            StoreCorruptError: a piece's bytes do not match its hash.
        """
        ...

    def read_text(
        self, document_id: DocumentId, wanted: ByteRange | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the UTF-8 of the text that is searched: the body, or what it was converted to.

        A range may part characters at its ends. What of it is past the end is not there, and
        while there is no text nothing is.
        """
        ...

    async def headings_at(
        self, document_id: DocumentId, places: Sequence[int]
    ) -> Sequence[tuple[str, ...]]:
        """Return the headings that each byte of the text stands under, the outermost first.

        Where the text is not indexed, or not yet, none are known.
        """
        ...

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
        ...

    async def claim_unindexed(
        self, *, owner: str, lease: timedelta, document_id: DocumentId | None = None
    ) -> Document | None:
        """Return a document that waits for its text or its index, held for `owner`.

        Of those that nobody else holds it is the one claimed longest ago, or `document_id`. Claim
        before every step: the lease begins anew, and each document has its turn.
        """
        ...

    async def has_unindexed(self) -> bool:
        """Say whether a document waits for its text or its index, whoever holds it."""
        ...

    async def postpone_unindexed(
        self, document_id: DocumentId, *, owner: str, delay: timedelta, problem: str
    ) -> None:
        """Let nobody claim a document of `owner` for a while: what it needs failed for now.

        The problem is told of the document until a later step succeeds.
        """
        ...

    async def read_unindexed(self, document_id: DocumentId, *, bytes_max: int) -> UnindexedText:
        """Return the next text to index; with 64 KiB or more, at least one chunk can be made of it.

        Raises:
            NotFoundError: there is no such document, or it does not wait for its index.
            StoreCorruptError: a piece's bytes do not match its hash.
        """
        ...

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
        ...
