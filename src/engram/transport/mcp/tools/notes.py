"""The tools of the toolset `notes`."""

from __future__ import annotations

from typing import Any

from engram.model.access import Principal
from engram.service import Service
from engram.transport import answers, requests
from engram.transport.mcp.tools.tool import Answer, Tool, warned

TOOLSET = "notes"


async def _store_note(
    service: Service, principal: Principal, request: requests.StoreNote
) -> Answer:
    kept = await service.notes.store_note(principal, request.to_model())
    return warned(answers.note_stored(kept), kept.quota_warning)


async def _fetch_context(
    service: Service, principal: Principal, request: requests.FetchContext
) -> Answer:
    context = await service.contexts.fetch_context(principal, request.to_model())
    return answers.context_fetched(context)


async def _list_entries(
    service: Service, principal: Principal, request: requests.ListEntries
) -> Answer:
    return answers.entries_listed(await service.notes.list_entries(principal, request.to_model()))


async def _remove_entry(
    service: Service, principal: Principal, request: requests.RemoveEntry
) -> Answer:
    return answers.entry_removed(await service.notes.remove_entry(principal, request.to_model()))


NOTE_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        name="store_note",
        title="Keep a note",
        description="Keep one fact that later sessions need. The same note is kept once.",
        toolset=TOOLSET,
        request=requests.StoreNote,
        answer=answers.NoteStored,
        run=_store_note,
        repeatable=True,
    ),
    Tool(
        name="fetch_context",
        title="Fetch context",
        description="Fetch the notes that matter to your work, fenced as reference data.",
        toolset=TOOLSET,
        request=requests.FetchContext,
        answer=answers.ContextFetched,
        run=_fetch_context,
        show=lambda answer: answer["context"],
        reads=True,
    ),
    Tool(
        name="list_entries",
        title="List notes",
        description="List notes, newest first.",
        toolset=TOOLSET,
        request=requests.ListEntries,
        answer=answers.EntriesListed,
        run=_list_entries,
        reads=True,
    ),
    Tool(
        name="remove_entry",
        title="Remove a note",
        description="Remove a note for good, when the user asks for it.",
        toolset=TOOLSET,
        request=requests.RemoveEntry,
        answer=answers.EntryRemoved,
        run=_remove_entry,
        destroys=True,
        repeatable=True,
    ),
)
