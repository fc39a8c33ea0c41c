"""The list of memories and notes of all projects, filtered by its address."""

from __future__ import annotations

from typing import Any

from engram.api.memory_views import MemoriesListed
from engram.model.fields import parse_whole_number
from engram.model.memory import CATEGORIES, IMPORTANCE_NAMES, MEMORY_TYPES
from engram.model.value import Value
from engram.page.chips import Chip, chips_of
from engram.page.memories import FILTERS, LABELS, LISTS, memory_filters
from engram.page.view import Act, Menu, View
from engram.page.visit import Visit

PAGE = 50
CHIPS = tuple(name for name in FILTERS if name != "validity")
"""Filters shown as chips; the choice beside them shows the validity, and takes it out."""

TOKENS = 6_000
"""Token budget of a page; each row shows the first lines of a memory."""


class MemoriesPage(Value):
    """One page of memories, and the filters that chose it."""

    found: MemoriesListed
    offset: int
    chips: tuple[Chip, ...]
    filters: dict[str, Any]
    memory_types: tuple[str, ...] = MEMORY_TYPES
    categories: tuple[str, ...] = CATEGORIES
    importances: tuple[str, ...] = IMPORTANCE_NAMES


async def load(visit: Visit) -> MemoriesPage:
    """Return a page of memories, newest first."""
    filters = memory_filters(visit)
    offset = parse_whole_number("offset", visit.given("offset") or "0")
    found = await visit.call(
        "memory_browse", limit=PAGE, offset=offset, token_budget=TOKENS, **filters
    )
    return MemoriesPage(
        found=found,
        offset=offset,
        chips=chips_of(visit, CHIPS, lists=LISTS, labels=LABELS),
        filters=filters,
    )


VIEWS = (
    View(
        path="/memories",
        template="memories.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Memories"),
    ),
)
ACTS: tuple[Act, ...] = ()
