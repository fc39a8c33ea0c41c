"""What every session pays for: the published tools, their schemas and their size.

`pytest tests/mcp/test_tool_table.py --inline-snapshot=fix` writes the golden file anew, and
`-k price --log-cli-level=info` prints what each toolset costs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from inline_snapshot import external_file
from mcp import Client

from engram.mcp.tools import TOOLS, Reading, Tool, tools_of
from engram.model.access import DEFAULT_TOOLSETS, TOOLSETS, Toolset
from engram.model.shape import fields_of
from engram.text.tokens import count_tokens
from tests.mcp.connecting import RunningServer, http_client
from tests.mcp.schemas import BY_TOOL

logger = logging.getLogger(__name__)

TOKENS_MAX: dict[Toolset, int] = {
    "conversations": 1_350,
    "notes": 700,
    "memories": 4_000,
    "maintenance": 2_700,
}
DEFAULT_TOKENS_MAX = 2_000
"""What a client pays that asks for nothing else: ten tools."""


async def published(client: Client) -> dict[str, Any]:
    listed = await client.list_tools()
    dumped = listed.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"tools": dumped["tools"]}


def tokens_of(tools: dict[str, Any]) -> int:
    return count_tokens(json.dumps(tools, separators=(",", ":"), ensure_ascii=False))


async def test_the_published_tools_are_the_golden_ones(server: RunningServer) -> None:
    query = f"?toolsets={','.join(TOOLSETS)}"
    async with http_client(server.url, server.key, query=query) as client:
        tools = await published(client)

    assert tools == external_file("golden/tools.json")


async def test_default_tools_are_loaded_without_a_search_for_them(server: RunningServer) -> None:
    for mode in ("auto", "legacy"):
        query = f"?toolsets={','.join(TOOLSETS)}"
        async with http_client(server.url, server.key, query=query, mode=mode) as client:
            listed = (await client.list_tools()).tools

        always = {tool.name for tool in listed if (tool.meta or {}).get("anthropic/alwaysLoad")}
        assert always == {tool.name for tool in tools_of(DEFAULT_TOOLSETS)}


async def test_the_default_list_of_tools_is_cheap(
    over_http: Client, record_property: Callable[[str, object], None]
) -> None:
    tools = await published(over_http)

    tokens = tokens_of(tools)
    record_property("tools/list tokens", tokens)
    assert len(tools["tools"]) == 10
    assert tokens <= DEFAULT_TOKENS_MAX, f"tools/list is {tokens:,.0f} tokens"


@pytest.mark.parametrize("toolset", TOOLSETS)
async def test_each_toolset_has_its_price(
    server: RunningServer, toolset: Toolset, record_property: Callable[[str, object], None]
) -> None:
    async with http_client(server.url, server.key, query=f"?toolsets={toolset}") as client:
        tokens = tokens_of(await published(client))

    record_property(f"{toolset} tokens", tokens)
    logger.info("toolset %s: %s tokens", toolset, f"{tokens:,.0f}")
    assert tokens <= TOKENS_MAX[toolset]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_valid_and_say_nothing_twice(tool: Tool) -> None:
    for schema in (tool.input_schema, tool.structure):
        jsonschema.Draft202012Validator.check_schema(schema)
        text = json.dumps(schema)
        assert schema["type"] == "object"
        assert not any(noise in text for noise in ('"title": "', "$ref", "$defs", "anyOf"))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_argument_of_a_request_is_published(tool: Tool) -> None:
    fields = fields_of(BY_TOOL[tool.name].request)
    required = [name for name, field in fields.items() if field.is_required]

    reading = fields_of(Reading).keys() if tool.is_lean else ()
    assert set(tool.input_schema["properties"]) == {*fields, *reading}
    assert tool.input_schema.get("required", []) == required
    assert tool.input_schema["additionalProperties"] is False


def test_annotations_tell_reading_from_writing_and_destroying() -> None:
    shown = tools_of(("conversations", "notes", "memories"))
    annotations = {tool.name: tool.annotations for tool in shown}

    reading = {name for name, hints in annotations.items() if hints.get("readOnlyHint")}
    destroying = {
        name
        for name, hints in annotations.items()
        if not hints.get("readOnlyHint") and hints.get("destructiveHint", True)
    }
    repeatable = {name for name, hints in annotations.items() if hints.get("idempotentHint")}
    assert annotations.keys() - reading == {
        "append_messages",
        "create_conversation",
        "delete_conversation",
        "store_note",
        "remove_entry",
        "memory_store",
        "memory_store_batch",
        "memory_store_document",
        "memory_connect",
        "memory_correct",
        "memory_forget",
        "memory_restore",
        "memory_feedback",
    }
    assert destroying == {"delete_conversation", "remove_entry", "memory_forget"}
    assert repeatable == destroying | {"store_note", "memory_connect", "memory_restore"}
    assert not any(hints["openWorldHint"] for hints in annotations.values())


def test_tools_stand_in_the_order_of_their_toolsets() -> None:
    positions = [TOOLSETS.index(tool.toolset) for tool in TOOLS]

    assert positions == sorted(positions)


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_the_tools_of_a_toolset_are_in_the_order_of_the_table(toolset: Toolset) -> None:
    listed = tuple(tool for tool in TOOLS if tool.toolset == toolset and tool.is_listed)

    assert tools_of((toolset,)) == listed


def test_the_toolsets_list_all_tools_but_short_forms_and_edits() -> None:
    unlisted = {tool.name for tool in set(TOOLS) - set(tools_of(TOOLSETS))}

    short_forms = {"memory_quick_store", "memory_query", "memory_status_ping"}
    assert unlisted == {*short_forms, "edit_conversation", "project_merge", "undo_change"}
