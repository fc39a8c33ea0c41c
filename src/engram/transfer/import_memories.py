"""Store the memories of an export with their versions and documents; those that differ are listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

from engram import limits
from engram.clock import to_microseconds
from engram.errors import ConflictError, InvalidRequestError, NotFoundError
from engram.model.document import DocumentTier
from engram.model.ids import DocumentId
from engram.model.memory import MemoryDraft
from engram.model.value import replace
from engram.storage import document_rows
from engram.storage.bookkeeping.counters import grow_counters, measure_document, measure_memory
from engram.storage.bookkeeping.row_hashes import DOCUMENT, seal
from engram.storage.codec import StoredContent
from engram.storage.documents import uploads
from engram.storage.documents.uploads import UploadedBody
from engram.storage.due import mark_due
from engram.storage.memories.rows import find_memories
from engram.storage.memories.storing import check_episodes
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.storage.words.rebuild import clear_state
from engram.transfer import memories
from engram.transfer.export_format import BodyLine, DocumentLine, Line, MemoryLine, VersionLine
from engram.transfer.export_lines import check_id, memory_lines, parse_time, record_of
from engram.transfer.import_target import SQL, Target, is_erased, record_import
from engram.transfer.memories import MemoryRecord

_DOCUMENTS = load_queries("documents/documents.sql")
_PART_BYTES = 1_048_576
"""Of a body that is stored in one transaction."""


@dataclass
class _Entry:
    """The lines of a memory."""

    line: MemoryLine
    versions: list[VersionLine] = field(default_factory=list[VersionLine])
    document: DocumentLine | None = None

    @property
    def lines(self) -> list[Line]:
        document = [] if self.document is None else [self.document]
        return [self.line, *self.versions, *document]

    @property
    def characters(self) -> int:
        return sum(len(each.content or "") for each in (self.line, *self.versions))


class _Standing(NamedTuple):
    """How a memory of an export is found here."""

    entry: _Entry
    record: MemoryRecord
    state: Literal["new", "same", "other", "erased"]


class MemoryImport:
    """Collects memories and stores them in batches; one with a document by itself."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._entries = list[_Entry]()
        self._current: _Entry | None = None
        self._body: _Body | None = None
        self._characters = 0

    async def begin(self, line: MemoryLine) -> None:
        """Take the first line of the next memory."""
        await self._end()
        self._current = _Entry(line)

    def add_version(self, line: VersionLine) -> None:
        """Take a former version of the memory."""
        self._expected().versions.append(line)

    async def begin_document(self, line: DocumentLine) -> None:
        """Take the document of the memory; its body follows."""
        entry = self._expected()
        entry.document = line
        self._current = None
        await self._flush()  # Memories have numbers in the order in which they are stored.
        self._body = _Body(self._target, entry)
        await self._body.begin()

    async def add_body(self, line: BodyLine) -> None:
        """Take the next bytes of the body."""
        if self._body is None:
            raise InvalidRequestError("a body comes without its document", field="export")
        await self._body.add(line.text.encode() if line.text is not None else line.base64 or b"")

    async def flush(self) -> None:
        """Store what was collected."""
        await self._end()
        await self._flush()

    def _expected(self) -> _Entry:
        if self._current is None:
            raise InvalidRequestError("a line comes without its memory", field="export")
        return self._current

    async def _end(self) -> None:
        """Take the memory whose lines have all come."""
        if self._body is not None:
            body, self._body = self._body, None
            await body.finish()
        if self._current is None:
            return
        self._entries.append(self._current)
        self._characters += self._current.characters
        self._current = None
        is_full = len(self._entries) >= limits.IMPORT_BATCH_ITEMS
        if is_full or self._characters >= limits.IMPORT_BATCH_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        entries, self._entries, self._characters = self._entries, [], 0
        if entries:
            await self._target.each(entries, self._store, named=_named)

    async def _store(self, entries: Sequence[_Entry]) -> None:
        target = self._target
        found = await target.store.tenant.read(lambda tx: [_compare(tx, each) for each in entries])
        new = [each for each in found if each.state == "new"]
        if new:
            await self._store_new([each.record for each in new])
        for each in found:
            _report(target, each)

    async def _store_new(self, records: Sequence[MemoryRecord]) -> None:
        target = self._target
        drafts = [MemoryDraft(content=each.memory.content).as_message() for each in records]
        await memories.store_records(
            target.store,
            records,
            actor=target.actor,
            quota=target.quota,
            indexing=await target.index([(draft, None) for draft in drafts], "memory"),
        )


