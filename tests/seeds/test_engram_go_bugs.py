"""What went wrong with engram-go's tools: none of it happens here.

The numbers are those of its lessons in the notes on the seeds; ranking, storage and maintenance have their
own tests.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from engram.mcp.tools import TOOLS, Tool
from engram.model.ids import MemoryId
from engram.model.recall import MemoryFetch
from engram.service.memories import read_memory
from tests.mcp.connecting import call, in_process_client, refusal
from tests.memories import a_memory
from tests.promises import promise


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with in_process_client(tmp_path) as connected:
        yield connected


async def store(client: Client, content: str, **fields: Any) -> str:
    return (await call(client, "memory_store", content=content, **fields))["id"]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_lesson_1_every_argument_has_a_type_in_the_schema(tool: Tool) -> None:
    for name, schema in tool.input_schema["properties"].items():
        assert schema.get("type"), name
        assert schema["type"] != "array" or schema["items"].get("type"), name


@promise("clear")
async def test_lesson_1_a_batch_sent_as_text_is_an_error_and_no_success_with_a_count_of_0(
    client: Client,
) -> None:
    facts = await refusal(client, "memory_store_batch", memories='[{"content": "x"}]')

    assert (facts["code"], facts["field"]) == ("invalid_request", "memories")


async def test_lesson_1_numbers_sent_as_text_are_understood(client: Client) -> None:
    memory_id = await store(client, "kept", importance="1", pattern_confidence="0.5")

    (memory,) = (await call(client, "memory_list"))["memories"]

    assert memory["id"] == memory_id
    assert (memory["importance"], memory["pattern_confidence"]) == (1, 0.5)


@promise("reproducible")
async def test_lesson_5_a_recall_changes_nothing_that_a_later_one_could_see(client: Client) -> None:
    for number in range(4):
        await store(client, f"harbour {number}")
    before = await call(client, "memory_list")

    first = await call(client, "memory_recall", query="harbour", mode="full")
    for _ in range(3):
        await call(client, "memory_recall", query="harbour 3", record_event=True)
    again = await call(client, "memory_recall", query="harbour", mode="full")

    assert [item["memory"] for item in again["results"]] == [
        item["memory"] for item in first["results"]
    ]
    assert await call(client, "memory_list") == before


@promise("findable")
async def test_lesson_6_one_word_of_several_is_enough_to_be_found(client: Client) -> None:
    memory_id = await store(client, "The harbour opens at six.")

    answer = await call(client, "memory_recall", query="harbour lighthouse ferry", mode="id_only")

    assert answer["ids"] == [memory_id]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_fetch", {"id": "SEA"}),
        ("memory_history", {"memory_id": "SEA"}),
        ("memory_forget", {"memory_id": "SEA"}),
        ("memory_correct", {"memory_id": "SEA", "importance": 0}),
        ("memory_connect", {"source_id": "SEA", "target_id": "LAND"}),
        ("memory_summarize", {"memory_id": "SEA"}),
        ("memory_feedback", {"memory_ids": ["SEA"]}),
    ],
)
async def test_lesson_10_a_memory_of_another_project_is_not_reached_by_its_id(
    client: Client, tool: str, arguments: dict[str, Any]
) -> None:
    memory_id = await store(client, "kept at sea", project="sea")
    other_id = await store(client, "kept on land", project="land")
    text = json.dumps(arguments).replace("SEA", memory_id).replace("LAND", other_id)

    facts = await refusal(client, tool, **json.loads(text), project="land")

    assert facts["code"] == "not_found"


async def test_lesson_12_every_handle_of_a_recall_can_be_fetched(client: Client) -> None:
    for project in ("default", "sea", "two words"):
        await store(client, f"a harbour of {project}", project=project)

    answer = await call(client, "memory_recall", query="harbour", projects=["*"])

    for handle in answer["handles"]:
        fetched = await call(
            client, "memory_fetch", id=handle["id"], project=handle["project"], detail="full"
        )
        assert fetched["content"] == f"a harbour of {handle['project']}"


async def test_a_list_has_a_true_total(client: Client) -> None:
    for number in range(5):
        await store(client, f"memory {number}")

    listed = await call(client, "memory_list", limit=2)

    assert (listed["count"], listed["total"], listed["next_offset"]) == (2, 5, 2)


@promise("clear")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_recall", {"query": "q", "top_k": 501}),
        ("memory_recall", {"query": "q", "top_k": 0}),
        ("memory_list", {"limit": 501}),
        ("memory_store", {"content": "x", "importance": 7}),
    ],
)
async def test_a_number_out_of_its_range_is_refused_and_not_clamped(
    client: Client, tool: str, arguments: dict[str, Any]
) -> None:
    assert (await refusal(client, tool, **arguments))["code"] == "invalid_request"


async def test_recall_knows_the_filters_that_were_only_documented(client: Client) -> None:
    wanted = await store(client, "harbour", memory_type="error", tags=["db"])
    await store(client, "harbour harbour")

    by_type = await call(
        client, "memory_recall", query="harbour", memory_types=["error"], mode="id_only"
    )
    by_tag = await call(client, "memory_recall", query="harbour", tags=["db"], mode="id_only")

    assert by_type["ids"] == by_tag["ids"] == [wanted]


@promise("forgetting")
async def test_a_forgotten_memory_can_still_be_read_and_says_that_it_is(client: Client) -> None:
    memory_id = await store(client, "true for a day")
    await call(client, "memory_forget", memory_id=memory_id, reason="the day is over")

    fetched = await call(client, "memory_fetch", id=memory_id, detail="full")
    history = await call(client, "memory_history", memory_id=memory_id)

    assert (fetched["content"], fetched["forgotten"]) == ("true for a day", True)
    assert fetched["invalidation_reason"] == "the day is over"
    assert [version["change_type"] for version in history["versions"]] == ["invalidate"]


@given(st.text(min_size=1, max_size=600), st.integers(100, 200))
def test_a_text_is_never_cut_within_a_character(content: str, token_budget: int) -> None:
    request = MemoryFetch(id=MemoryId("mem_x"), detail="full", token_budget=token_budget)

    shown = read_memory(a_memory(content), request)

    assert shown.content is not None
    assert content.startswith(shown.content)
    assert shown.is_truncated == (shown.content != content)
    assert len(shown.content) <= token_budget * 4
