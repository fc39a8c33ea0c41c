"""The texts of a request are freed with its answer, not when the garbage collector runs next.

The collector counts objects, and a text of megabytes is one of them.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Generator
from typing import Any

import anyio
import httpx
import pytest

from engram.bodies import json_text as texts
from tests.mcp.connecting import HANDSHAKE, MODERN

TEXT = "tanuki " * 50_000
REQUESTS = 5
TOOL = "append_messages"

GOOD = {"messages": [{"role": "user", "content": TEXT}]}
BODIES = {
    "kept": GOOD,
    "wrong role": {"messages": [{"role": "nobody", "content": TEXT}]},
    "unknown conversation": {**GOOD, "conversation_id": "0" * 26},
}
ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def no_collector() -> Generator[None]:
    """Count what is allocated, and leave reference cycles alone."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()


def held_bytes() -> int:
    """Return the memory of texts that were decoded from bodies and are still held."""
    decoded = tracemalloc.Filter(inclusive=True, filename_pattern=texts.__file__)
    snapshot = tracemalloc.take_snapshot().filter_traces([decoded])
    return sum(trace.size for trace in snapshot.traces)


async def wait_until_freed() -> None:
    """Return when no text is held; threads let go of theirs soon after an answer."""
    with anyio.fail_after(60):
        while True:
            if held_bytes() < len(TEXT):
                return
            await anyio.sleep(0.01)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_request_leaves_no_text_behind(
    api: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    for _ in range(REQUESTS):
        await api.post("/api/v1/messages", json=body)

    await wait_until_freed()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
@pytest.mark.parametrize("arguments", BODIES.values(), ids=BODIES)
async def test_a_tool_call_leaves_no_text_behind(
    api: httpx.AsyncClient, arguments: dict[str, Any], version: str
) -> None:
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": TOOL}
    params = {"name": TOOL, "arguments": arguments, "_meta": ENVELOPE}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    for _ in range(REQUESTS):
        answer = await api.post("/mcp", json=call, headers=headers)
        assert "result" in answer.json()

    await wait_until_freed()