def _named(entry: _Entry) -> tuple[Literal["memory"], str]:
    return "memory", entry.line.id


def _report(target: Target, found: _Standing) -> None:
    outcome, entry = target.outcome, found.entry
    match found.state:
        case "erased":
            outcome.erased += 1
        case "other":
            outcome.conflict(*_named(entry), "is here with other content")
        case "new" | "same":
            counted = outcome.stored if found.state == "new" else outcome.present
            counted["memory"] += 1
            counted["version"] += len(entry.versions)
            counted["document"] += entry.document is not None


def _compare(tx: Transaction, entry: _Entry) -> _Standing:
    """Compare a memory with the one that is here, if there is one.

    Raises:
        InvalidRequestError: it cannot be stored here.
    """
    record = record_of(entry.line, entry.versions, document=entry.document)
    memory_id = record.memory.id
    if is_erased(tx, memory_id):
        return _Standing(entry, record, "erased")
    number = find_memories(tx, [memory_id]).get(memory_id)
    if number is None:
        return _Standing(entry, record, "new")
    (here,) = memories.load_records(tx, [number])
    document = document_rows.of_memories(tx, [memory_id]).get(memory_id)
    same = _comparable(memory_lines(here, document=document)) == _comparable(entry.lines)
    return _Standing(entry, record, "same" if same else "other")


