"""engram-go's short forms: called by their names, with its arguments and answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import IsPartialDict, IsStr
from mcp import Client

from engram import limits
from engram.mcp.tools import TOOLS_BY_NAME, tools_of
from engram.model.access import TOOLSETS
from engram.model.memory import MemoryDraft
from engram.model.shape import fields_of
from tests.mcp.connecting import call, in_process_client, refusal, text_of
from tests.mcp.schemas import BY_TOOL

SHORT_FORMS = ("memory_quick_store", "memory_query", "memory_status_ping")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with in_process_client(tmp_path) as connected:
        yield connected


async def store_harbours(client: Client, count: int) -> None:
    memories = [{"content": f"harbour {number}"} for number in range(count)]
    await call(client, "memory_store_batch", memories=memories)


async def test_a_quick_store_stores_what_memory_store_would(client: Client) -> None:
    fields = {"memory_type": "decision", "importance": 1, "tags": ["dns"], "immutable": True}

    stored = await call(
        client, "memory_quick_store", content="We use Postgres.", project="apollo", **fields
    )

    (memory,) = (await call(client, "memory_list", project="apollo"))["memories"]
    assert stored == {
        "id": memory["id"],
        "status": "stored",
        "degraded": {"embed": True, "reason": "no_embedder"},
    }
    assert memory == IsPartialDict(content="We use Postgres.", **fields)


async def test_a_quick_store_needs_no_more_than_a_text(client: Client) -> None:
    await call(client, "memory_quick_store", content="kept")

    (memory,) = (await call(client, "memory_list"))["memories"]

    assert memory == IsPartialDict(memory_type="context", importance=2, project="default", tags=[])


async def test_an_alias_refuses_what_the_seed_does_not_take_and_names_it(client: Client) -> None:
    refused = await refusal(client, "memory_quick_store", content="x", valid_from="2026-01-01")
    out_of_range = await refusal(client, "memory_quick_store", content="x", importance=5)

    assert (refused["code"], refused["field"]) == ("invalid_request", "valid_from")
    assert (out_of_range["code"], out_of_range["field"]) == ("invalid_request", "importance")


@pytest.mark.parametrize(
    ("arguments", "count"),
    [({}, 5), ({"limit": 3}, 3), ({"top_k": 7}, 7), ({"limit": 2, "top_k": 2}, 2)],
)
async def test_a_query_finds_five_unless_told_otherwise(
    client: Client, arguments: dict[str, Any], count: int
) -> None:
    await store_harbours(client, 8)

    answer = await call(client, "memory_query", query="harbour", **arguments)

    assert len(answer["handles"]) == answer["count"] == count


async def test_a_query_answers_as_a_recall_of_as_many(client: Client) -> None:
    await store_harbours(client, 3)
    asked = {"query": "harbour", "detail": "full", "include_conflicts": True}

    answer = await call(client, "memory_query", limit=2, **asked)

    assert answer == await call(client, "memory_recall", top_k=2, **asked)
    assert len(answer["results"]) == 2


async def test_a_ping_says_that_the_store_was_read_and_when(client: Client) -> None:
    result = await client.call_tool("memory_status_ping", {})

    expected = {"status": "ok", "ping": True, "ts": IsStr(regex=r"\d{4}-\d\d-\d\dT.*Z")}
    assert result.structured_content == expected
    assert json.loads(text_of(result)) == result.structured_content


async def test_a_ping_of_a_store_that_does_not_answer_is_an_error(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PING_S", 0)

    assert (await refusal(client, "memory_status_ping"))["code"] == "unavailable"


def test_short_forms_belong_to_the_memories_and_no_client_pays_for_them() -> None:
    shown = {tool.name for tool in tools_of(TOOLSETS)}

    assert {TOOLS_BY_NAME[name].toolset for name in SHORT_FORMS} == {"memories"}
    assert shown.isdisjoint(SHORT_FORMS)


def test_a_field_of_an_alias_is_that_of_its_operation() -> None:
    own, short = fields_of(MemoryDraft), fields_of(BY_TOOL["memory_quick_store"].request)

    assert short == {name: own[name] for name in short}
    assert list(short) == ["content", "memory_type", "importance", "tags", "project", "immutable"]
