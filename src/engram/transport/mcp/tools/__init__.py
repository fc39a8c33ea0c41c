"""The MCP tools: one table, from which listing, schemas, calls and documentation are made.

Descriptions are read by a model at work, and every session pays for them. A module of tools is
loaded when one of them is listed or called: most sessions use the tools of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, assert_never

from engram.model.toolsets import Toolset
from engram.transport.exports import exports_from

if TYPE_CHECKING:
    from engram.transport.mcp.tools.table import TOOLS, TOOLS_BY_NAME
    from engram.transport.mcp.tools.tool import Answer, Tool

__all__ = [
    "TOOLS",
    "TOOLS_BY_NAME",
    "TOOL_NAMES",
    "Answer",
    "Tool",
    "find_tool",
    "tools_of",
]

if not TYPE_CHECKING:  # To a checker it would say that there is any name.
    __getattr__ = exports_from(
        __name__, {"table": ["TOOLS", "TOOLS_BY_NAME"], "tool": ["Answer", "Tool"]}
    )

Module = Literal["search", "conversations", "notes", "memories", "documents", "maintenance"]

_TOOLSETS: Mapping[Module, tuple[Toolset, ...]] = {
    "search": ("conversations",),
    "conversations": ("conversations",),
    "notes": ("notes",),
    "memories": ("memories",),
    "documents": ("memories", "maintenance"),
    "maintenance": ("maintenance",),
}
"""The toolsets of each module's tools."""

_NAMES: Mapping[Module, tuple[str, ...]] = {
    "search": ("search",),
    "conversations": (
        "append_messages",
        "create_conversation",
        "get_conversation",
        "list_conversations",
        "delete_conversation",
    ),
    "notes": ("store_note", "fetch_context", "list_entries", "remove_entry"),
    "memories": (
        "memory_store",
        "memory_store_batch",
        "memory_recall",
        "memory_fetch",
        "memory_list",
        "memory_history",
        "memory_timeline",
        "memory_connect",
        "memory_correct",
        "memory_forget",
        "memory_feedback",
        "memory_projects",
        "memory_status",
    ),
    "documents": (
        "memory_store_document",
        "memory_query_document",
        "memory_ingest_document_stream",
    ),
    "maintenance": (
        "memory_summarize",
        "memory_consolidate",
        "memory_verify",
        "memory_migrate_embedder",
        "memory_export_all",
        "memory_import_claudemd",
        "memory_ingest",
        "memory_dump",
        "memory_delete_project",
        "memory_episode_start",
        "memory_episode_end",
        "memory_episode_list",
        "memory_episode_recall",
    ),
}
"""The tools of each module; both in the order in which clients see them."""

_HOMES: Mapping[str, Module] = {name: module for module, names in _NAMES.items() for name in names}

TOOL_NAMES: tuple[str, ...] = tuple(_HOMES)
"""The name of every tool."""


def find_tool(name: str) -> Tool[Any] | None:
    """Return the tool of that name, None where there is none."""
    module = _HOMES.get(name)
    if module is None:
        return None
    return next(tool for tool in _load(module) if tool.name == name)


def tools_of(toolsets: tuple[Toolset, ...]) -> tuple[Tool[Any], ...]:
    """Return the tools of these toolsets, in their order."""
    return tuple(
        tool
        for module, own in _TOOLSETS.items()
        if not set(own).isdisjoint(toolsets)
        for tool in _load(module)
        if tool.toolset in toolsets
    )


def _load(module: Module) -> tuple[Tool[Any], ...]:
    match module:
        case "search":
            from engram.transport.mcp.tools.search import SEARCH_TOOLS

            return SEARCH_TOOLS
        case "conversations":
            from engram.transport.mcp.tools.conversations import CONVERSATION_TOOLS

            return CONVERSATION_TOOLS
        case "notes":
            from engram.transport.mcp.tools.notes import NOTE_TOOLS

            return NOTE_TOOLS
        case "memories":
            from engram.transport.mcp.tools.memories import MEMORY_TOOLS

            return MEMORY_TOOLS
        case "documents":
            from engram.transport.mcp.tools.documents import DOCUMENT_TOOLS

            return DOCUMENT_TOOLS
        case "maintenance":
            from engram.transport.mcp.tools.maintenance import MAINTENANCE_TOOLS

            return MAINTENANCE_TOOLS
        case _:
            assert_never(module)
