"""engram-go's tools with their documented arguments and answers, over every transport and era."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from mcp import Client

from engram.clock import SystemClock, format_time
from engram.mcp.tools import TOOLS, TOOLS_BY_NAME
from engram.text.tokens import count_tokens
from tests.mcp.connecting import RunningServer, call, http_client, refusal
from tests.mcp.schemas import whole_schema
from tests.promises import promise


async def test_the_calls_of_an_engram_go_client_run(client: Client) -> None:
    stored = await call(
        client,
        "memory_store",
        content="Tokens are signed with RS256.",
        memory_type="decision",
        importance=1,
        tags=["auth", "date:2025-03-04"],
        immutable=False,
        pattern_confidence=0.8,
        project="app",
    )
    batch = await call(
        client,
        "memory_store_batch",
        memories=[
            {"content": "Tabs, 120 characters.", "memory_type": "preference"},
            {"content": "The database listens on 5433.", "importance": 3, "tags": ["db"]},
        ],
        project="app",
    )
    fetched = await call(client, "memory_fetch", id=stored["id"], detail="full", project="app")
    listed = await call(
        client, "memory_list", project="app", limit=20, offset=0, memory_type="decision"
    )
    connected = await call(
        client,
        "memory_connect",
        source_id=stored["id"],
        target_id=batch["ids"][1],
        relation_type="depends_on",
        strength=0.9,
        project="app",
    )
    corrected = await call(
        client,
        "memory_correct",
        memory_id=stored["id"],
        content="Tokens are signed with ES256.",
        tags=["auth"],
        importance=0,
        pattern_confidence=0.9,
        project="app",
    )
    history = await call(client, "memory_history", memory_id=stored["id"], project="app")
    now = format_time(SystemClock().now())
    timeline = await call(client, "memory_timeline", as_of=now, limit=20, project="app")
    feedback = await call(
        client,
        "memory_feedback",
        memory_ids=[stored["id"]],
        event_id="0190b1c2-0000-7000-8000-000000000000",
        failure_class="stale_ranking",
        helpful=False,
        project="app",
    )
    forgotten = await call(
        client, "memory_forget", memory_id=batch["ids"][0], reason="spaces now", project="app"
    )
    projects = await call(client, "memory_projects")
    status = await call(client, "memory_status", project="app")

    assert stored["status"] == "stored"
    assert stored["degraded"].keys() == {"embed", "reason"}
    assert (len(batch["ids"]), batch["count"]) == (2, 2)
    assert (fetched["content"], fetched["truncated"]) == ("Tokens are signed with RS256.", False)
    assert (fetched["memory_type"], fetched["project"]) == ("decision", "app")
    assert [memory["id"] for memory in listed["memories"]] == [stored["id"]]
    assert (listed["count"], listed["total"]) == (1, 1)
    assert listed["memories"][0]["valid_from"] == "2025-03-04T00:00:00.000000Z"
    assert connected["status"] == "connected"
    assert (connected["source_id"], connected["target_id"]) == (stored["id"], batch["ids"][1])
    assert (corrected["content"], corrected["version"]) == ("Tokens are signed with ES256.", 2)
    assert (corrected["tags"], corrected["importance"]) == (["auth"], 0)
    assert (history["memory_id"], history["count"]) == (stored["id"], 1)
    assert history["versions"][0]["content"] == "Tokens are signed with RS256."
    assert history["versions"][0]["change_type"] == "update"
    assert timeline["as_of"] == now
    assert timeline["count"] == len(timeline["memories"]) == 3
    assert feedback == {"status": "recorded", "count": 1}
    assert (forgotten["deleted"], forgotten["memory_id"]) == (True, batch["ids"][0])
    assert projects == {"projects": [{"project": "app", "count": 2}], "count": 1}
    assert (status["total_memories"], status["total_relationships"]) == (2, 1)
    assert (status["by_type"], status["by_importance"]) == (
        {"context": 1, "decision": 1},
        {"0": 1, "3": 1},
    )
    assert status["chunks_total"] == status["total_chunks"] == 2
    assert status["chunks_embedded"] + status["chunks_pending_embedding"] == 2


async def test_a_memory_without_a_vector_says_so(over_http: Client) -> None:
    stored = await call(over_http, "memory_store", content="found by its words alone")

    assert stored["degraded"] == {"embed": True, "reason": "no_embedder"}


async def test_a_project_is_default_where_none_is_given(over_http: Client) -> None:
    stored = await call(over_http, "memory_store", content="somewhere")

    (memory,) = (await call(over_http, "memory_list"))["memories"]

    assert (memory["id"], memory["project"]) == (stored["id"], "default")
    elsewhere = await refusal(over_http, "memory_fetch", id=stored["id"], project="elsewhere")
    assert elsewhere["code"] == "not_found"


async def test_a_memory_is_read_as_summary_chunks_or_whole(over_http: Client) -> None:
    text = "".join(f"Line {number} of a long log, with a 港.\n" for number in range(600))
    stored = await call(over_http, "memory_store", content=text)

    summary = await call(over_http, "memory_fetch", id=stored["id"])
    full = await call(over_http, "memory_fetch", id=stored["id"], detail="full")
    cut = await call(over_http, "memory_fetch", id=stored["id"], detail="full", token_budget=100)
    chunks = await call(over_http, "memory_fetch", id=stored["id"], detail="chunk")
    second = await call(
        over_http,
        "memory_fetch",
        id=stored["id"],
        detail="chunk",
        chunk_ids=[chunks["chunks"][1]["id"]],
    )

    assert summary["summary"].startswith("Line 0 of a long log")
    assert "content" not in summary
    assert (full["content"], full["truncated"]) == (text, False)
    assert text.startswith(cut["content"])
    assert 95 <= count_tokens(cut["content"]) <= 100
    assert cut["truncated"]
    assert chunks["chunk_count"] == len(chunks["chunks"]) > 2
    assert "".join(chunk["chunk_text"] for chunk in chunks["chunks"]) == text
    assert [chunk["chunk_index"] for chunk in second["chunks"]] == [1]
    assert second["chunks"][0]["chunk_text"] == chunks["chunks"][1]["chunk_text"]


@promise("bounded")
async def test_lists_stay_within_their_token_budget(over_http: Client) -> None:
    for number in range(3):
        await call(over_http, "memory_store", content=f"{number}" * 4_000)
    await call(over_http, "memory_store", content="short")

    listed = await call(over_http, "memory_list", token_budget=301)

    lengths = [len(memory["content"]) for memory in listed["memories"]]
    assert sum(lengths) <= 1_204
    assert lengths[0] == 5
    assert [memory.get("truncated", False) for memory in listed["memories"]] == [
        False,
        True,
        True,
        True,
    ]
    assert (listed["count"], listed["total"]) == (4, 4)


@pytest.mark.parametrize("tags", [None, [], ["new"]])
async def test_null_tags_stay_and_empty_ones_are_cleared(
    over_http: Client, tags: list[str] | None
) -> None:
    stored = await call(over_http, "memory_store", content="tagged", tags=["old"])

    corrected = await call(
        over_http, "memory_correct", memory_id=stored["id"], tags=tags, importance=4
    )

    assert corrected["tags"] == (["old"] if tags is None else tags)


@promise("immutable")
async def test_an_immutable_memory_is_left_alone(over_http: Client) -> None:
    stored = await call(over_http, "memory_store", content="carved in stone", immutable=True)

    refused = [
        await refusal(over_http, "memory_correct", memory_id=stored["id"], content="sand"),
        await refusal(over_http, "memory_forget", memory_id=stored["id"]),
        await refusal(over_http, "remove_entry", entry_id=stored["id"]),
    ]

    assert [facts["code"] for facts in refused] == ["conflict"] * 3
    (memory,) = (await call(over_http, "memory_list"))["memories"]
    assert (memory["content"], memory["immutable"]) == ("carved in stone", True)


async def test_a_memory_of_another_organisation_is_unknown(
    over_http: Client, server: RunningServer
) -> None:
    theirs = (await call(over_http, "memory_store", content="the secret otter"))["id"]

    async with http_client(server.url, await server.new_organization("other")) as stranger:
        own = (await call(stranger, "memory_store", content="my own"))["id"]
        for tool, arguments in {
            "memory_fetch": {"id": theirs},
            "memory_history": {"memory_id": theirs},
            "memory_correct": {"memory_id": theirs, "importance": 0},
            "memory_forget": {"memory_id": theirs},
            "memory_feedback": {"memory_ids": [own, theirs]},
            "memory_connect": {"source_id": own, "target_id": theirs},
        }.items():
            assert (await refusal(stranger, tool, **arguments)) == {"code": "not_found"}, tool
        listed = await call(stranger, "memory_list")
        projects = await call(stranger, "memory_projects")

    assert listed["total"] == 1
    assert projects["projects"] == [{"project": "default", "count": 1}]
    assert (await call(over_http, "memory_fetch", id=theirs, detail="full"))["content"] == (
        "the secret otter"
    )


async def test_each_tool_asks_for_its_scope(server: RunningServer) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "memory_store": {"content": "x"},
        "memory_store_batch": {"memories": [{"content": "x"}]},
        "memory_recall": {"query": "x"},
        "memory_fetch": {"id": "mem_x"},
        "memory_list": {},
        "memory_history": {"memory_id": "mem_x"},
        "memory_timeline": {"as_of": "2026-01-01T00:00:00Z"},
        "memory_connect": {"source_id": "mem_x", "target_id": "mem_y"},
        "memory_correct": {"memory_id": "mem_x", "importance": 1},
        "memory_forget": {"memory_id": "mem_x"},
        "memory_feedback": {"memory_ids": ["mem_x"]},
        "memory_projects": {},
        "memory_status": {},
        "memory_quick_store": {"content": "x"},
        "memory_query": {"query": "x"},
        "memory_status_ping": {},
    }

    async with http_client(server.url, await server.new_key("admin")) as nobody:
        required = {
            tool: (await refusal(nobody, tool, **given))["required"]
            for tool, given in arguments.items()
        }

    assert {tool for tool, scope in required.items() if scope == "write"} == {
        "memory_store",
        "memory_store_batch",
        "memory_connect",
        "memory_correct",
        "memory_feedback",
        "memory_quick_store",
    }
    assert {tool for tool, scope in required.items() if scope == "delete"} == {"memory_forget"}
    assert {tool for tool, scope in required.items() if scope == "search"} == {
        "memory_recall",
        "memory_query",
    }


async def test_answers_match_their_published_schema(server: RunningServer) -> None:
    query = "?toolsets=notes,memories"
    async with http_client(server.url, server.key, query=query) as client:
        published = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        answered = await answers_of_each_tool(client)

    assert set(answered) == {tool.name for tool in TOOLS if tool.toolset in ("notes", "memories")}
    for tool, answer in answered.items():
        jsonschema.validate(answer, TOOLS_BY_NAME[tool].structure)
        jsonschema.validate(answer, whole_schema(tool))
    for tool in TOOLS:
        if tool.name in published:
            assert published[tool.name] == tool.output_schema


async def answers_of_each_tool(client: Client) -> dict[str, Any]:
    answered: dict[str, Any] = {}

    async def ask(tool: str, **arguments: Any) -> Any:
        answered[tool] = await call(client, tool, **arguments)
        return answered[tool]

    note = await ask("store_note", content="The harbour opens at six.")
    await ask("list_entries")
    await ask("fetch_context", query="harbour opens")
    stored = await ask("memory_store", content="kept", expires_at="2999-01-01T00:00:00Z")
    batch = await ask("memory_store_batch", memories=[{"content": "one"}, {"content": "two"}])
    await ask("memory_recall", query="kept", mode="full", include_conflicts=True)
    await ask("memory_fetch", id=stored["id"], detail="chunk")
    await ask("memory_list")
    report = await ask("memory_store_document", content="# Harbour\n\nIt opens at six.")
    await ask("memory_query_document", memory_id=report["id"], question="When does it open?")
    await ask("memory_correct", memory_id=stored["id"], content="kept better")
    await ask("memory_history", memory_id=stored["id"])
    await ask("memory_timeline", as_of=format_time(SystemClock().now()))
    await ask("memory_connect", source_id=batch["ids"][0], target_id=batch["ids"][1])
    await ask("memory_feedback", memory_ids=[stored["id"]])
    await ask("memory_projects")
    await ask("memory_status")
    await ask("memory_quick_store", content="a third text")
    await ask("memory_query", query="text")
    await ask("memory_status_ping")
    await ask("memory_forget", memory_id=stored["id"])
    await ask("memory_restore", memory_id=stored["id"])
    await ask("remove_entry", entry_id=note["id"])
    return answered
