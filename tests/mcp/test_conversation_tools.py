"""The six tools, over every transport and era."""

from __future__ import annotations

from typing import Any

import jsonschema
from mcp import Client
from pydantic import TypeAdapter

from engram.mcp.tools import TOOLS, TOOLS_BY_NAME
from tests.mcp.connecting import call, refusal, text_of
from tests.mcp.schemas import whole_schema
from tests.promises import promise

VERBATIM = 'é\x00\x1b[31m "red"\r\n\u2028 \U0001f9a1 ﬁ\t'


async def test_a_conversation_can_be_kept_found_read_listed_and_deleted(client: Client) -> None:
    created = await call(client, "create_conversation", title="Badgers", tags=["animals"])
    conversation_id = created["conversation_id"]

    appended = await call(
        client,
        "append_messages",
        conversation_id=conversation_id,
        messages=[
            {"role": "user", "content": "Where do badgers live?", "name": "Ana"},
            {"role": "assistant", "content": "Badgers live in setts under the oak."},
        ],
    )
    found = await call(client, "search", query="sett of the badger")
    read = await call(client, "get_conversation", conversation_id=conversation_id)
    listed = await call(client, "list_conversations", tags=["animals"])
    deleted = await call(client, "delete_conversation", conversation_id=conversation_id)

    assert (appended["appended"], appended["first_sequence"], appended["last_sequence"]) == (
        2,
        1,
        2,
    )
    assert [result["conversation_id"] for result in found["results"]] == [conversation_id]
    assert "setts under the oak" in str(found["results"][0]["messages"])
    assert [message["id"] for message in read["messages"]] == appended["message_ids"]
    assert read["messages"][0]["name"] == "Ana"
    assert [item["id"] for item in listed["conversations"]] == [conversation_id]
    assert (deleted["deleted"], deleted["messages"]) == (True, 2)
    missing = await refusal(client, "get_conversation", conversation_id=conversation_id)
    assert missing["code"] == "not_found"
    assert (await call(client, "search", query="badger"))["results"] == []


@promise("verbatim")
async def test_content_comes_back_byte_for_byte(client: Client) -> None:
    message = {"role": "tool", "content": VERBATIM, "tool_name": "cat", "metadata": {"n": [1.5]}}

    appended = await call(client, "append_messages", messages=[message])
    read = await call(client, "get_conversation", conversation_id=appended["conversation_id"])

    assert read["messages"][0]["content"] == VERBATIM
    assert read["messages"][0]["metadata"] == {"n": [1.5]}


async def test_messages_without_a_conversation_go_to_the_default_one(client: Client) -> None:
    first = await call(client, "append_messages", messages=[{"role": "user", "content": "one"}])
    second = await call(client, "append_messages", messages=[{"role": "user", "content": "two"}])

    assert first["conversation_id"] == second["conversation_id"]
    assert second["first_sequence"] == 2


async def test_the_text_of_an_answer_is_its_structured_content(client: Client) -> None:
    result = await client.call_tool("list_conversations", {"format": "full"})

    assert TypeAdapter(Any).validate_json(text_of(result)) == result.structured_content


ANSWERED_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("create_conversation", {"title": "t"}),
    ("append_messages", {"messages": [{"role": "user", "content": "hello there"}]}),
    ("search", {"query": "hello"}),
    ("search", {"query": "hello", "explain": True, "detail": "window"}),
    ("search", {"query": "hello", "detail": "handle"}),
    ("search", {"query": "nothing like it"}),
    ("list_conversations", {}),
]


async def test_answers_match_their_published_schema(over_http: Client) -> None:
    published = {tool.name: tool.output_schema for tool in (await over_http.list_tools()).tools}
    assert {name for name, schema in published.items() if schema is None} == {
        tool.name for tool in TOOLS if tool.is_lean and tool.name in published
    }
    await call(over_http, "append_messages", messages=[{"role": "user", "content": "hello you"}])

    for tool, arguments in ANSWERED_CALLS:
        answer = await call(over_http, tool, **arguments)

        jsonschema.validate(answer, TOOLS_BY_NAME[tool].structure)
        jsonschema.validate(answer, whole_schema(tool))


@promise("idempotent")
async def test_other_messages_with_the_same_idempotency_key_are_refused(client: Client) -> None:
    message = {"role": "user", "content": "once"}
    await call(client, "append_messages", messages=[message], idempotency_key="k")

    refused = await refusal(
        client, "append_messages", messages=[message, message], idempotency_key="k"
    )

    assert refused == {"code": "idempotency_conflict"}
