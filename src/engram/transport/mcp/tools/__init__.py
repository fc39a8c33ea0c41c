"""The MCP tools: one table, from which listing, schemas, calls and documentation are made.

Descriptions are read by a model at work, and every session pays for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engram.errors import InvalidRequestError
from engram.transport.mcp.tools.conversations import CONVERSATION_TOOLS
from engram.transport.mcp.tools.tool import Answer, Tool

__all__ = [
    "TOOLS",
    "TOOLSETS",
    "TOOLS_BY_NAME",
    "Answer",
    "Tool",
    "parse_toolsets",
    "tools_of",
]

TOOLS: tuple[Tool[Any], ...] = (*CONVERSATION_TOOLS,)
"""Every tool, in the order in which clients see them."""

TOOLS_BY_NAME: Mapping[str, Tool[Any]] = {tool.name: tool for tool in TOOLS}

TOOLSETS: tuple[str, ...] = tuple(dict.fromkeys(tool.toolset for tool in TOOLS))


def tools_of(toolsets: tuple[str, ...]) -> tuple[Tool[Any], ...]:
    """Return the tools of these toolsets, in their order."""
    return tuple(tool for tool in TOOLS if tool.toolset in toolsets)


def parse_toolsets(text: str) -> tuple[str, ...]:
    """Return the toolsets a connection asks for, comma-separated.

    Raises:
        InvalidRequestError: one of them is unknown, or none is given.
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in TOOLSETS:
            message = f"there is no toolset {name!r}; known: {', '.join(TOOLSETS)}"
            raise InvalidRequestError(message, field="toolsets")
    return names
