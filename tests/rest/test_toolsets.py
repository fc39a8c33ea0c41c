"""The toolsets of a key forbid over REST what they forbid over MCP."""

from __future__ import annotations

import re

import httpx
import pytest

from engram.api.table import OPERATIONS
from engram.http.asgi import Application
from engram.http.openapi import openapi_document
from engram.mcp.tools import TOOLS
from engram.model.access import TOOLSETS, Toolset
from tests.promises import promise
from tests.rest.calls import connect, refusal

TOOLSET_OF: dict[str, Toolset | None] = {
    route.name or operation.name: operation.toolset
    for operation in OPERATIONS
    for route in operation.routes
    if route.is_documented
}
"""The toolset of each documented operation; None where a key's toolsets do not matter."""


IDS = {
    "memory_id": "mem_" + "0" * 21,
    "entry_id": "mem_" + "0" * 21,
    "document_id": "doc_" + "0" * 21,
    "part": "0",
}
"""Where paths are of a certain form."""


def operations() -> dict[str, tuple[str, str]]:
    """Return method and path of every documented operation; the things in its path do not exist."""
    paths = openapi_document(OPERATIONS)["paths"]
    return {
        operation["operationId"]: (method, re.sub(r"{(\w+)}", _absent, path))
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def _absent(name: re.Match[str]) -> str:
    return IDS.get(name[1], "x")


async def key_with(api: httpx.AsyncClient, *toolsets: Toolset) -> str:
    made = await api.post("/api/v1/keys", json={"name": "narrow", "toolsets": toolsets})
    return made.json()["key"]


def test_every_operation_has_its_place_and_a_tool_has_the_same_over_rest() -> None:
    assert set(TOOLSET_OF) == set(operations())
    shared = {tool.name: tool.toolset for tool in TOOLS if tool.name in TOOLSET_OF}
    assert shared == {name: TOOLSET_OF[name] for name in shared}


@promise("scopes")
@pytest.mark.parametrize("toolset", TOOLSETS)
async def test_a_key_is_refused_what_is_of_another_toolset(
    app: Application, api: httpx.AsyncClient, toolset: Toolset
) -> None:
    forbidden = {
        name: call for name, call in operations().items() if TOOLSET_OF[name] not in (None, toolset)
    }

    async with connect(app, await key_with(api, toolset)) as client:
        answers = {name: await client.request(*call) for name, call in forbidden.items()}

    for name, answer in answers.items():
        assert refusal(answer) == (403, "toolset_denied", None), name
        assert answer.json()["toolset"] == TOOLSET_OF[name]


async def test_a_key_with_toolsets_may_use_them_and_its_account(
    app: Application, api: httpx.AsyncClient
) -> None:
    async with connect(app, await key_with(api, "notes")) as client:
        answers = [await client.get(f"/api/v1/{path}") for path in ("notes", "status", "keys")]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
