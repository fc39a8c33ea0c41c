"""Notes over REST: kept once, listed newest first, removed for good, and nobody else's."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest
from dirty_equals import IsPartialDict, IsStr

from engram.http.asgi import Application
from tests.fakes import FakeClock
from tests.promises import promise
from tests.rest.calls import connect, new_key, refusal, scoped_key

JSON = {"Content-Type": "application/json"}
NOTES = "/api/v1/notes"
FACT = "The staging database is reset every Monday"

MEMORY_ID = IsStr(regex=r"mem_[\w-]{21}")


async def kept(api: httpx.AsyncClient) -> int:
    """Return how many memories the organisation holds."""
    return (await api.get("/api/v1/status")).json()["memories"]


@promise("verbatim")
async def test_a_note_is_kept_verbatim_with_all_its_fields(
    api: httpx.AsyncClient, clock: FakeClock
) -> None:
    body = {
        "content": f"  {FACT}\r\n<b>&amp; more</b> ",
        "category": "technical",
        "source": "runbook",
        "tags": ["db", "ops"],
        "project": "apollo",
    }

    made = await api.post(NOTES, json=body)

    assert made.status_code == 201
    assert made.json() == {"id": MEMORY_ID}
    listed = (await api.get(NOTES)).json()
    assert listed == {
        "entries": [
            {**body, "id": made.json()["id"], "created_at": IsStr(regex=r"\d{4}-.*\.\d{6}Z")}
        ],
        "total": 1,
        "next_offset": None,
    }


async def test_an_exact_duplicate_is_reported_and_not_kept_again(api: httpx.AsyncClient) -> None:
    first = (await api.post(NOTES, json={"content": FACT})).json()

    again = await api.post(NOTES, json={"content": FACT})
    elsewhere = await api.post(NOTES, json={"content": FACT, "project": "apollo"})

    assert again.json() == {"id": first["id"], "duplicate_of": first["id"]}
    assert "duplicate_of" not in elsewhere.json()
    assert await kept(api) == 2


async def test_a_batch_is_kept_whole(api: httpx.AsyncClient) -> None:
    notes = [{"content": f"{FACT}, week {number}"} for number in range(100)]

    made = await api.post(f"{NOTES}/batch", json={"notes": [*notes[:99], notes[0]]})

    assert made.status_code == 201
    answer = made.json()
    assert answer["stored"] == 99
    assert [note["id"] for note in answer["notes"]] == [MEMORY_ID] * 100
    assert answer["notes"][99] == {
        "id": answer["notes"][0]["id"],
        "duplicate_of": answer["notes"][0]["id"],
    }
    assert await kept(api) == 99


@pytest.mark.parametrize(
    ("bad", "code", "field"),
    [
        ({"content": "123456789"}, "invalid_request", "content"),
        ({"content": "x" * 2_001}, "limit_exceeded", "content"),
        ({"content": None}, "invalid_request", "content"),
        ({"content": 7}, "invalid_request", "content"),
        ({"content": "\ud800" * 10}, "invalid_request", "content"),
        ({}, "invalid_request", "content"),
        ({"content": FACT, "category": "songs"}, "invalid_request", "category"),
        ({"content": FACT, "category": "General"}, "invalid_request", "category"),
        ({"content": FACT, "source": ""}, "invalid_request", "source"),
        ({"content": FACT, "source": "s" * 257}, "limit_exceeded", "source"),
        ({"content": FACT, "source": "a\x1bb"}, "invalid_request", "source"),
        ({"content": FACT, "project": "a\u202eb"}, "invalid_request", "project"),
        ({"content": FACT, "project": "a\nb"}, "invalid_request", "project"),
        ({"content": FACT, "project": "p" * 129}, "limit_exceeded", "project"),
        ({"content": FACT, "tags": ["a", "a"]}, "invalid_request", "tags"),
        ({"content": FACT, "tags": "a"}, "invalid_request", "tags"),
        ({"content": FACT, "importance": 1}, "invalid_request", "importance"),
    ],
)
async def test_a_bad_note_is_refused_alone_and_in_a_batch(
    api: httpx.AsyncClient, bad: dict[str, Any], code: str, field: str
) -> None:
    batch = {"notes": [{"content": FACT}, bad, {"content": FACT + "!"}]}

    alone = await api.post(NOTES, content=json.dumps(bad), headers=JSON)
    among_others = await api.post(f"{NOTES}/batch", content=json.dumps(batch), headers=JSON)

    assert refusal(alone) == (400, code, field)
    assert refusal(among_others) == (400, code, f"notes[1].{field}")
    assert await kept(api) == 0


@pytest.mark.parametrize(
    ("notes", "code"),
    [
        ([], "invalid_request"),
        ([{"content": FACT}] * 101, "limit_exceeded"),
        (None, "invalid_request"),
    ],
)
async def test_a_batch_has_its_bounds(
    api: httpx.AsyncClient, notes: list[Any] | None, code: str
) -> None:
    refused = await api.post(f"{NOTES}/batch", json={"notes": notes})

    assert refusal(refused) == (400, code, "notes")
    assert await kept(api) == 0


@pytest.mark.parametrize("length", [10, 2_000])
async def test_the_shortest_and_the_longest_note_are_kept(
    api: httpx.AsyncClient, length: int
) -> None:
    made = await api.post(NOTES, json={"content": "é" * length})

    assert made.status_code == 201
    assert (await api.get(NOTES)).json()["entries"][0]["content"] == "é" * length


async def test_notes_are_listed_newest_first_a_page_at_a_time(
    api: httpx.AsyncClient, clock: FakeClock
) -> None:
    for number in range(5):
        category = "technical" if number % 2 else "feedback"
        source = "chat" if number < 3 else "mail"
        note = {"content": f"fact number {number}", "category": category, "source": source}
        await api.post(NOTES, json=note)
        clock.advance(timedelta(seconds=1))

    first = (await api.get(NOTES, params={"limit": 2})).json()
    last = (await api.get(NOTES, params={"limit": 2, "offset": 4})).json()
    technical = (await api.get(NOTES, params={"category": "technical"})).json()
    both = (await api.get(NOTES, params={"category": "technical", "source": "chat"})).json()

    assert contents(first) == ["fact number 4", "fact number 3"]
    assert (first["total"], first["next_offset"]) == (5, 2)
    assert (contents(last), last["next_offset"]) == (["fact number 0"], None)
    assert (contents(technical), technical["total"]) == (["fact number 3", "fact number 1"], 2)
    assert (contents(both), both["total"]) == (["fact number 1"], 1)


def contents(listed: Any) -> list[str]:
    return [entry["content"] for entry in listed["entries"]]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=51", "limit"),
        ("offset=-1", "offset"),
        ("category=songs", "category"),
        ("source=", "source"),
        ("tags=a", "tags"),
        ("limit=1&limit=2", "limit"),
    ],
)
async def test_a_bad_listing_is_refused(api: httpx.AsyncClient, query: str, field: str) -> None:
    refused = await api.get(f"{NOTES}?{query}")

    assert refusal(refused) == (400, "invalid_request", field)


@promise("forgetting")
async def test_a_removed_note_is_gone_and_removing_it_again_is_the_same(
    api: httpx.AsyncClient, clock: FakeClock
) -> None:
    note = (await api.post(NOTES, json={"content": FACT})).json()["id"]

    removed = await api.delete(f"{NOTES}/{note}")
    clock.advance(timedelta(hours=1))
    again = await api.delete(f"{NOTES}/{note}")

    assert removed.status_code == 200
    assert removed.json() == IsPartialDict(removed=True, id=note)
    assert again.json() == removed.json()
    assert (await api.get(NOTES)).json()["total"] == 0
    assert await kept(api) == 0
    assert refusal(await api.get(f"/api/v1/memories/{note}")) == (404, "not_found", None)
    found = await api.post("/api/v1/search", json={"query": "staging database"})
    assert found.json()["results"] == []
    assert "staging" not in (await api.get("/api/v1/audit")).text


async def test_a_removed_note_can_be_kept_anew(api: httpx.AsyncClient) -> None:
    first = (await api.post(NOTES, json={"content": FACT})).json()["id"]
    await api.delete(f"{NOTES}/{first}")

    again = (await api.post(NOTES, json={"content": FACT})).json()

    assert again == {"id": MEMORY_ID}
    assert again["id"] != first


async def test_a_search_finds_notes_beside_conversations(api: httpx.AsyncClient) -> None:
    note = (await api.post(NOTES, json={"content": FACT})).json()["id"]

    found = (await api.post("/api/v1/search", json={"query": "staging database"})).json()
    others = {"query": "staging database", "kinds": ["conversation"]}

    (result,) = found["results"]
    assert (result["kind"], result["memory_id"]) == ("note", note)
    assert (await api.post("/api/v1/search", json=others)).json()["results"] == []


async def test_a_conversation_is_no_note(api: httpx.AsyncClient) -> None:
    made = await api.post("/api/v1/conversations", json={})
    conversation_id = made.json()["conversation_id"]
    note = (await api.post(NOTES, json={"content": FACT})).json()["id"]

    refused = [
        await api.delete(f"{NOTES}/{conversation_id}"),
        await api.get(f"/api/v1/conversations/{note}"),
        await api.delete(f"/api/v1/conversations/{note}"),
    ]

    assert [refusal(each) for each in refused] == [(404, "not_found", None)] * 3
    assert (await api.get("/api/v1/conversations")).json()["total"] == 1
    assert await kept(api) == 1


@promise("apart")
async def test_another_organisation_cannot_see_or_remove_a_note(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    note = (await api.post(NOTES, json={"content": FACT})).json()["id"]

    listed = (await stranger.get(NOTES)).json()
    foreign = await stranger.delete(f"{NOTES}/{note}")
    absent = await stranger.delete(f"{NOTES}/mem_{'x' * 21}")
    same = await stranger.post(NOTES, json={"content": FACT})

    assert listed == {"entries": [], "total": 0, "next_offset": None}
    assert refusal(foreign) == refusal(absent) == (404, "not_found", None)
    assert "duplicate_of" not in same.json()
    assert (await api.get(NOTES)).json()["total"] == 1


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", NOTES, "write"),
        ("POST", f"{NOTES}/batch", "write"),
        ("GET", NOTES, "read"),
        ("DELETE", f"{NOTES}/mem_x", "delete"),
        ("POST", "/api/v1/context", "search"),
    ],
)
async def test_each_use_of_notes_needs_its_scope(
    app: Application, api: httpx.AsyncClient, method: str, path: str, scope: str
) -> None:
    bodies: dict[str, Any] = {
        NOTES: {"content": FACT},
        f"{NOTES}/batch": {"notes": [{"content": FACT}]},
        "/api/v1/context": {"query": "staging"},
    }
    others = [each for each in ("read", "write", "search", "delete", "admin") if each != scope]

    async with connect(app, await scoped_key(api, *others)) as narrow:
        refused = await narrow.request(
            method, path, json=bodies[path] if method == "POST" else None
        )

    assert refused.status_code == 403
    assert refused.json()["required"] == scope


async def test_a_nearly_used_quota_is_told_in_a_header(
    app: Application, operator: httpx.AsyncClient
) -> None:
    async with connect(app, await new_key(operator, messages_max=2)) as client:
        first = await client.post(NOTES, json={"content": FACT})
        second = await client.post(NOTES, json={"content": FACT + "!"})
        third = await client.post(NOTES, json={"content": FACT + "?"})

    assert "engram-quota-warning" not in first.headers
    assert "2 of 2" in second.headers["engram-quota-warning"]
    assert refusal(third)[:2] == (403, "quota_exceeded")
