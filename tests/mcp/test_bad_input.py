"""Bad input over MCP: a stable code, the field and the bound, and nothing stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client, MCPError

from engram import limits
from tests.mcp.connecting import RunningServer, call, http_client, refusal, text_of
from tests.promises import promise

pytestmark = promise("clear")

MESSAGE: dict[str, Any] = {"role": "user", "content": "kept"}


@pytest.fixture
async def client(over_http: Client, server: RunningServer) -> AsyncIterator[Client]:
    """A client whose refused calls must leave the store empty."""
    yield over_http
    async with http_client(server.url, server.key) as reader:
        assert (await call(reader, "list_conversations"))["total"] == 0


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"deeper": value}
    return value


async def test_a_misspelled_required_argument_is_named_with_the_nearest_known_one(
    over_http: Client,
) -> None:
    result = await over_http.call_tool("search", {"querry": "tanuki"})

    assert text_of(result) == (
        "invalid_request: querry: is not a known argument of search; did you mean query?"
    )


async def test_an_append_without_messages_is_refused(client: Client) -> None:
    facts = await refusal(client, "append_messages", messages=[])

    assert (facts["code"], facts["field"]) == ("invalid_request", "messages")


async def test_201_messages_are_refused(client: Client) -> None:
    facts = await refusal(client, "append_messages", messages=[MESSAGE] * 201)

    assert (facts["code"], facts["field"]) == ("limit_exceeded", "messages")
    assert facts["limit"] == limits.MESSAGES_PER_CALL_MAX


async def test_an_unknown_role_is_refused(client: Client) -> None:
    facts = await refusal(client, "append_messages", messages=[MESSAGE, {**MESSAGE, "role": "me"}])

    assert (facts["code"], facts["field"]) == ("invalid_request", "messages[1].role")


@pytest.mark.parametrize("tool", ["search", "list_conversations", "delete_conversation"])
async def test_an_unknown_argument_is_refused(client: Client, tool: str) -> None:
    needed = {"search": {"query": "q"}, "delete_conversation": {"conversation_id": "conv_x"}}

    facts = await refusal(client, tool, **needed.get(tool, {}), colour="red")

    assert (facts["code"], facts["field"]) == ("invalid_request", "colour")


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("search", {"quary": "x", "query": "x"}, "argument of search; did you mean query?"),
        ("list_conversations", {"colour": 1}, "argument of list_conversations; there are limit,"),
        (
            "append_messages",
            {"messages": [{**MESSAGE, "contents": "x"}]},
            "messages[0].contents: is not a known argument of append_messages; did you mean content",
        ),
    ],
)
async def test_an_unknown_argument_is_named_with_the_one_that_was_meant(
    over_http: Client, tool: str, arguments: dict[str, Any], said: str
) -> None:
    result = await over_http.call_tool(tool, arguments)

    assert said in text_of(result)


async def test_an_unknown_argument_of_any_length_is_named_briefly(over_http: Client) -> None:
    result = await over_http.call_tool("search", {"query": "x", "q\n" * 100_000: 1})

    assert len(text_of(result)) < 1_000
    assert len(text_of(result).splitlines()) == 1


async def test_an_unknown_tool_is_named_with_the_one_that_was_meant(over_http: Client) -> None:
    with pytest.raises(MCPError) as refused:
        await over_http.call_tool("memory_store_bach", {})

    message = refused.value.error.message
    assert message == "Unknown tool 'memory_store_bach'; did you mean memory_store_batch?"


async def test_an_unknown_field_of_a_message_is_refused(client: Client) -> None:
    facts = await refusal(client, "append_messages", messages=[{**MESSAGE, "colour": "red"}])

    assert facts["field"] == "messages[0].colour"


async def test_a_message_over_10_mb_is_refused(client: Client) -> None:
    content = "x" * (limits.MESSAGE_BYTES_MAX + 1)

    facts = await refusal(
        client, "append_messages", messages=[MESSAGE, {**MESSAGE, "content": content}]
    )

    assert (facts["code"], facts["field"]) == ("limit_exceeded", "messages[1].content")
    assert (facts["limit"], facts["unit"]) == (limits.MESSAGE_BYTES_MAX, "bytes")


async def test_metadata_that_nests_too_deeply_is_refused(client: Client) -> None:
    metadata = nested(limits.METADATA_DEPTH_MAX + 1)

    facts = await refusal(client, "create_conversation", metadata=metadata)

    assert (facts["code"], facts["field"]) == ("limit_exceeded", "metadata")


async def test_metadata_over_64_kb_is_refused(client: Client) -> None:
    metadata = {"text": "x" * limits.METADATA_BYTES_MAX}

    facts = await refusal(client, "append_messages", messages=[{**MESSAGE, "metadata": metadata}])

    assert (facts["code"], facts["field"]) == ("limit_exceeded", "messages[0].metadata")


async def test_51_tags_are_refused(client: Client) -> None:
    facts = await refusal(client, "create_conversation", tags=[f"t{n}" for n in range(51)])

    assert (facts["code"], facts["field"], facts["limit"]) == ("limit_exceeded", "tags", 50)


async def test_a_negative_offset_is_refused(client: Client) -> None:
    facts = await refusal(client, "list_conversations", offset=-1)

    assert (facts["code"], facts["field"]) == ("invalid_request", "offset")


@pytest.mark.parametrize("limit", [0, 201, 2.5, "many", None])
async def test_a_limit_out_of_its_range_is_refused(client: Client, limit: object) -> None:
    facts = await refusal(client, "search", query="q", limit=limit)

    assert (facts["code"], facts["field"]) == ("invalid_request", "limit")


async def test_a_query_over_100_kb_is_refused(client: Client) -> None:
    facts = await refusal(client, "search", query="x" * (limits.QUERY_BYTES_MAX + 1))

    assert (facts["code"], facts["field"]) == ("limit_exceeded", "query")


async def test_a_stringified_array_is_refused(client: Client) -> None:
    facts = await refusal(client, "append_messages", messages='[{"role":"user","content":"x"}]')

    assert (facts["code"], facts["field"]) == ("invalid_request", "messages")


async def test_a_time_without_a_zone_is_refused(client: Client) -> None:
    facts = await refusal(client, "search", query="q", since="2026-05-08T12:00:00")

    assert (facts["code"], facts["field"]) == ("invalid_request", "since")


async def test_messages_for_an_unknown_conversation_are_refused(client: Client) -> None:
    facts = await refusal(
        client, "append_messages", conversation_id="conv_none", messages=[MESSAGE]
    )

    assert facts["code"] == "not_found"


async def test_a_search_in_an_unknown_conversation_is_refused(client: Client) -> None:
    facts = await refusal(client, "search", query="q", conversation_id="conv_none")

    assert facts["code"] == "not_found"


async def test_an_unknown_tool_is_an_error_of_the_protocol(client: Client) -> None:
    with pytest.raises(MCPError) as refused:
        await client.call_tool("forget_everything", {})

    assert refused.value.error.code == -32602


async def test_a_number_sent_as_text_is_understood(client: Client) -> None:
    answer = await call(client, "search", query="anything", limit="3", min_score="0.5")

    assert answer["results"] == []


@pytest.mark.parametrize(
    "query", ['"', "*", "NEAR(", "a:b", "-x", "?!…", "' OR 1=1 --", "🦡", "x" * 100_000]
)
async def test_no_query_is_read_as_syntax(client: Client, query: str) -> None:
    answer = await call(client, "search", query=query)

    assert answer["results"] == []
