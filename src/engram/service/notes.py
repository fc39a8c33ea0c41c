"""Keeping, listing and removing notes; a note is a memory of one fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engram import limits
from engram.clock import Clock
from engram.model.access import Principal
from engram.model.checks import check_range
from engram.model.ids import MemoryId
from engram.model.memory import (
    MemoryDraft,
    MemoryPage,
    MemoryQuery,
    StoredMemory,
    Tombstone,
    check_note_length,
)
from engram.service.keeping import Keeping, Kept
from engram.storage.store import Store


class Notes:
    """The use cases of the `notes` toolset, `fetch_context` apart."""

    def __init__(self, store: Store, *, keeping: Keeping, clock: Clock) -> None:
        self._store = store
        self._keeping = keeping
        self._clock = clock

    async def store_note(self, principal: Principal, draft: MemoryDraft) -> Kept:
        """Keep a note, unless the same one is there already."""
        return await self.store_notes(principal, [draft])

    async def store_notes(self, principal: Principal, drafts: Sequence[MemoryDraft]) -> Kept:
        """Keep several notes, all or none; those that are there already are not repeated.

        Only who may read is told which were there: others could find out by guessing what is stored.
        """
        for draft in drafts:
            check_note_length(draft.content)
        kept = await self._keeping.keep(principal, drafts, once=True)
        if principal.allows("read"):
            return kept
        return replace(kept, memories=tuple(StoredMemory(id=each.id) for each in kept.memories))

    async def list_entries(self, principal: Principal, query: MemoryQuery) -> MemoryPage:
        """Return one page of notes, newest first."""
        principal.require("read")
        check_range("limit", query.limit, minimum=1, maximum=limits.NOTE_PAGE_MAX)
        store = await self._store.organization(principal.organization_id)
        return await store.memories.list(query, now=self._clock.now())

    async def remove_entry(self, principal: Principal, entry_id: MemoryId) -> Tombstone:
        """Remove a note with all that was derived from it; removed again, nothing changes."""
        principal.require("delete")
        store = await self._store.organization(principal.organization_id)
        return await store.memories.purge(entry_id, actor=principal.actor)
