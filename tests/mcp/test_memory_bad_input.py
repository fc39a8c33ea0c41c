"""Bad input of notes and memories: a stable code, the field and the bound, and nothing stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from engram.clock import SystemClock, format_time
from engram.mcp.tools import TOOLS
from tests.mcp.connecting import call, in_process_client, refusal
from tests.promises import promise

pytestmark = promise("clear")

NOTE: dict[str, Any] = {"content": "The harbour opens at six."}
TOMORROW = SystemClock().now() + timedelta(days=1)


@pytest.fixture
async def anybody(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a server in this process: what is refused does not depend on the transport."""
    async with in_process_client(tmp_path) as connected:
        yield connected


@pytest.fixture
async def client(anybody: Client) -> AsyncIterator[Client]:
    """A client whose refused calls must leave the store empty."""
    yield anybody
    assert (await call(anybody, "list_entries"))["total"] == 0
    assert (await call(anybody, "memory_projects"))["count"] == 0


@pytest.fixture
async def two(anybody: Client) -> tuple[str, str]:
    """Two memories."""
    stored = await call(
        anybody, "memory_store_batch", memories=[{"content": "one"}, {"content": "two"}]
    )
    first, second = stored["ids"]
    return first, second


@pytest.mark.parametrize(
    ("length", "code"), [(0, "invalid_request"), (9, "invalid_request"), (2_001, "limit_exceeded")]
)
async def test_a_note_too_short_or_too_long_is_refused(
    client: Client, length: int, code: str
) -> None:
    facts = await refusal(client, "store_note", content="é" * length)

    assert (facts["code"], facts["field"]) == (code, "content")


async def test_notes_at_their_bounds_are_kept(anybody: Client) -> None:
    for length in (10, 2_000):
        await call(anybody, "store_note", content="é" * length)

    assert (await call(anybody, "list_entries"))["total"] == 2


