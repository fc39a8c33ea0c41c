"""Messages over `/mcp`, `/sse` and stdio: bounded by key and shape before they are parsed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client

from engram import limits
from engram.mcp.tools import TOOLS, call_bytes_max
from engram.model.access import KeyDraft
from tests.mcp.connecting import HANDSHAKE, MODERN, RunningServer, bearer, call
from tests.mcp.test_stdio import append, converse
from tests.promises import promise

LONG = 'é🦝\n"\\\x01' * 100 + "x" * 300_000
SMALL = limits.CONTROL_BODY_BYTES_MAX


def test_every_tool_has_a_bound_and_only_writers_get_a_large_one() -> None:
    assert {tool.name for tool in TOOLS if tool.body_bytes_max > SMALL} == {
        "append_messages",
        "memory_store",
        "memory_quick_store",
        "memory_store_batch",
        "memory_correct",
        "memory_store_document",
        "memory_ingest_document_stream",
    }
    assert not any(
        tool.annotations.get("readOnlyHint") for tool in TOOLS if tool.body_bytes_max > SMALL
    )
    assert call_bytes_max(frozenset({"read", "search", "delete", "admin"}), None) == SMALL
    assert call_bytes_max(frozenset({"write"}), None) == limits.BODY_BYTES_MAX
    assert call_bytes_max(frozenset({"write"}), ("notes",)) == SMALL


@promise("verbatim")
async def test_a_call_with_long_texts_keeps_them_verbatim(client: Client) -> None:
    made = await call(client, "create_conversation")
    messages = [{"role": "user", "content": LONG, "metadata": {"a": ["b" * 5_000]}}]

    await call(client, "append_messages", messages=messages, **made)

    read = await call(client, "get_conversation", **made)
    assert read["messages"][0]["content"] == LONG
    assert read["messages"][0]["metadata"] == messages[0]["metadata"]


async def narrow_key(server: RunningServer, draft: KeyDraft) -> str:
    principal = await server.service.access.authenticate(server.key)
    return (await server.service.access.create_key(principal, draft)).secret


@promise("bodies")
@pytest.mark.parametrize(
    "draft",
    [
        KeyDraft(name="k", scopes=("search", "read")),
        KeyDraft(name="k", scopes=("write",), toolsets=("notes",)),
    ],
    ids=["search and read", "notes alone"],
)
@pytest.mark.parametrize("path", ["/mcp", "/messages/?session_id=0"])
async def test_a_key_gets_the_largest_bound_that_it_may_use(
    server: RunningServer, draft: KeyDraft, path: str
) -> None:
    headers = {**bearer(await narrow_key(server, draft)), "Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
        response = await http.post(path, content=b" " * (SMALL + 1))

    assert response.status_code == 413
    assert response.json()["limit"] == SMALL


@promise("bodies")
@pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
@pytest.mark.parametrize(
    ("arguments", "unit"),
    [
        (b"[" + b"{}," * 3_000_000 + b"{}]", "values"),
        (b'{"a":' * 1_000_000, "levels"),
    ],
    ids=["wide", "deep"],
)
async def test_a_message_that_is_too_wide_or_deep_is_refused_before_it_is_built(
    server: RunningServer, version: str, arguments: bytes, unit: str
) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":%s}}' % arguments
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": version}
    async with httpx.AsyncClient(
        base_url=server.url, headers={**bearer(server.key), **headers}, timeout=60
    ) as http:
        response = await http.post("/mcp", content=body)

    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32700
    assert response.json()["error"]["data"]["unit"] == unit


@promise("bodies")
async def test_a_message_without_an_announced_length_is_counted(server: RunningServer) -> None:
    async def too_much() -> AsyncIterator[bytes]:
        for _ in range(SMALL // 100_000 + 1):
            yield b" " * 100_000

    key = await narrow_key(server, KeyDraft(name="k", scopes=("read",)))
    headers = {**bearer(key), "Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
        response = await http.post("/mcp", content=too_much())

    assert response.status_code == 413


def test_lines_that_are_too_long_wide_or_deep_are_answered_and_the_process_goes_on(
    tmp_path: Path,
) -> None:
    wide = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[' + b"{}," * 1_000_000 + b"0]}}"

    answers, log, status = converse(
        tmp_path, b"x" * (limits.BODY_BYTES_MAX + 1), wide, b"[" * 1_000_000, append(9, LONG)
    )

    errors = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert errors == [-32600, -32600, -32600]
    appended: dict[str, Any] = next(answer for answer in answers if answer.get("id") == 9)
    assert json.loads(appended["result"]["content"][0]["text"])["appended"] == 1
    assert (status, log) == (0, b"")
