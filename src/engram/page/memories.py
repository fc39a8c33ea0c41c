"""What views of memories have in common: the filters of an address, reading one, and undoing a correction."""

from __future__ import annotations

from typing import Any

from engram.api.memories import ANYWHERE
from engram.api.memory_views import MemoryFetched
from engram.model.memory import Memory
from engram.page.view import Undo
from engram.page.visit import Visit

FILTERS = ("project", "memory_type", "category", "source", "tags", "episode_id", "validity")
LISTS = frozenset({"tags"})
LABELS = {"memory_type": "type", "tags": "tag", "episode_id": "episode"}


def memory_filters(visit: Visit) -> dict[str, Any]:
    """Return the filters that an address names, as the fields of `memory_browse`."""
    given = {
        name: visit.all_given(name) if name in LISTS else visit.given(name) for name in FILTERS
    }
    return {name: value for name, value in given.items() if value}


async def find_memory(visit: Visit, memory_id: str) -> MemoryFetched:
    """Return a memory of any project.

    Raises:
        NotFoundError: there is none with this id.
    """
    return await visit.call("memory_fetch", ANYWHERE, id=memory_id)


def undo_correction(memory: Memory) -> Undo:
    """Return how to bring back what a memory said before it was corrected."""
    fields = {"version": str(memory.version)}
    return Undo(action=f"/memories/{memory.id}/revert", fields=fields)
