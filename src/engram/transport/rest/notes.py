"""Notes, and what is relevant among them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from engram import limits
from engram.model.ids import MemoryId
from engram.transport import answers, requests
from engram.transport.rest.needs import needs
from engram.transport.rest.paths import MemoryPath
from engram.transport.rest.routes import Call, JsonRoute

router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["notes"])


@router.post("/context", operation_id="fetch_context")
@needs("search")
async def fetch_context(call: Call, body: requests.FetchContext) -> answers.ContextFetched:
    """Return what is relevant to a piece of work as one fenced text, within a token budget."""
    context = await call.service.contexts.fetch_context(call.principal, body.to_model())
    return answers.context_fetched(context)


@router.post("/notes", operation_id="store_note", status_code=201)
@needs("write")
async def store_note(call: Call, body: requests.StoreNote) -> answers.NoteStored:
    """Keep a note; one that is there already is named in `duplicate_of` and not stored again."""
    kept = await call.service.notes.store_note(call.principal, body.to_model())
    call.warn_of_quota(kept.quota_warning)
    return answers.note_stored(kept)


@router.post("/notes/batch", operation_id="store_notes", status_code=201)
@needs("write", body_bytes_max=limits.NOTES_BODY_BYTES_MAX)
async def store_notes(call: Call, body: requests.StoreNotes) -> answers.NotesStored:
    """Keep several notes, all or none."""
    kept = await call.service.notes.store_notes(call.principal, body.to_model())
    call.warn_of_quota(kept.quota_warning)
    return answers.notes_stored(kept)


@router.get("/notes", operation_id="list_entries")
@needs("read")
async def list_entries(
    call: Call, query: Annotated[requests.ListEntries, Query()]
) -> answers.EntriesListed:
    """List notes, newest first, with their true total."""
    page = await call.service.notes.list_entries(call.principal, query.to_model())
    return answers.entries_listed(page)


@router.delete("/notes/{entry_id:memory_id}", operation_id="remove_entry")
@needs("delete")
async def remove_entry(call: Call, entry_id: MemoryPath) -> answers.EntryRemoved:
    """Remove a note with everything derived from it; a tombstone without the text stays."""
    tombstone = await call.service.notes.remove_entry(call.principal, MemoryId(entry_id))
    return answers.entry_removed(tombstone)
