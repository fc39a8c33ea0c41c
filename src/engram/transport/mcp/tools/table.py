"""Every tool, for those who need them all at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from engram import limits
from engram.model.access import KeyScope
from engram.model.toolsets import Toolset
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


@cache
def call_bytes_max(scopes: frozenset[KeyScope], toolsets: tuple[Toolset, ...] | None) -> int:
    """Return how large a call may be that a key with these scopes and toolsets sends.

    Which tool is called stands in the body itself, so the largest of those it may call counts.
    """
    if "write" not in scopes:
        return limits.CONTROL_BODY_BYTES_MAX
    allowed = [tool for tool in TOOLS if toolsets is None or tool.toolset in toolsets]
    return max((tool.body_bytes_max for tool in allowed), default=limits.CONTROL_BODY_BYTES_MAX)
