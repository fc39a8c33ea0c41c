"""The MCP tools: one table, from which listing, schemas, calls and documentation are made.

Descriptions are read by a model at work, and every session pays for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engram.model.toolsets import Toolset
from engram.transport.mcp.tools.conversations import CONVERSATION_TOOLS
from engram.transport.mcp.tools.documents import DOCUMENT_TOOLS
from engram.transport.mcp.tools.maintenance import MAINTENANCE_TOOLS
from engram.transport.mcp.tools.memories import MEMORY_TOOLS
from engram.transport.mcp.tools.notes import NOTE_TOOLS
from engram.transport.mcp.tools.tool import Answer, Tool

__all__ = [
    "TOOLS",
    "TOOLS_BY_NAME",
    "Answer",
    "Tool",
    "tools_of",
]

TOOLS: tuple[Tool[Any], ...] = (
    *CONVERSATION_TOOLS,
    *NOTE_TOOLS,
    *MEMORY_TOOLS,
    *DOCUMENT_TOOLS,
    *MAINTENANCE_TOOLS,
)
"""Every tool, in the order in which clients see them."""

TOOLS_BY_NAME: Mapping[str, Tool[Any]] = {tool.name: tool for tool in TOOLS}


def tools_of(toolsets: tuple[Toolset, ...]) -> tuple[Tool[Any], ...]:
    """Return the tools of these toolsets, in their order."""
    return tuple(tool for tool in TOOLS if tool.toolset in toolsets)
