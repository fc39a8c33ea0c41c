"""Use cases of the trash: list it, restore from it, empty it."""

from __future__ import annotations

from engram.model.access import Principal
from engram.model.trash import Restored, TrashEmptied, TrashPage, TrashQuery
from engram.service import UseCases


class Trash(UseCases):
    """What was deleted with `undo`, until it expires."""

    async def list(self, principal: Principal, query: TrashQuery) -> TrashPage:
        """Return one page of the trash, what was deleted last first."""
        store = await self._open(principal, "read")
        return await store.trash.list(query)

    async def restore(self, principal: Principal, entry_id: str) -> Restored:
        """Put a conversation or memory back as it was; idempotent."""
        store = await self._open(principal, "write", "delete")
        restored = await store.trash.restore(entry_id, actor=principal.actor)
        self._tools.background.announce_work(principal.organization_id, "vectors", "documents")
        return restored

    async def empty(self, principal: Principal, entry_id: str | None = None) -> TrashEmptied:
        """Remove an entry for good, or all there are, in steps that hold no writer up for long."""
        trash = (await self._open(principal, "delete")).trash
        if entry_id is not None:
            entry, _ = await trash.purge(entry_id, actor=principal.actor)
            return TrashEmptied(removed=1, stored_bytes=entry.stored_bytes)
        removed = stored_bytes = 0
        while (step := await trash.empty(actor=principal.actor)).removed:
            removed += step.removed
            stored_bytes += step.stored_bytes
        held = (await trash.list(TrashQuery(limit=1))).total
        return TrashEmptied(removed=removed, stored_bytes=stored_bytes, held=held)
