"""Every tool, for those who need them all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engram.transport.mcp.tools.conversations import CONVERSATION_TOOLS
from engram.transport.mcp.tools.documents import DOCUMENT_TOOLS
from engram.transport.mcp.tools.maintenance import MAINTENANCE_TOOLS
from engram.transport.mcp.tools.memories import MEMORY_TOOLS
from engram.transport.mcp.tools.notes import NOTE_TOOLS
from engram.transport.mcp.tools.search import SEARCH_TOOLS
from engram.transport.mcp.tools.tool import Tool

TOOLS: tuple[Tool[Any], ...] = (
    *SEARCH_TOOLS,
    *CONVERSATION_TOOLS,
    *NOTE_TOOLS,
    *MEMORY_TOOLS,
    *DOCUMENT_TOOLS,
    *MAINTENANCE_TOOLS,
)
"""In the order in which clients see them."""

TOOLS_BY_NAME: Mapping[str, Tool[Any]] = {tool.name: tool for tool in TOOLS}
