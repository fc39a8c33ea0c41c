"""`memory_recall` with engram-go's arguments: what is found, and how it is shown."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from engram.text.tokens import count_tokens
from tests.mcp.connecting import RunningServer, call, http_client, in_process_client, refusal
from tests.promises import promise

LONG = "".join(f"Line {number} of the log of the harbour.\n" for number in range(400))


async def store(client: Client, content: str, **fields: Any) -> str:
    return (await call(client, "memory_store", content=content, **fields))["id"]


async def recalled(client: Client, query: str, **arguments: Any) -> list[str]:
    answer = await call(client, "memory_recall", query=query, mode="id_only", **arguments)
    return answer["ids"]


async def test_a_recall_gives_handles_by_which_memories_are_fetched(client: Client) -> None:
    memory_id = await store(client, "The harbour opens at six.", tags=["times"], project="port")

    answer = await call(client, "memory_recall", query="harbour opens", project="port")
    (handle,) = answer["handles"]
    fetched = await call(
        client, "memory_fetch", id=handle["id"], project=handle["project"], detail="full"
    )

    assert answer["count"] == 1
    assert 0 < handle.pop("score") <= 1
    assert handle == {
        "id": memory_id,
        "project": "port",
        "summary": "The harbour opens at six.",
        "tags": ["times"],
        "storage_mode": "focused",
        "chunk_count": 1,
        "bytes": 25,
        "is_handle": True,
        "fetch_hint": f'memory_fetch(id="{memory_id}", project="port")',
    }
    assert fetched["content"] == "The harbour opens at six."


async def test_a_full_recall_gives_memories_with_what_is_related(over_http: Client) -> None:
    opens = await store(over_http, "The harbour opens at six.", memory_type="decision")
    tide = await store(over_http, "High tide comes at seven.")
    await call(
        over_http, "memory_connect", source_id=opens, target_id=tide, relation_type="depends_on"
    )

    answer = await call(over_http, "memory_recall", query="harbour", mode="full")

    (result,) = answer["results"]
    assert (result["memory"]["id"], result["memory"]["memory_type"]) == (opens, "decision")
    assert result["memory"]["content"] == "The harbour opens at six."
    assert (result["matched_chunk_index"], result["chunk_count"]) == (0, 1)
    assert result["score_breakdown"]["importance_factor"] == 1
    assert result["connected"] == [
        {
            "memory": {
                "id": tide,
                "project": "default",
                "memory_type": "context",
                "summary": "High tide comes at seven.",
            },
            "rel_type": "depends_on",
            "direction": "outgoing",
            "strength": 1.0,
            "hops": 1,
        }
    ]


@promise("relations")
async def test_related_memories_come_from_as_far_as_asked(over_http: Client) -> None:
    ids = [await store(over_http, text) for text in ("a harbour", "a tide", "a moon")]
    for source, target in pairwise(ids):
        await call(over_http, "memory_connect", source_id=source, target_id=target)

    found = [
        await call(over_http, "memory_recall", query="harbour", mode="full", include_relations=hops)
        for hops in (0, 1, 2)
    ]

    connected = [
        [each["memory"]["id"] for each in answer["results"][0]["connected"]] for answer in found
    ]
    assert connected == [[], ids[1:2], ids[1:]]


async def test_detail_says_how_much_text_comes(over_http: Client) -> None:
    await store(over_http, LONG + "The lighthouse is green.")
    asked = {"query": "lighthouse green"}

    summary = await call(over_http, "memory_recall", **asked, mode="summary")
    chunk = await call(over_http, "memory_recall", **asked, detail="chunk")
    full = await call(over_http, "memory_recall", **asked, detail="full")

    (brief,), (part,), (whole,) = (answer["results"] for answer in (summary, chunk, full))
    assert brief["memory"]["content"].startswith("Line 0 of the log")
    assert len(brief["memory"]["content"]) < 210
    assert part["memory"]["content"] == ""
    assert "The lighthouse is green." in part["matched_chunk"]
    assert part["matched_chunk_index"] == part["chunk_count"] - 1
    assert whole["memory"]["content"] == LONG + "The lighthouse is green."


@promise("bounded")
async def test_an_answer_stays_within_its_token_budget(over_http: Client) -> None:
    for number in range(3):
        await store(over_http, f"harbour {number} " * 400)

    answer = await call(
        over_http, "memory_recall", query="harbour", detail="full", token_budget=300
    )

    lengths = [count_tokens(result["memory"]["content"]) for result in answer["results"]]
    assert sum(lengths) <= 300
    assert answer["truncated"]
    assert all(result["memory"]["truncated"] for result in answer["results"])


async def test_filters_hold_before_the_best_are_chosen(over_http: Client) -> None:
    for number in range(8):
        await store(over_http, f"harbour harbour harbour {number}", tags=["noise"])
    wanted = await store(
        over_http,
        "a harbour, spoken of once",
        memory_type="error",
        importance=0,
        tags=["a", "b", "date:2024-05-06"],
    )

    for filters in (
        {"memory_types": ["error"]},
        {"tags": ["a", "b"]},
        {"min_importance": 1},
        {"before": "2025-01-01"},
        {"since": "2024-05-06", "before": "2024-05-07"},
        {"since": "2024-05-05T23:00:00Z", "before": "2024-05-06T00:00:01Z"},
    ):
        assert await recalled(over_http, "harbour", top_k=1, **filters) == [wanted], filters
    assert await recalled(over_http, "harbour", tags=["a", "c"]) == []


async def test_projects_are_apart_unless_asked_together(over_http: Client) -> None:
    first = await store(over_http, "the first harbour", project="one")
    second = await store(over_http, "the second harbour", project="two")
    third = await store(over_http, "the third harbour")

    assert await recalled(over_http, "harbour") == [third]
    assert await recalled(over_http, "harbour", project="one") == [first]
    assert set(await recalled(over_http, "harbour", projects=["one", "two"])) == {first, second}
    assert set(await recalled(over_http, "harbour", projects=["*"])) == {first, second, third}


async def test_limit_is_another_word_for_top_k(over_http: Client) -> None:
    for number in range(12):
        await store(over_http, f"harbour {number}")

    assert len(await recalled(over_http, "harbour")) == 10
    assert len(await recalled(over_http, "harbour", limit=3)) == 3
    assert len(await recalled(over_http, "harbour", limit=4, top_k=4)) == 4
    assert (await refusal(over_http, "memory_recall", query="x", limit=4, top_k=5))["field"] == (
        "limit"
    )


async def test_a_superseded_memory_is_marked_and_comes_behind(over_http: Client) -> None:
    old = await store(over_http, "The harbour opens at six, six, six.")
    new = await store(over_http, "By the way: the harbour has another time, seven.")
    await call(
        over_http, "memory_connect", source_id=new, target_id=old, relation_type="supersedes"
    )

    answer = await call(over_http, "memory_recall", query="when does the harbour open")

    assert [handle["id"] for handle in answer["handles"]] == [new, old]
    assert [handle.get("superseded_by") for handle in answer["handles"]] == [None, [new]]


async def test_conflicts_are_listed_if_asked(over_http: Client) -> None:
    six = await store(over_http, "The harbour opens at six.")
    seven = await store(over_http, "The harbour opens at seven.")
    never = await store(over_http, "It never does.")
    for source in (seven, never):
        await call(
            over_http,
            "memory_connect",
            source_id=source,
            target_id=six,
            relation_type="contradicts",
            strength=0.5,
        )

    without = await call(over_http, "memory_recall", query="harbour opens")
    answer = await call(over_http, "memory_recall", query="harbour opens", include_conflicts=True)

    assert "conflicting_results" not in without
    pairs = {
        (each["memory"]["id"], each["contradicts_id"]) for each in answer["conflicting_results"]
    }
    assert pairs == {(seven, six), (never, six)}
    assert answer["conflict_count"] == 2


async def test_an_event_can_be_spoken_of_in_feedback(over_http: Client) -> None:
    memory_id = await store(over_http, "The harbour opens at six.")

    answer = await call(over_http, "memory_recall", query="harbour", record_event=True)
    recorded = await call(
        over_http,
        "memory_feedback",
        memory_ids=[memory_id],
        event_id=answer["event_id"],
        failure_class="other",
        helpful=False,
    )

    assert recorded == {"status": "recorded", "count": 1}
    assert "event_id" not in await call(over_http, "memory_recall", query="harbour")


@promise("reproducible")
async def test_a_recall_repeated_gives_the_same_and_writes_nothing(
    over_http: Client, server: RunningServer
) -> None:
    for number in range(5):
        await store(over_http, f"harbour {number}")
    principal = await server.service.access.authenticate(server.key)
    before = await server.service.account.audit(principal, limit=100)

    first, second = [
        await call(over_http, "memory_recall", query="harbour", mode="full") for _ in range(2)
    ]

    assert first["results"] == second["results"]
    assert await server.service.account.audit(principal, limit=100) == before


@promise("forgetting")
async def test_a_forgotten_and_an_expired_memory_are_not_recalled(over_http: Client) -> None:
    gone = await store(over_http, "the harbour that was")
    await store(over_http, "the harbour that expired", expires_at="2020-01-01T00:00:00Z")
    await store(over_http, "the harbour to come", valid_from="2999-01-01T00:00:00Z")
    await call(over_http, "memory_forget", memory_id=gone)

    assert await recalled(over_http, "harbour") == []


@promise("apart")
async def test_another_organisation_recalls_nothing(
    over_http: Client, server: RunningServer
) -> None:
    await store(over_http, "the secret harbour")

    async with http_client(server.url, await server.new_organization("other")) as stranger:
        answer = await call(stranger, "memory_recall", query="harbour", projects=["*"])
        context = await call(stranger, "fetch_context", query="harbour")

    assert (answer["handles"], answer["total_candidates"]) == ([], 0)
    assert context["entries"] == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": "  "}, "query"),
        ({"query": "q" * 100_001}, "query"),
        ({"query": "q", "top_k": 0}, "top_k"),
        ({"query": "q", "top_k": 501}, "top_k"),
        ({"query": "q", "limit": 501}, "limit"),
        ({"query": "q", "mode": "verbose"}, "mode"),
        ({"query": "q", "detail": "everything"}, "detail"),
        ({"query": "q", "mode": "handle", "detail": "full"}, "detail"),
        ({"query": "q", "since": "yesterday"}, "since"),
        ({"query": "q", "since": "2026-02-30"}, "since"),
        ({"query": "q", "since": "2026-02-02", "before": "2026-02-01"}, "since"),
        ({"query": "q", "projects": ["*", "one"]}, "projects"),
        ({"query": "q", "projects": ["a\u202eb"]}, "projects[0]"),
        ({"query": "q", "memory_types": ["rumour"]}, "memory_types[0]"),
        ({"query": "q", "min_importance": 5}, "min_importance"),
        ({"query": "q", "include_relations": 3}, "include_relations"),
        ({"query": "q", "token_budget": 99}, "token_budget"),
        ({"query": "q", "rerank": "perhaps"}, "rerank"),
        ({"query": "q", "session_diversity_n": "few"}, "session_diversity_n"),
    ],
)
async def test_bad_input_is_refused_by_its_field(
    tmp_path: Path, arguments: dict[str, Any], field: str
) -> None:
    async with in_process_client(tmp_path) as client:
        facts = await refusal(client, "memory_recall", **arguments)

    assert facts["code"] in ("invalid_request", "limit_exceeded")
    assert facts["field"] == field


async def test_the_switches_of_engram_go_are_taken_and_said_to_have_no_effect(
    tmp_path: Path,
) -> None:
    switches: dict[str, Any] = {
        "rerank": True,
        "temporal_window_recall": True,
        "question_text": "Which port?",
        "question_date": "2026-05-08",
        "atom_recall": True,
        "atom_recall_as_of": "2026-05-08",
        "exact_fact_boost": True,
        "topic_anchor_boost": True,
        "session_diversity_n": 3,
        "paraphrase_union": True,
        "rrf_fusion": True,
        "evidence_first_pack": True,
    }
    async with in_process_client(tmp_path) as client:
        await call(client, "memory_store", content="The database listens on port 5433.")

        plain = await call(client, "memory_recall", query="database port")
        switched = await call(client, "memory_recall", query="database port", **switches)
        off = await call(client, "memory_recall", query="database port", rerank=False)

    assert switched.pop("warnings") == [f"{name} has no effect here" for name in sorted(switches)]
    assert switched == plain == off
