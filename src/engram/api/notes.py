"""Operations on notes, and fetching context."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from engram import limits
from engram.api.lean import date_of, list_text
from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.model.access import Principal, QuotaWarning
from engram.model.fields import Between, Length, Offset, Source
from engram.model.ids import MemoryId
from engram.model.memory import (
    Category,
    Memory,
    MemoryFilters,
    MemoryQuery,
    NoteDraft,
    StoredMemory,
    Tombstone,
)
from engram.model.recall import Context, ContextRequest
from engram.model.request import Request
from engram.model.trash import Undo
from engram.model.value import Value, derived
from engram.text.excerpts import cut
from engram.text.quoting import label, quote_after

if TYPE_CHECKING:
    from engram.service import Service

TOOLSET = "notes"


class NoteBatch(Request):
    """Notes to store atomically."""

    notes: Annotated[tuple[NoteDraft, ...], Length(1, limits.MEMORIES_PER_CALL_MAX)]


class NoteQuery(Request):
    """Filters and page of a list of notes, newest first."""

    limit: Annotated[int, Between(1, limits.NOTE_PAGE_MAX)] = 10
    offset: Offset = 0
    category: Category | None = None
    source: Source | None = None


class NoteReference(Request):
    """Names one note."""

    entry_id: MemoryId


class NoteRemoval(NoteReference):
    """The note to remove."""

    undo: Undo = False


class NoteStored(Value, omit_defaults=True):
    """Result of storing a note."""

    id: MemoryId
    duplicate_of: MemoryId | None = None
    """The note with the same text that was already stored."""
    quota_warning: QuotaWarning = None


class NotesStored(Value, omit_defaults=True):
    """Result of storing notes."""

    notes: tuple[NoteStored, ...]
    stored: int
    quota_warning: QuotaWarning = None


class Entry(Value, omit_defaults=True):
    """A note in a list."""

    id: MemoryId
    content: str
    category: Category
    source: str
    tags: tuple[str, ...]
    project: str
    created_at: datetime
    truncated: bool = False


class EntryPage(Value):
    """One page of notes and the total count."""

    entries: tuple[Entry, ...]
    total: int
    next_offset: int | None


async def store_note(service: Service, principal: Principal, request: NoteDraft) -> NoteStored:
    kept = await service.memories.store_note(principal, request)
    return _stored(kept.memories[0], quota_warning=kept.quota_warning)


async def store_notes(service: Service, principal: Principal, request: NoteBatch) -> NotesStored:
    kept = await service.memories.store_notes(principal, request.notes)
    return NotesStored(
        notes=tuple(map(_stored, kept.memories)),
        stored=sum(not each.is_duplicate for each in kept.memories),
        quota_warning=kept.quota_warning,
    )


async def list_entries(service: Service, principal: Principal, request: NoteQuery) -> EntryPage:
    filters = MemoryFilters(
        categories=() if request.category is None else (request.category,),
        sources=() if request.source is None else (request.source,),
    )
    query = MemoryQuery(limit=request.limit, offset=request.offset, filters=filters)
    page = await service.memories.list(principal, query)
    entries = tuple(map(_entry, page.memories))
    return EntryPage(entries=entries, total=page.total, next_offset=page.next_offset)


def _stored(memory: StoredMemory, *, quota_warning: str | None = None) -> NoteStored:
    known = memory.id if memory.is_duplicate else None
    return NoteStored(id=memory.id, duplicate_of=known, quota_warning=quota_warning)


def _entry(memory: Memory) -> Entry:
    """Return a memory as a note; one that is longer than a note is truncated."""
    shown = cut(memory.content, limits.NOTE_CHARACTERS_MAX)
    return derived(Entry, memory, content=shown.text, truncated=shown.is_cut)


def entries_text(page: EntryPage, token_budget: int) -> str:
    """Return a page of notes, newest first."""
    lines = [_entry_line(entry) for entry in page.entries]
    return list_text(lines, page.total, page.next_offset, token_budget, noun="notes")


def _entry_line(entry: Entry) -> str:
    head = f"{entry.id} {date_of(entry.created_at)} {entry.category}, {label(entry.source)}:"
    return quote_after(head, entry.content) + (" […]" if entry.truncated else "")


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="store_note",
        description="Keep one fact that later sessions need. The same note is kept once.",
        request=NoteDraft,
        answer=NoteStored,
        run=store_note,
        scopes=("write",),
        toolset=TOOLSET,
        tool=Tool(title="Keep a note", hints=("repeatable",)),
        routes=(Route(method="POST", path="/api/v1/notes", status=201),),
    ),
    Operation(
        name="store_notes",
        description="Keep several notes, all or none.",
        request=NoteBatch,
        answer=NotesStored,
        run=store_notes,
        scopes=("write",),
        toolset=TOOLSET,
        body_bytes_max=limits.NOTES_BODY_BYTES_MAX,
        routes=(Route(method="POST", path="/api/v1/notes/batch", status=201),),
    ),
    Operation(
        name="fetch_context",
        description="Fetch the notes that matter to your work, fenced as reference data.",
        request=ContextRequest,
        answer=Context,
        run=lambda service, me, request: service.search.fetch_context(me, request),
        scopes=("search",),
        toolset=TOOLSET,
        tool=Tool(
            title="Fetch context",
            hints=("reads",),
            show=lambda answer: answer.context,
            lean=lambda answer, _: answer.context,
            places=lambda answer: tuple(
                dict.fromkeys(each.conversation_id or each.id for each in answer.entries)
            ),
        ),
        routes=(Route(method="POST", path="/api/v1/context"),),
        command=Command(words=("notes", "context"), arguments=("query",)),
    ),
    Operation(
        name="list_entries",
        description="List notes, newest first.",
        request=NoteQuery,
        answer=EntryPage,
        run=list_entries,
        scopes=("read",),
        toolset=TOOLSET,
        tool=Tool(title="List notes", hints=("reads",), lean=entries_text),
        routes=(Route(method="GET", path="/api/v1/notes"),),
        command=Command(words=("notes", "list")),
    ),
    Operation(
        name="remove_entry",
        description="Remove a note for good, if the user asks.",
        request=NoteRemoval,
        answer=Tombstone,
        run=lambda service, me, request: service.memories.purge(
            me, request.entry_id, undo=request.undo
        ),
        scopes=("delete",),
        toolset=TOOLSET,
        tool=Tool(title="Remove a note", hints=("destroys", "repeatable")),
        routes=(Route(method="DELETE", path="/api/v1/notes/{entry_id:memory_id}"),),
        command=Command(
            words=("notes", "remove"),
            arguments=("entry_id",),
            question="Remove the note {entry_id} for good?",
            is_undoable=True,
        ),
    ),
)
