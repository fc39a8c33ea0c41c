"""The views and acts of the page, in the order of the navigation."""

from __future__ import annotations

from engram.page.view import Act, View
from engram.page.views import (
    conversation,
    conversation_edit,
    conversations,
    documents,
    duplicates,
    episodes,
    feed,
    health,
    home,
    keys,
    memories,
    memories_at_once,
    memory,
    memory_change,
    organizations,
    projects,
    search,
    seen,
    tools,
    trash,
    usage,
)

_MODULES = (
    home, search, feed, conversations, conversation, conversation_edit, memories, memories_at_once, memory,
    memory_change, documents, projects, episodes, duplicates, trash, seen, keys, usage, health, tools, organizations,
)  # fmt: skip
"""Of two views that match a path the first is shown."""

VIEWS: tuple[View, ...] = tuple(view for module in _MODULES for view in module.VIEWS)
ACTS: tuple[Act, ...] = tuple(act for module in _MODULES for act in module.ACTS)