NEEDED: dict[str, dict[str, Any]] = {
    "memory_quick_store": {"content": "x"},
    "memory_query": {"query": "x"},
    "store_note": NOTE,
    "fetch_context": {"query": "harbour"},
    "remove_entry": {"entry_id": "mem_x"},
    "memory_store": {"content": "x"},
    "memory_store_batch": {"memories": [{"content": "x"}]},
    "memory_recall": {"query": "harbour"},
    "memory_fetch": {"id": "mem_x"},
    "memory_history": {"memory_id": "mem_x"},
    "memory_timeline": {"as_of": "2026-01-01T00:00:00Z"},
    "memory_connect": {"source_id": "mem_x", "target_id": "mem_y"},
    "memory_correct": {"memory_id": "mem_x", "importance": 1},
    "memory_forget": {"memory_id": "mem_x"},
    "memory_restore": {"memory_id": "mem_x"},
    "memory_feedback": {"memory_ids": ["mem_x"]},
    "memory_store_document": {"content": "x"},
    "memory_query_document": {"memory_id": "mem_x", "question": "harbour"},
}
"""What each tool cannot do without."""

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("store_note", {**NOTE, "category": "gossip"}, "category"),
    ("store_note", {**NOTE, "category": None}, "category"),
    ("store_note", {**NOTE, "source": ""}, "source"),
    ("store_note", {**NOTE, "source": "a\nb"}, "source"),
    ("store_note", {**NOTE, "tags": "a,b"}, "tags"),
    ("store_note", {**NOTE, "tags": ["a", "a"]}, "tags"),
    ("store_note", {**NOTE, "project": "a\u202eb"}, "project"),
    ("store_note", {**NOTE, "project": "a\x00b"}, "project"),
    ("store_note", {**NOTE, "project": "a\u200bb"}, "project"),
    ("store_note", {**NOTE, "project": ""}, "project"),
    ("store_note", {**NOTE, "project": "p" * 129}, "project"),
    ("fetch_context", {"query": "ab"}, "query"),
    ("fetch_context", {"query": "harbour", "top_k": 11}, "top_k"),
    ("fetch_context", {"query": "harbour", "category_filter": "gossip"}, "category_filter"),
    ("fetch_context", {"query": "harbour", "min_score": 1.5}, "min_score"),
    ("fetch_context", {"query": "harbour", "token_budget": 50}, "token_budget"),
    ("fetch_context", {"query": "harbour", "kinds": []}, "kinds"),
    ("fetch_context", {"query": "harbour", "kinds": ["song"]}, "kinds[0]"),
    ("list_entries", {"limit": 0}, "limit"),
    ("list_entries", {"limit": 51}, "limit"),
    ("list_entries", {"offset": -1}, "offset"),
    ("list_entries", {"category": "gossip"}, "category"),
    ("remove_entry", {}, "entry_id"),
    ("memory_store", {"content": ""}, "content"),
    ("memory_store", {"content": "x" * 500_001}, "content"),
    ("memory_store", {"content": "x", "importance": 5}, "importance"),
    ("memory_store", {"content": "x", "importance": -1}, "importance"),
    ("memory_store", {"content": "x", "importance": 1.5}, "importance"),
    ("memory_store", {"content": "x", "memory_type": "rumour"}, "memory_type"),
    ("memory_store", {"content": "x", "category": "gossip"}, "category"),
    ("memory_store", {"content": "x", "pattern_confidence": 1.1}, "pattern_confidence"),
    ("memory_store", {"content": "x", "tags": ["t" * 257]}, "tags[0]"),
    ("memory_store", {"content": "x", "tags": [f"t{n}" for n in range(51)]}, "tags"),
    ("memory_store", {"content": "x", "tags": ["a", "date:2026-02-30"]}, "tags[1]"),
    ("memory_store", {"content": "x", "project": "a\u2066b"}, "project"),
    ("memory_store", {"content": "x", "valid_from": "2026-01-01"}, "valid_from"),
    ("memory_store", {"content": "x", "expires_at": 1_700_000_000}, "expires_at"),
    (
        "memory_store",
        {
            "content": "x",
            "valid_from": "2026-01-02T00:00:00Z",
            "valid_to": "2026-01-01T00:00:00Z",
        },
        "valid_from",
    ),
    ("memory_store_batch", {"memories": []}, "memories"),
    ("memory_store_batch", {"memories": [{"content": "x"}] * 101}, "memories"),
    ("memory_store_batch", {"memories": '[{"content": "x"}]'}, "memories"),
    (
        "memory_store_batch",
        {"memories": [{"content": "x"}] * 3 + [{"content": "x", "importance": 5}]},
        "memories[3].importance",
    ),
    (
        "memory_store_batch",
        {"memories": [{"content": "x"}, {"content": "x", "project": "a\u202eb"}]},
        "memories[1].project",
    ),
    (
        "memory_store_batch",
        {"memories": [{"content": "x"}, {"content": "x", "tags": ["a", "a"]}]},
        "memories[1].tags",
    ),
    ("memory_store_batch", {"memories": [{"content": "x", "colour": 1}]}, "memories[0].colour"),
    ("memory_fetch", {"id": "mem_x", "detail": "everything"}, "detail"),
    ("memory_fetch", {"id": "mem_x", "token_budget": 99}, "token_budget"),
    ("memory_fetch", {"id": "mem_x", "chunk_ids": ["chk_x"]}, "chunk_ids"),
    ("memory_list", {"limit": 501}, "limit"),
    ("memory_list", {"limit": 0}, "limit"),
    ("memory_list", {"project": "a\u202eb"}, "project"),
    ("memory_timeline", {"as_of": format_time(TOMORROW)}, "as_of"),
    ("memory_timeline", {"as_of": "yesterday"}, "as_of"),
    ("memory_timeline", {}, "as_of"),
    ("memory_connect", {"source_id": "mem_x", "target_id": "mem_x"}, "target_id"),
    (
        "memory_connect",
        {"source_id": "mem_x", "target_id": "mem_y", "relation_type": "causes"},
        "relation_type",
    ),
    ("memory_connect", {"source_id": "a", "target_id": "b", "strength": 1.01}, "strength"),
    ("memory_correct", {"memory_id": "mem_x", "content": ""}, "content"),
    ("memory_correct", {"memory_id": "mem_x", "importance": 5}, "importance"),
    ("memory_forget", {"memory_id": "mem_x", "reason": "r" * 2_049}, "reason"),
    ("memory_feedback", {}, "memory_ids"),
    ("memory_feedback", {"memory_ids": [f"mem_{n}" for n in range(101)]}, "memory_ids"),
    ("memory_feedback", {"memory_ids": ["mem_x"], "failure_class": "other"}, "event_id"),
    (
        "memory_feedback",
        {"memory_ids": ["mem_x"], "event_id": "e", "failure_class": "bad luck"},
        "failure_class",
    ),
    ("memory_status", {"project": "a\u202eb"}, "project"),
    ("memory_projects", {"project": "a\u202eb"}, "project"),
    ("memory_fetch", {"id": "mem_x", "project": "a\u202eb"}, "project"),
    ("memory_history", {"memory_id": "mem_x", "project": "a\u202eb"}, "project"),
    ("memory_timeline", {"as_of": "2026-01-01T00:00:00Z", "project": "a\u202eb"}, "project"),
    ("memory_connect", {"source_id": "a", "target_id": "b", "project": "a\u202eb"}, "project"),
    ("memory_correct", {"memory_id": "a", "importance": 1, "project": "a\u202eb"}, "project"),
    ("memory_forget", {"memory_id": "a", "project": "a\u202eb"}, "project"),
    ("memory_feedback", {"memory_ids": ["a"], "project": "a\u202eb"}, "project"),
]


