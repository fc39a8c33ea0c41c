"""Callers of tools hear that their quota is nearly used, and what a refusal is about."""

from __future__ import annotations

from typing import Any

import pytest

from engram.model.access import OrganizationChange
from tests.mcp.connecting import RunningServer, call, http_client
from tests.promises import promise

pytestmark = promise("quotas")

EVERYTHING = "?toolsets=conversations,notes,memories,maintenance"

WRITES: dict[str, dict[str, Any]] = {
    "append_messages": {"messages": [{"role": "user", "content": "hello"}]},
    "store_note": {"content": "the door is green"},
    "memory_store": {"content": "the door is green"},
    "memory_store_batch": {"memories": [{"content": "the door is green"}]},
    "memory_store_document": {"content": "# A door\n\nIt is green."},
    "memory_episode_start": {"description": "painting"},
    "memory_ingest_document_stream": {"action": "start"},
}


async def bound(server: RunningServer, **quota: int | None) -> None:
    """Give the first organisation a quota."""
    (first,) = await server.service.operator.list_organizations()
    bounds: dict[str, Any] = dict(quota)
    await server.service.operator.change_organization(first.id, OrganizationChange(**bounds))


@pytest.mark.parametrize("tool", WRITES)
async def test_every_writing_tool_warns(server: RunningServer, tool: str) -> None:
    await bound(server, bytes_max=100_000)
    async with http_client(server.url, server.key, query=EVERYTHING) as client:
        quiet = await call(client, tool, **WRITES[tool])
        await call(client, "append_messages", messages=[{"role": "user", "content": "x" * 80_000}])

        warned = await call(client, tool, **WRITES[tool])

    assert "quota_warning" not in quiet
    assert "of 100,000 bytes of the quota are used" in warned["quota_warning"]


async def test_a_refusal_names_the_bound_the_use_and_the_need(server: RunningServer) -> None:
    await bound(server, bytes_max=1_000)
    async with http_client(server.url, server.key) as client:
        refused = await client.call_tool("store_note", {"content": "x" * 1_500})

    assert refused.is_error
    facts = (refused.meta or {})["engram/error"]
    assert (facts["code"], facts["resource"], facts["limit"]) == ("quota_exceeded", "bytes", 1_000)
    assert facts["used"] + facts["needed"] > 1_000
