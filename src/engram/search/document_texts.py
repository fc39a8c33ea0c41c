"""The texts that a document query reads: those of documents, and of memories without one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from engram.errors import NotFoundError
from engram.model.document import ByteRange, Document, QueriedText
from engram.model.ids import DocumentId, MemoryId
from engram.model.memory import Memory
from engram.model.value import Value
from engram.storage.organization import OrganizationStore

DOCUMENT_PREFIX = "doc_"


class SourceText(Value):
    """The text of a document or memory, read as a stream or in ranges."""

    store: OrganizationStore
    memory: Memory
    document: Document | None

    async def stream(self, wanted: ByteRange | None = None) -> AsyncGenerator[bytes]:
        """Yield the UTF-8 of the text, or of a range of it."""
        if self.document is None:
            data = self.memory.content.encode()
            yield data if wanted is None else data[wanted.start : wanted.end]
            return
        async for piece in self.store.documents.read_text(self.document.id, wanted):
            yield piece

    async def read(self, start: int, end: int) -> bytes:
        """Return a range of bytes, cut off at the end of the text."""
        data = bytearray()
        async with aclosing(self.stream(ByteRange(start=start, end=end))) as pieces:
            async for piece in pieces:
                data += piece
        return bytes(data)

    async def headings_at(self, places: Sequence[int]) -> Sequence[tuple[str, ...]]:
        """Return the headings above each byte offset; memories without a document have none."""
        if self.document is None or not places:
            return [()] * len(places)
        return await self.store.documents.headings_at(self.document.id, places)

    def described(self) -> QueriedText:
        """Return the description of the text for an answer."""
        if self.document is None:
            size = len(self.memory.content.encode())
            indexed = size if self.memory.is_searched else 0
            return QueriedText(memory_id=self.memory.id, text_bytes=size, indexed_bytes=indexed)
        return QueriedText(
            memory_id=self.memory.id,
            text_bytes=self.document.text_bytes,
            indexed_bytes=self.document.text_bytes_indexed,
            document_id=self.document.id,
        )


async def find_texts(
    store: OrganizationStore, identifiers: Sequence[str], *, project: str | None
) -> list[SourceText]:
    """Return the texts of memories and documents in the order of their ids, each once.

    Raises:
        NotFoundError: an id is unknown in the project.
    """
    wanted = await _owners(store, identifiers)
    memories = await store.memories.get(wanted)
    for memory_id in wanted:
        memory = memories.get(memory_id)
        if memory is None or project not in (None, memory.project):
            raise NotFoundError("memory", memory_id)
    owned = await store.documents.of_memories(wanted)
    return [
        SourceText(store=store, memory=memories[memory_id], document=owned.get(memory_id))
        for memory_id in wanted
    ]


async def _owners(store: OrganizationStore, identifiers: Sequence[str]) -> list[MemoryId]:
    """Return the ids of the memories, and of the owners of documents, each once."""
    named = [DocumentId(each) for each in identifiers if each.startswith(DOCUMENT_PREFIX)]
    documents = await store.documents.get(named)
    for document_id in named:
        if document_id not in documents:
            raise NotFoundError("document", document_id)
    owners = {document.id: document.memory_id for document in documents.values()}
    return list(dict.fromkeys(owners.get(DocumentId(each), MemoryId(each)) for each in identifiers))
