"""What every session pays for: the published tools, their schemas and their size.

`pytest tests/mcp/test_tool_table.py --inline-snapshot=fix` writes the golden file anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from inline_snapshot import external_file
from mcp import Client

from engram.model.toolsets import TOOLSETS
from engram.transport.mcp.tools import TOOLS, Tool
from tests.mcp.connecting import RunningServer, http_client

TOKENS_MAX = 1_600
"""So that ten tools stay within 2,500 tokens."""

CHARACTERS_PER_TOKEN = 4


async def published(client: Client) -> dict[str, Any]:
    listed = await client.list_tools()
    dumped = listed.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"tools": dumped["tools"]}


async def test_the_published_tools_are_the_golden_ones(server: RunningServer) -> None:
    async with http_client(server.url, server.key) as client:
        tools = await published(client)

    assert tools == external_file("golden/tools.json")


async def test_the_list_of_tools_is_cheap(
    over_http: Client, record_property: Callable[[str, object], None]
) -> None:
    text = json.dumps(await published(over_http), separators=(",", ":"), ensure_ascii=False)

    tokens = len(text) / CHARACTERS_PER_TOKEN
    record_property("tools/list tokens", tokens)
    assert tokens <= TOKENS_MAX, f"tools/list is {len(text):,} characters, {tokens:,.0f} tokens"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_valid_and_say_nothing_twice(tool: Tool[Any]) -> None:
    for schema in (tool.input_schema, tool.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        text = json.dumps(schema)
        assert schema["type"] == "object"
        assert not any(noise in text for noise in ('"title": "', "$ref", "$defs", "anyOf"))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_argument_of_a_request_is_published(tool: Tool[Any]) -> None:
    fields = tool.request.model_fields
    required = [name for name, field in fields.items() if field.is_required()]

    assert set(tool.input_schema["properties"]) == set(fields)
    assert tool.input_schema.get("required", []) == required
    assert tool.input_schema["additionalProperties"] is False


def test_annotations_tell_reading_from_writing_and_destroying() -> None:
    annotations = {tool.name: tool.annotations for tool in TOOLS}

    reading = {name for name, hints in annotations.items() if hints["readOnlyHint"]}
    destroying = {name for name, hints in annotations.items() if hints.get("destructiveHint")}
    assert reading == {"search", "get_conversation", "list_conversations"}
    assert destroying == {"delete_conversation"}
    assert not any(hints["openWorldHint"] for hints in annotations.values())


def test_tools_stand_in_the_order_of_their_toolsets() -> None:
    positions = [TOOLSETS.index(tool.toolset) for tool in TOOLS]

    assert positions == sorted(positions)
