"""Two organisations over MCP: neither learns that the other exists."""

from __future__ import annotations

import pytest
from mcp import Client, MCPError

from tests.mcp.connecting import RunningServer, call, http_client, refusal
from tests.promises import promise


@promise("apart")
async def test_another_organisation_finds_reads_and_deletes_nothing(
    over_http: Client, server: RunningServer
) -> None:
    kept = await call(
        over_http, "append_messages", messages=[{"role": "user", "content": "the secret otter"}]
    )
    conversation_id = kept["conversation_id"]

    async with http_client(server.url, await server.new_organization("other")) as stranger:
        found = await call(stranger, "search", query="secret otter")
        listed = await call(stranger, "list_conversations")
        refused = [
            await refusal(stranger, tool, conversation_id=conversation_id)
            for tool in ("get_conversation", "delete_conversation")
        ]
        absent = await refusal(stranger, "get_conversation", conversation_id="conv_absent")
        with pytest.raises(MCPError) as unread:
            await stranger.read_resource(f"engram://conversations/{conversation_id}")

    assert (found["results"], found["total_candidates"], listed["total"]) == ([], 0, 0)
    assert refused == [absent, absent]
    assert unread.value.error.code == -32602
    assert (await call(over_http, "list_conversations"))["total"] == 1


async def test_a_key_without_the_scope_is_refused(server: RunningServer) -> None:
    async with http_client(server.url, await server.new_key("read")) as reader:
        refused = {
            tool: (await refusal(reader, tool, **arguments))["required"]
            for tool, arguments in {
                "search": {"query": "q"},
                "append_messages": {"messages": [{"role": "user", "content": "x"}]},
                "create_conversation": {},
                "delete_conversation": {"conversation_id": "conv_x"},
            }.items()
        }
        listed = await call(reader, "list_conversations")

    assert refused == {
        "search": "search",
        "append_messages": "write",
        "create_conversation": "write",
        "delete_conversation": "delete",
    }
    assert listed["total"] == 0