@pytest.mark.parametrize(("tool", "arguments", "field"), REFUSED)
async def test_bad_input_is_refused_by_its_field(
    client: Client, tool: str, arguments: dict[str, Any], field: str
) -> None:
    facts = await refusal(client, tool, **arguments)

    assert facts["code"] in ("invalid_request", "limit_exceeded")
    assert facts["field"] == field


async def test_a_correction_of_nothing_is_refused(client: Client) -> None:
    facts = await refusal(client, "memory_correct", memory_id="mem_x")

    assert facts["code"] == "invalid_request"


@pytest.mark.parametrize(
    "tool", [tool.name for tool in TOOLS if tool.toolset in ("notes", "memories")]
)
async def test_an_unknown_argument_is_refused(client: Client, tool: str) -> None:
    for unknown in ("colour", "rank_by"):
        facts = await refusal(client, tool, **NEEDED.get(tool, {}), **{unknown: True})
        assert (facts["code"], facts["field"]) == ("invalid_request", unknown)


async def test_a_relation_to_an_unknown_memory_is_refused(
    anybody: Client, two: tuple[str, str]
) -> None:
    for source, target in ((two[0], "mem_absent"), ("mem_absent", two[0])):
        facts = await refusal(anybody, "memory_connect", source_id=source, target_id=target)
        assert facts["code"] == "not_found"


async def test_a_circle_of_supersedes_is_refused(anybody: Client, two: tuple[str, str]) -> None:
    first, second = two
    supersedes = {"relation_type": "supersedes"}
    await call(anybody, "memory_connect", source_id=second, target_id=first, **supersedes)

    facts = await refusal(
        anybody, "memory_connect", source_id=first, target_id=second, **supersedes
    )

    assert facts["code"] == "invalid_request"


async def test_feedback_on_an_unknown_memory_records_nothing(
    anybody: Client, two: tuple[str, str]
) -> None:
    facts = await refusal(anybody, "memory_feedback", memory_ids=[*two, "mem_absent"])

    assert facts["code"] == "not_found"


async def test_an_unknown_episode_stores_nothing(client: Client) -> None:
    facts = await refusal(
        client,
        "memory_store_batch",
        memories=[{"content": "one"}, {"content": "two", "episode_id": "ep_absent"}],
    )

    assert facts["code"] == "not_found"
