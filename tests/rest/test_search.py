"""Search over REST, by body and by address."""

from __future__ import annotations

import httpx
import pytest
from dirty_equals import IsFloat, IsPartialDict

from tests.promises import promise
from tests.rest.calls import append, new_conversation, refusal


@pytest.fixture
async def filled(api: httpx.AsyncClient) -> str:
    """The id of a conversation with something to find."""
    conversation_id = await new_conversation(api, title="Zoo", tags=["animals"])
    await append(api, conversation_id, "the tanuki sleeps", "rain all day", "tea at four")
    return conversation_id


async def test_a_word_finds_the_message_that_holds_it(api: httpx.AsyncClient, filled: str) -> None:
    answer = (await api.post("/api/v1/search", json={"query": "tanuki", "limit": 1})).json()

    result = answer["results"][0]
    assert result == IsPartialDict(
        kind="conversation",
        conversation_id=filled,
        conversation_title="Zoo",
        tags=["animals"],
        score=IsFloat(gt=0, le=1),
    )
    assert result["messages"][0]["content"] == "the tanuki sleeps"
    assert (answer["pending"], answer["truncated"]) == (0, False)


async def test_the_address_takes_the_same_fields_as_the_body(
    api: httpx.AsyncClient, filled: str
) -> None:
    fields = {
        "limit": 3,
        "tags": ["animals"],
        "kinds": ["conversation", "note"],
        "since": "2020-01-01T00:00:00Z",
        "token_budget": 500,
        "detail": "window",
        "explain": True,
        "min_score": 0.01,
    }

    by_body = await api.post("/api/v1/search", json={"query": "tanuki", **fields})
    by_address = await api.get("/api/v1/search", params={"q": "tanuki", **fields})

    assert by_address.status_code == 200
    assert by_address.content == by_body.content


@pytest.mark.parametrize(
    "query", ['"', "*", "NEAR(a b)", "a:b", "-x", "!?…", "tanuki OR", "(", "'", "🦝", "AND NOT"]
)
async def test_no_query_is_read_as_syntax(api: httpx.AsyncClient, filled: str, query: str) -> None:
    answer = await api.post("/api/v1/search", json={"query": query})

    assert answer.status_code == 200


async def test_a_query_of_a_hundred_kilobytes_is_answered(
    api: httpx.AsyncClient, filled: str
) -> None:
    query = ("tanuki " * 20_000)[:100_000]

    answer = await api.post("/api/v1/search", json={"query": query})

    assert answer.json()["results"][0]["conversation_id"] == filled


@promise("clear")
@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"query": ""}, "invalid_request", "query"),
        ({"query": " \n"}, "invalid_request", "query"),
        ({"query": "q" * 100_001}, "limit_exceeded", "query"),
        ({"limit": 0}, "invalid_request", "limit"),
        ({"limit": 201}, "invalid_request", "limit"),
        ({"limit": "5"}, "invalid_request", "limit"),
        ({"limit": 5.5}, "invalid_request", "limit"),
        ({"limit": True}, "invalid_request", "limit"),
        ({"explain": "yes"}, "invalid_request", "explain"),
        ({"token_budget": 99}, "invalid_request", "token_budget"),
        ({"min_score": 1.1}, "invalid_request", "min_score"),
        ({"role": "robot"}, "invalid_request", "role"),
        ({"kinds": []}, "invalid_request", "kinds"),
        ({"kinds": ["dream"]}, "invalid_request", "kinds[0]"),
        ({"since": "yesterday"}, "invalid_request", "since"),
        ({"since": "2026-01-01T00:00:00"}, "invalid_request", "since"),
        ({"since": "2026-01-02T00:00:00Z", "before": "2026-01-01T00:00:00Z"}, "invalid_request", "since"),
        ({"asked_at": "yesterday"}, "invalid_request", "asked_at"),
        ({"asked_at": "2026-01-01T00:00:00"}, "invalid_request", "asked_at"),
        ({"tags": ["t"] * 51}, "limit_exceeded", "tags"),
        ({"top_k": 3}, "invalid_request", "top_k"),
        ({"query": None}, "invalid_request", "query"),
    ],
)  # fmt: skip
async def test_a_search_outside_its_bounds_is_refused_and_the_field_named(
    api: httpx.AsyncClient, change: dict[str, object], code: str, field: str
) -> None:
    answer = await api.post("/api/v1/search", json={"query": "tanuki", **change})

    assert refusal(answer) == (400, code, field)


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("?q=a&limit=0", "limit"),
        ("?q=a&limit=x", "limit"),
        ("?q=a&q=b", "q"),
        ("?q=a&limit=1&limit=2", "limit"),
        ("?query=a", "q"),
        ("?q=a&top_k=3", "top_k"),
        ("?q=", "q"),
        ("", "q"),
        ("?q=a&role=", "role"),
        ("?q=%ff", "query string"),
        ("?q=a&explain=perhaps", "explain"),
    ],
)
async def test_an_address_with_wrong_parameters_is_refused_and_the_parameter_named(
    api: httpx.AsyncClient, address: str, field: str
) -> None:
    answer = await api.get(f"/api/v1/search{address}")

    assert refusal(answer) == (400, "invalid_request", field)


async def test_a_whole_number_may_be_written_with_a_point(
    api: httpx.AsyncClient, filled: str
) -> None:
    body = b'{"query": "tanuki", "limit": 1.0, "token_budget": 5e2}'

    answer = await api.post(
        "/api/v1/search", content=body, headers={"Content-Type": "application/json"}
    )

    assert len(answer.json()["results"]) == 1


@promise("clear")
async def test_an_unknown_conversation_in_a_search_is_an_error(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/v1/search", json={"query": "a", "conversation_id": "conv_no"})

    assert refusal(answer) == (404, "not_found", None)


async def test_memories_come_with_their_own_fields(api: httpx.AsyncClient, filled: str) -> None:
    note = {"content": "the tanuki eats berries", "category": "technical", "tags": ["animals"]}
    stored = (await api.post("/api/v1/notes", json=note)).json()

    answer = (await api.post("/api/v1/search", json={"query": "tanuki", "explain": True})).json()

    assert {result["kind"] for result in answer["results"]} == {"conversation", "note"}
    (result,) = [each for each in answer["results"] if each["kind"] == "note"]
    assert result == IsPartialDict(
        memory_id=stored["id"],
        category="technical",
        source="manual",
        memory_type="context",
        importance=2,
        project="default",
        tags=["animals"],
        chunk_text="the tanuki eats berries",
        messages=[],
        score_breakdown=IsPartialDict(importance_factor=1.0, usefulness_factor=1.0),
    )
    assert "conversation_id" not in result


@pytest.mark.parametrize(
    ("filters", "kinds"),
    [
        ({"kinds": ["note"]}, {"note"}),
        ({"kinds": ["conversation"]}, {"conversation"}),
        ({"kinds": ["document"]}, set[str]()),
        ({"role": "user"}, {"conversation"}),
        ({"tags": ["animals"]}, {"conversation"}),
    ],
)
async def test_kinds_are_asked_before_ranking(
    api: httpx.AsyncClient, filled: str, filters: dict[str, object], kinds: set[str]
) -> None:
    for number in range(20):
        await api.post("/api/v1/notes", json={"content": f"tanuki tanuki {number}"})

    body = {"query": "tanuki", "limit": 50, **filters}
    answer = (await api.post("/api/v1/search", json=body)).json()

    assert {result["kind"] for result in answer["results"]} == kinds