def _comparable(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of a memory without the content that is derived from a document."""
    first, *others = lines
    if isinstance(first, MemoryLine) and first.document_id is not None:
        first = replace(first, content=None)
    return [first, *others]


class _Body:
    """A memory with a document whose body is received in parts, like an upload."""

    def __init__(self, target: Target, entry: _Entry) -> None:
        self._target = target
        self._entry = entry
        self._found: _Standing | None = None
        self._part = bytearray()
        self._parts = 0
        self._left = 0
        """Bytes that are still to come."""

    async def begin(self) -> None:
        """Decide whether the body is stored; if so begin an upload, in place of one that was killed."""
        await self._target.each([self._entry], self._begin, named=_named)

    async def _begin(self, _: Sequence[_Entry]) -> None:
        document = self._entry.document
        if document is None:
            return
        target = self._target
        found = await target.store.tenant.read(lambda tx: _compare(tx, self._entry))
        if found.state == "new":
            target.document_limits.check(document.size_bytes)
            await target.store.documents.abort_upload(DocumentId(document.id))
            await target.store.tenant.write(partial(_begin_document, line=document, target=target))
            self._left = document.size_bytes
        self._found = found

    async def add(self, data: bytes) -> None:
        """Take the next bytes."""
        if not self._is_stored or self._entry.document is None:
            return
        self._left -= len(data)
        if self._left < 0:
            self._found = None
            await self._target.store.documents.abort_upload(DocumentId(self._entry.document.id))
            self._target.outcome.refuse(*_named(self._entry), "has a longer body than it says")
            return
        self._part += data
        if len(self._part) >= _PART_BYTES:
            await self._send()

    async def finish(self) -> None:
        """Store the document and its memory, or list why that is not possible."""
        if self._is_stored:
            await self._target.each([self._entry], self._finish, named=_named)
        elif self._found is not None:
            _report(self._target, self._found)

    @property
    def _is_stored(self) -> bool:
        return self._found is not None and self._found.state == "new"

    async def _send(self) -> None:
        target, document = self._target, self._entry.document
        if document is None:
            return
        part, self._part = bytes(self._part), bytearray()
        await target.store.documents.add_part(
            DocumentId(document.id),
            self._parts,
            part,
            limits=target.document_limits,
            quota=target.quota,
        )
        self._parts += 1

    async def _finish(self, _: Sequence[_Entry]) -> None:
        document, found = self._entry.document, self._found
        if document is None or found is None:
            return
        if self._part:
            await self._send()
        target, documents = self._target, self._target.store.documents
        document_id = DocumentId(document.id)
        try:
            row = await target.store.tenant.read(lambda tx: uploads.find_upload(tx, document_id))
            body = await documents.read_upload(row, target.document_limits)
            _check_hash(body, document)
            work = partial(
                _finish_document, body=body, entry=self._entry, record=found.record, target=target
            )
            await target.store.tenant.write(work)
        except (InvalidRequestError, NotFoundError):
            await documents.abort_upload(document_id)
            raise
        _report(target, found)
        stored = await documents.get([document_id])
        await target.document_stored(stored[document_id])


def _check_hash(body: UploadedBody, document: DocumentLine) -> None:
    if body.sha256.hex() != document.sha256:
        raise InvalidRequestError("has other bytes than its hash says", field="body")


def _begin_document(tx: Transaction, *, line: DocumentLine, target: Target) -> None:
    document_id = DocumentId(check_id(line.id, prefix="doc_"))
    if document_rows.get_row(tx, document_id) is not None:
        raise InvalidRequestError("is the id of another memory's document", field="document_id")
    values = {"id": document_id, "name": line.name, "media_type": line.media_type}
    created_at = to_microseconds(parse_time(line.created_at, field="created_at"))
    now = tx.tenant.now()
    tx.execute(SQL["begin_document"], **values, created_at=created_at, now=now)
    mark_due(tx, "documents", at=now + uploads.LIFE_MICROSECONDS)
    (row,) = document_rows.find_rows(tx, [document_id]).values()
    grow_counters(tx, quota=target.quota, stored_bytes=measure_document(tx, row.number))


def _finish_document(
    tx: Transaction, *, body: UploadedBody, entry: _Entry, record: MemoryRecord, target: Target
) -> None:
    """Turn an upload into the document of an imported memory.

    Raises:
        ConflictError: another import of the same document is at work.
    """
    row, now = body.row, tx.tenant.now()
    if not uploads.is_unchanged(tx, row) or is_erased(tx, record.memory.id):
        raise ConflictError(f"document {row.id} is imported by somebody else; try again")
    state = clear_state(tx, now=now)
    check_episodes(tx, [record.memory.episode_id])
    shown = _shown(tx, body, entry, record)
    upload_bytes = measure_document(tx, row.number)
    uploads.check_whole_quota(target.quota, state, upload_bytes + row.size_bytes)
    number = _add_memory(tx, body, record, shown)
    tx.execute(
        _DOCUMENTS["finish_upload"],
        number=row.number,
        memory=number,
        tier=_tier(body, entry),
        sha256=body.sha256,
        is_converted=not body.is_text,
        text_bytes=row.size_bytes if body.is_text else None,
        content_encoding=None if shown is None else shown.encoding,
        content=None if shown is None else shown.content,
        now=now,
    )
    mark_due(tx, "documents")
    seal(tx, DOCUMENT, number=row.number)
    if not record.memory.is_searched:
        document_rows.rest_document(tx, row.id)
    added = measure_document(tx, row.number) - upload_bytes + measure_memory(tx, number, since=0)
    grow_counters(tx, quota=target.quota, content_bytes=row.size_bytes, stored_bytes=added)
    record_import(tx, target.actor, document=row.id, memory=record.memory.id)


def _add_memory(
    tx: Transaction, body: UploadedBody, record: MemoryRecord, shown: StoredContent | None
) -> int:
    """Store the memory of a document with its versions, which have the same content; return its number."""
    digest = (body.sha256 if shown is None else shown.sha256).hex()
    memory = replace(record.memory, content_hash=digest)
    versions = tuple(
        replace(each, memory=replace(each.memory, content_hash=digest)) for each in record.versions
    )
    found = replace(record, memory=memory, versions=versions)
    searched: int | None = None
    if memory.is_searched:
        searched = document_rows.add_record(
            tx,
            memory.id,
            project=memory.project,
            tags=memory.tags,
            now=memories.stored_at(found)[-1],
        )
    return memories.add_rows(tx, found, record=searched, texts=[None] * len(versions))


def _shown(
    tx: Transaction, body: UploadedBody, entry: _Entry, record: MemoryRecord
) -> StoredContent | None:
    """Return what the memory shows; None where that is the body itself."""
    if entry.line.content is not None:
        return tx.tenant.codec.encode_alone(record.memory.content)
    return None if body.is_text and body.tier == 0 else body.shown


def _tier(body: UploadedBody, entry: _Entry) -> DocumentTier:
    """Return the tier that was exported, if it can be: the bound between the larger ones is a setting."""
    tier = body.tier if entry.document is None else entry.document.tier
    return tier if body.tier > 0 and tier > 0 else body.tier
