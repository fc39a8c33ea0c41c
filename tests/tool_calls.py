"""Calls of tools without a transport between."""

from __future__ import annotations

from typing import Any

from engram.mcp.tools import TOOLS_BY_NAME
from engram.model.access import Principal
from engram.service import Service


async def call_tool(
    service: Service, principal: Principal, tool: str, **arguments: Any
) -> dict[str, Any]:
    """Return the structured answer of a tool."""
    called = TOOLS_BY_NAME[tool]
    whole = {"format": "full"} if called.is_lean else {}
    answer, _ = await called.call(service, principal, {**arguments, **whole})
    assert answer is not None
    return dict(answer)
