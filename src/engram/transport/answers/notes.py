"""The answers about notes."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from engram import limits
from engram.clock import format_time
from engram.model.memory import Category, Memory, MemoryPage, StoredMemory, Tombstone
from engram.service.keeping import Kept
from engram.text.excerpts import cut


class NoteStored(TypedDict):
    id: str
    duplicate_of: NotRequired[str]


class NotesStored(TypedDict):
    notes: list[NoteStored]
    stored: int


class EntryView(TypedDict):
    id: str
    content: str
    category: Category
    source: str
    tags: list[str]
    project: str
    created_at: str
    truncated: NotRequired[Literal[True]]


class EntriesListed(TypedDict):
    entries: list[EntryView]
    total: int
    next_offset: int | None


class EntryRemoved(TypedDict):
    removed: Literal[True]
    id: str
    content_hash: str
    removed_at: str


def note_stored(kept: Kept) -> NoteStored:
    return _note_view(kept.memories[0])


def notes_stored(kept: Kept) -> NotesStored:
    stored = sum(not each.is_duplicate for each in kept.memories)
    return {"notes": [_note_view(each) for each in kept.memories], "stored": stored}


def entries_listed(page: MemoryPage) -> EntriesListed:
    return {
        "entries": [entry_view(memory) for memory in page.memories],
        "total": page.total,
        "next_offset": page.next_offset,
    }


def entry_view(memory: Memory) -> EntryView:
    """A memory that is longer than notes are is cut: a listing stays one that can be read."""
    shown = cut(memory.content, limits.NOTE_CHARACTERS_MAX)
    view: EntryView = {
        "id": memory.id,
        "content": shown.text,
        "category": memory.category,
        "source": memory.source,
        "tags": list(memory.tags),
        "project": memory.project,
        "created_at": format_time(memory.created_at),
    }
    if shown.is_cut:
        view["truncated"] = True
    return view


def entry_removed(tombstone: Tombstone) -> EntryRemoved:
    return {
        "removed": True,
        "id": tombstone.id,
        "content_hash": tombstone.content_hash,
        "removed_at": format_time(tombstone.removed_at),
    }


def _note_view(stored: StoredMemory) -> NoteStored:
    if stored.is_duplicate:
        return {"id": stored.id, "duplicate_of": stored.id}
    return {"id": stored.id}
