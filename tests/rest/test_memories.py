"""Typed memories over REST: every field, every change, every bound, and nobody else's."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest
from dirty_equals import IsPartialDict, IsStr

from engram.clock import format_time
from engram.http.asgi import Application
from tests.fakes import FakeClock
from tests.promises import promise
from tests.rest.calls import connect, refusal, scoped_key

JSON = {"Content-Type": "application/json"}
MEMORIES = "/api/v1/memories"
ABSENT = f"mem_{'x' * 21}"
MEMORY_ID = IsStr(regex=r"mem_[\w-]{21}")

FULL: dict[str, Any] = {
    "content": " We chose SQLite\r\n\tbecause of <b>one file</b> & no server. é漢🦝 ",
    "memory_type": "decision",
    "category": "technical",
    "source": "adr/0007.md",
    "importance": 0,
    "tags": ["db", "adr"],
    "project": "apollo",
    "immutable": True,
    "pattern_confidence": 0.75,
    "valid_from": "2025-12-01T00:00:00.000000Z",
    "valid_to": "2027-12-01T00:00:00.000000Z",
    "expires_at": "2028-01-01T00:00:00.000000Z",
}


async def store(api: httpx.AsyncClient, content: str = "We chose SQLite", **fields: Any) -> str:
    made = await api.post(MEMORIES, json={"content": content, **fields})
    assert made.status_code == 201, made.text
    return made.json()["id"]


async def fetch(api: httpx.AsyncClient, memory_id: str) -> dict[str, Any]:
    return (await api.get(f"{MEMORIES}/{memory_id}")).json()


async def kept(api: httpx.AsyncClient) -> int:
    return (await api.get("/api/v1/status")).json()["memories"]


async def test_every_field_comes_back_as_it_was_given(api: httpx.AsyncClient) -> None:
    made = await api.post(MEMORIES, json=FULL)
    batch = await api.post(f"{MEMORIES}/batch", json={"memories": [FULL]})

    assert (made.status_code, batch.status_code) == (201, 201)
    assert made.json() == IsPartialDict(id=MEMORY_ID, status="stored")
    assert batch.json() == IsPartialDict(ids=[MEMORY_ID], count=1)
    for memory_id in (made.json()["id"], *batch.json()["ids"]):
        read = await fetch(api, memory_id)
        assert {name: read[name] for name in FULL} == FULL
        assert read == IsPartialDict(id=memory_id, version=1, storage_mode="focused")


async def test_what_is_not_given_has_its_default(api: httpx.AsyncClient) -> None:
    read = await fetch(api, await store(api))

    assert read == IsPartialDict(
        memory_type="context",
        category="general",
        source="manual",
        importance=2,
        tags=[],
        project="default",
        immutable=False,
    )
    assert not {"valid_from", "valid_to", "expires_at", "forgotten"} & set(read)


async def test_the_project_of_a_batch_is_that_of_its_memories(api: httpx.AsyncClient) -> None:
    memories = [{"content": "one"}, {"content": "two", "project": "gemini"}]
    batch = await api.post(f"{MEMORIES}/batch", json={"project": "apollo", "memories": memories})

    projects = [(await fetch(api, memory_id))["project"] for memory_id in batch.json()["ids"]]
    assert projects == ["apollo", "gemini"]
    assert (await api.get("/api/v1/projects")).json() == {
        "projects": [{"project": "apollo", "count": 1}, {"project": "gemini", "count": 1}],
        "count": 2,
    }


@pytest.mark.parametrize(
    ("bad", "code", "field"),
    [
        ({}, "invalid_request", "content"),
        ({"content": ""}, "invalid_request", "content"),
        ({"content": "é" * 250_001}, "limit_exceeded", "content"),
        ({"content": "x", "importance": 5}, "invalid_request", "importance"),
        ({"content": "x", "importance": -1}, "invalid_request", "importance"),
        ({"content": "x", "importance": 1.5}, "invalid_request", "importance"),
        ({"content": "x", "importance": "1"}, "invalid_request", "importance"),
        ({"content": "x", "importance": True}, "invalid_request", "importance"),
        ({"content": "x", "memory_type": "song"}, "invalid_request", "memory_type"),
        ({"content": "x", "category": "song"}, "invalid_request", "category"),
        ({"content": "x", "tags": ["t"] * 2}, "invalid_request", "tags"),
        ({"content": "x", "tags": [f"t{n}" for n in range(51)]}, "limit_exceeded", "tags"),
        ({"content": "x", "tags": ["t" * 257]}, "limit_exceeded", "tags[0]"),
        ({"content": "x", "project": ""}, "invalid_request", "project"),
        ({"content": "x", "project": "a\u202eb"}, "invalid_request", "project"),
        ({"content": "x", "project": "a\u200bb"}, "invalid_request", "project"),
        ({"content": "x", "project": "a\x00b"}, "invalid_request", "project"),
        ({"content": "x", "pattern_confidence": 1.1}, "invalid_request", "pattern_confidence"),
        ({"content": "x", "immutable": "yes"}, "invalid_request", "immutable"),
        ({"content": "x", "valid_from": "yesterday"}, "invalid_request", "valid_from"),
        ({"content": "x", "valid_from": "2026-01-01T00:00:00"}, "invalid_request", "valid_from"),
        (
            {"content": "x", "valid_from": "2026-01-02T00:00:00Z", "valid_to": "2026-01-02T00:00:00Z"},
            "invalid_request",
            "valid_from",
        ),
        ({"content": "x", "weight": 1}, "invalid_request", "weight"),
    ],
)  # fmt: skip
async def test_a_bad_memory_is_refused_alone_and_in_a_batch(
    api: httpx.AsyncClient, bad: dict[str, Any], code: str, field: str
) -> None:
    batch = {"memories": [{"content": "good"}] * 2 + [bad] + [{"content": "good"}]}

    alone = await api.post(MEMORIES, content=json.dumps(bad), headers=JSON)
    among_others = await api.post(f"{MEMORIES}/batch", content=json.dumps(batch), headers=JSON)

    assert refusal(alone) == (400, code, field)
    assert refusal(among_others) == (400, code, f"memories[2].{field}")
    assert await kept(api) == 0


@pytest.mark.parametrize(("count", "code"), [(0, "invalid_request"), (101, "limit_exceeded")])
async def test_a_batch_has_its_bounds(api: httpx.AsyncClient, count: int, code: str) -> None:
    refused = await api.post(f"{MEMORIES}/batch", json={"memories": [{"content": "x"}] * count})
    whole = await api.post(f"{MEMORIES}/batch", json={"memories": [{"content": "x"}] * 100})

    assert refusal(refused) == (400, code, "memories")
    assert whole.json()["count"] == await kept(api) == 100


async def test_an_unknown_episode_is_not_found(api: httpx.AsyncClient) -> None:
    refused = await api.post(MEMORIES, json={"content": "x", "episode_id": "ep_x"})

    assert refusal(refused) == (404, "not_found", None)
    assert await kept(api) == 0


async def test_memories_are_listed_newest_first_by_project_type_and_tags(
    api: httpx.AsyncClient,
) -> None:
    await store(api, "one", memory_type="error", tags=["a"])
    await store(api, "two", memory_type="decision", tags=["b"])
    await store(api, "three", tags=["c"])
    await store(api, "four", project="apollo")

    async def listed(query: str) -> tuple[list[str], int, int | None]:
        answer = (await api.get(f"{MEMORIES}?{query}")).json()
        texts = [memory["content"] for memory in answer["memories"]]
        return texts, answer["total"], answer["next_offset"]

    assert await listed("") == (["three", "two", "one"], 3, None)
    assert await listed("limit=2") == (["three", "two"], 3, 2)
    assert await listed("limit=2&offset=2") == (["one"], 3, None)
    assert await listed("memory_type=error") == (["one"], 1, None)
    assert await listed("tags=a&tags=b") == (["two", "one"], 2, None)
    assert await listed("project=apollo") == (["four"], 1, None)
    assert await listed("project=nowhere") == ([], 0, None)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("?limit=0", "limit"),
        ("?limit=501", "limit"),
        ("?memory_type=song", "memory_type"),
        ("?project=a%E2%80%AEb", "project"),
        ("?offset=-1", "offset"),
        ("?token_budget=1", "token_budget"),
        ("/timeline", "as_of"),
        ("/timeline?as_of=soon", "as_of"),
        ("/timeline?as_of=2099-01-01T00:00:00Z", "as_of"),
        ("/status?project=", "project"),
        (f"/{ABSENT}?project=x", "project"),
        (f"/{ABSENT}/relations?hops=3", "hops"),
        (f"/{ABSENT}/history?limit=0", "limit"),
    ],
)
async def test_a_bad_reading_is_refused(api: httpx.AsyncClient, path: str, field: str) -> None:
    refused = await api.get(MEMORIES + path)

    assert refusal(refused) == (400, "invalid_request", field)


@promise("versions")
async def test_a_correction_changes_what_it_names_and_keeps_the_past(
    api: httpx.AsyncClient, clock: FakeClock
) -> None:
    memory_id = await store(api, "We chose SQLite", tags=["db"], importance=1)
    learned = format_time(clock.now())
    clock.advance(timedelta(days=1))

    corrected = await api.patch(f"{MEMORIES}/{memory_id}", json={"content": "We chose Postgres"})
    clock.advance(timedelta(days=1))
    await api.patch(f"{MEMORIES}/{memory_id}", json={"tags": [], "importance": 4})

    assert corrected.json() == IsPartialDict(
        id=memory_id, content="We chose Postgres", tags=["db"], importance=1, version=2
    )
    assert await fetch(api, memory_id) == IsPartialDict(tags=[], importance=4, version=3)
    history = (await api.get(f"{MEMORIES}/{memory_id}/history")).json()
    assert (history["memory_id"], history["count"]) == (memory_id, 2)
    assert [version["content"] for version in history["versions"]] == [
        "We chose SQLite",
        "We chose Postgres",
    ]
    then = await api.get(f"{MEMORIES}/timeline", params={"as_of": learned})
    assert [memory["content"] for memory in then.json()["memories"]] == ["We chose SQLite"]


async def test_a_memory_is_moved_to_another_project(api: httpx.AsyncClient) -> None:
    memory_id = await store(api, "We chose SQLite", project="apollo")

    moved = await api.patch(f"{MEMORIES}/{memory_id}", json={"to_project": "soyuz"})

    assert moved.json() == IsPartialDict(id=memory_id, project="soyuz", version=2)
    for project, count in (("apollo", 0), ("soyuz", 1)):
        found = await api.get(
            "/api/v1/search", params={"q": "SQLite", "project": project, "kinds": "note"}
        )
        listed = await api.get(MEMORIES, params={"project": project})
        assert (len(found.json()["results"]), listed.json()["total"]) == (count, count)
    newest = (await api.get("/api/v1/audit")).json()["entries"][0]
    assert newest == IsPartialDict(action="memory_correct", subject=memory_id)
    assert newest["details"]["fields"] == ["project"]


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({}, "invalid_request", None),
        ({"content": ""}, "invalid_request", "content"),
        ({"importance": 5}, "invalid_request", "importance"),
        ({"category": "song"}, "invalid_request", "category"),
        ({"project": "apollo"}, "invalid_request", "project"),
        ({"to_project": "apollo/../soyuz\n"}, "invalid_request", "to_project"),
        ({"valid_to": "2000-01-01T00:00:00Z"}, "invalid_request", "valid_from"),
        ({"tags": ["a", "a"]}, "invalid_request", "tags"),
    ],
)
async def test_a_bad_correction_changes_nothing(
    api: httpx.AsyncClient, change: dict[str, Any], code: str, field: str | None
) -> None:
    memory_id = await store(api, valid_from="2025-01-01T00:00:00Z")
    before = await fetch(api, memory_id)

    refused = await api.patch(f"{MEMORIES}/{memory_id}", json=change)

    assert refusal(refused) == (400, code, field)
    assert await fetch(api, memory_id) == before


@promise("forgetting")
async def test_a_forgotten_memory_is_found_no_more_and_stays_readable(
    api: httpx.AsyncClient, clock: FakeClock
) -> None:
    memory_id = await store(api, "the old tanuki rule")
    clock.advance(timedelta(days=1))

    forgotten = await api.post(f"{MEMORIES}/{memory_id}/forget", json={"reason": "replaced"})
    again = await api.post(f"{MEMORIES}/{memory_id}/forget")

    assert forgotten.json() == IsPartialDict(deleted=True, memory_id=memory_id)
    assert again.json() == forgotten.json()
    assert await fetch(api, memory_id) == IsPartialDict(
        content="the old tanuki rule", forgotten=True, invalidation_reason="replaced"
    )
    assert (await api.get(MEMORIES)).json()["total"] == 0
    found = await api.post("/api/v1/search", json={"query": "tanuki"})
    assert found.json()["results"] == []
    assert refusal(await api.patch(f"{MEMORIES}/{memory_id}", json={"importance": 1}))[0] == 409


@promise("immutable")
async def test_an_immutable_memory_is_neither_corrected_nor_forgotten(
    api: httpx.AsyncClient,
) -> None:
    memory_id = await store(api, immutable=True)
    path = f"{MEMORIES}/{memory_id}"

    refused = [
        await api.patch(path, json={"content": "something else"}),
        await api.post(f"{path}/forget", json={"reason": "old"}),
        await api.delete(path),
        await api.delete(f"{path}?force=false"),
        await api.delete(f"/api/v1/notes/{memory_id}"),
    ]

    assert [refusal(each)[:2] for each in refused] == [(409, "conflict")] * 5
    assert (await fetch(api, memory_id))["version"] == 1
    forced = await api.delete(f"{path}?force=true")
    assert forced.json() == IsPartialDict(removed=True, id=memory_id)
    assert await kept(api) == 0


@promise("forgetting")
async def test_a_purged_memory_leaves_a_tombstone_and_nothing_else(api: httpx.AsyncClient) -> None:
    memory_id, other = await store(api, "the tanuki rule"), await store(api, "another rule")
    await api.patch(f"{MEMORIES}/{memory_id}", json={"content": "the second tanuki rule"})
    await api.post(f"{MEMORIES}/{memory_id}/relations", json={"target_id": other})
    await api.post(f"{MEMORIES}/feedback", json={"memory_ids": [memory_id]})

    removed = await api.delete(f"{MEMORIES}/{memory_id}")

    assert removed.json() == IsPartialDict(removed=True, id=memory_id)
    for path in ("", "/history", "/relations"):
        assert refusal(await api.get(f"{MEMORIES}/{memory_id}{path}"))[0] == 404
    assert (await api.get(f"{MEMORIES}/{other}/relations")).json()["relations"] == []
    assert "tanuki" not in (await api.get("/api/v1/audit")).text


@promise("relations")
async def test_related_memories_are_listed_from_both_ends(api: httpx.AsyncClient) -> None:
    old, new, far = [await store(api, text) for text in ("old", "new", "far")]

    made = await api.post(
        f"{MEMORIES}/{new}/relations", json={"target_id": old, "relation_type": "supersedes"}
    )
    again = await api.post(
        f"{MEMORIES}/{new}/relations",
        json={"target_id": old, "relation_type": "supersedes", "strength": 0.5},
    )
    await api.post(f"{MEMORIES}/{old}/relations", json={"target_id": far})

    assert made.status_code == 201
    assert made.json() == IsPartialDict(
        status="connected", source_id=new, target_id=old, relation_type="supersedes", strength=1
    )
    assert again.json()["id"] == made.json()["id"]
    for memory_id in (old, new):
        listed = (await api.get(f"{MEMORIES}/{memory_id}/relations")).json()
        assert IsPartialDict(id=made.json()["id"], strength=0.5) in listed["relations"]
    two_hops = (await api.get(f"{MEMORIES}/{new}/relations?hops=2")).json()
    assert two_hops["count"] == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "target_id"),
        ({"target_id": "self"}, "target_id"),
        ({"target_id": "other", "relation_type": "likes"}, "relation_type"),
        ({"target_id": "other", "strength": 1.1}, "strength"),
        ({"target_id": "other", "strength": -0.1}, "strength"),
        ({"target_id": "other", "source_id": "other"}, "source_id"),
    ],
)
async def test_a_bad_relation_is_refused(
    api: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    ids = {"self": await store(api, "one"), "other": await store(api, "two")}
    given = {name: ids.get(value, value) for name, value in body.items()}

    refused = await api.post(f"{MEMORIES}/{ids['self']}/relations", json=given)

    assert refusal(refused) == (400, "invalid_request", field)
    assert (await api.get(f"{MEMORIES}/{ids['self']}/relations")).json()["count"] == 0


@promise("relations")
async def test_what_supersedes_cannot_go_in_a_circle(api: httpx.AsyncClient) -> None:
    one, two, three = [await store(api, text) for text in ("one", "two", "three")]
    supersedes = {"relation_type": "supersedes"}
    for source, target in ((one, two), (two, three)):
        path = f"{MEMORIES}/{source}/relations"
        assert (await api.post(path, json={"target_id": target, **supersedes})).status_code == 201

    refused = await api.post(f"{MEMORIES}/{three}/relations", json={"target_id": one, **supersedes})

    assert refusal(refused)[:2] == (400, "invalid_request")


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "invalid_request", "memory_ids"),
        ({"memory_ids": [ABSENT] * 101}, "limit_exceeded", "memory_ids"),
        ({"memory_ids": [1]}, "invalid_request", "memory_ids[0]"),
        ({"event_id": "e", "failure_class": "song"}, "invalid_request", "failure_class"),
        ({"memory_ids": [ABSENT], "failure_class": "other"}, "invalid_request", "event_id"),
    ],
)
async def test_bad_feedback_is_refused(
    api: httpx.AsyncClient, body: dict[str, Any], code: str, field: str
) -> None:
    assert refusal(await api.post(f"{MEMORIES}/feedback", json=body)) == (400, code, field)


async def test_feedback_speaks_of_memories_that_are_here(api: httpx.AsyncClient) -> None:
    memory_id = await store(api)

    recorded = await api.post(f"{MEMORIES}/feedback", json={"memory_ids": [memory_id]})
    unknown = await api.post(f"{MEMORIES}/feedback", json={"memory_ids": [memory_id, ABSENT]})

    assert recorded.json() == {"status": "recorded", "count": 1}
    assert refusal(unknown) == (404, "not_found", None)


async def test_the_status_counts_what_is_there(api: httpx.AsyncClient) -> None:
    await store(api, "one", memory_type="error", importance=0)
    forgotten = await store(api, "two")
    await api.post(f"{MEMORIES}/{forgotten}/forget")

    status = (await api.get(f"{MEMORIES}/status")).json()

    assert status == IsPartialDict(total_memories=1, forgotten=1, by_type={"error": 1})
    assert await kept(api) == 1
    assert (await api.get("/api/v1/status")).json()["messages"] == 0


@promise("apart")
async def test_another_organisations_memories_do_not_exist(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    memory_id = await store(api, "the secret tanuki", project="apollo")
    own = await store(stranger, "mine")

    def attempts(target: str) -> list[tuple[str, str, Any]]:
        return [
            ("GET", f"/{target}", None),
            ("PATCH", f"/{target}", {"importance": 1}),
            ("DELETE", f"/{target}", None),
            ("DELETE", f"/{target}?force=true", None),
            ("POST", f"/{target}/forget", {}),
            ("GET", f"/{target}/history", None),
            ("GET", f"/{target}/relations", None),
            ("POST", f"/{target}/relations", {"target_id": own}),
            ("POST", f"/{own}/relations", {"target_id": target}),
            ("POST", "/feedback", {"memory_ids": [target]}),
        ]

    async def told(target: str) -> list[tuple[int, str, str]]:
        answers = [
            await stranger.request(method, MEMORIES + path, json=body)
            for method, path, body in attempts(target)
        ]
        return [
            (*refusal(each)[:2], each.json()["detail"].replace(target, "…")) for each in answers
        ]

    foreign = await told(memory_id)

    assert foreign == await told(ABSENT)
    assert {status for status, _, _ in foreign} == {404}
    assert await fetch(api, memory_id) == IsPartialDict(version=1, content="the secret tanuki")
    assert (await stranger.get("/api/v1/projects")).json()["projects"] == [
        {"project": "default", "count": 1}
    ]
    for path in ("?project=apollo", f"/timeline?project=apollo&as_of={FULL['valid_from']}"):
        assert (await stranger.get(MEMORIES + path)).json()["memories"] == []
    assert (await stranger.get(f"{MEMORIES}/status?project=apollo")).json()["total_memories"] == 0


USES: list[tuple[str, str, Any, str]] = [
    ("POST", "", {"content": "x"}, "write"),
    ("POST", "/batch", {"memories": [{"content": "x"}]}, "write"),
    ("GET", "", None, "read"),
    ("GET", f"/{ABSENT}", None, "read"),
    ("PATCH", f"/{ABSENT}", {"importance": 1}, "write"),
    ("DELETE", f"/{ABSENT}", None, "delete"),
    ("POST", f"/{ABSENT}/forget", {}, "delete"),
    ("GET", f"/{ABSENT}/history", None, "read"),
    ("GET", f"/{ABSENT}/relations", None, "read"),
    ("POST", f"/{ABSENT}/relations", {"target_id": "mem_y"}, "write"),
    ("GET", "/timeline?as_of=2020-01-01T00:00:00Z", None, "read"),
    ("GET", "/status", None, "read"),
    ("POST", "/feedback", {"memory_ids": [ABSENT]}, "write"),
]


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use[0]} {use[1][:10]}")
async def test_each_use_of_memories_needs_its_scope(
    app: Application, api: httpx.AsyncClient, use: tuple[str, str, Any, str]
) -> None:
    method, path, body, scope = use
    others = [each for each in ("read", "write", "search", "delete", "admin") if each != scope]

    async with connect(app, await scoped_key(api, *others)) as narrow:
        refused = await narrow.request(method, MEMORIES + path, json=body)

    assert refused.status_code == 403
    assert refused.json()["required"] == scope


async def test_memories_of_all_projects_are_browsed_by_any_field(api: httpx.AsyncClient) -> None:
    first = await store(api, "one", project="apollo", tags=["db"], source="adr")
    second = await store(api, "two", category="technical", memory_type="decision")
    ended = await store(api, "three", valid_to="2020-01-01T00:00:00Z")

    async def found(**query: Any) -> list[str]:
        answer = await api.get(f"{MEMORIES}/browse", params=query)
        return [each["id"] for each in answer.json()["memories"]]

    assert await found() == [second, first]
    assert await found(project="apollo", tags="db", source="adr") == [first]
    assert await found(category="technical", memory_type="decision") == [second]
    assert await found(validity="not_now") == [ended]
    assert await found(validity="any", ids=[ended, first]) == [ended, first]
    assert await found(limit=1, offset=1) == [first]
    refused = await api.get(f"{MEMORIES}/browse", params={"validity": "never"})
    assert refusal(refused) == (400, "invalid_request", "validity")


async def test_ratings_and_projects_are_counted(api: httpx.AsyncClient) -> None:
    memory_id = await store(api, project="apollo")
    for helpful in (True, True, False):
        rating = {"memory_ids": [memory_id], "helpful": helpful, "project": "apollo"}
        await api.post(f"{MEMORIES}/feedback", json=rating)
    made = await api.post("/api/v1/conversations", json={"project": "apollo"})

    counted = (await api.get(f"{MEMORIES}/{memory_id}/feedback")).json()
    projects = (await api.get("/api/v1/projects/counts")).json()["projects"]

    assert made.status_code == 201
    assert counted == {"memory_id": memory_id, "helpful": 2, "unhelpful": 1}
    assert projects == [IsPartialDict(project="apollo", conversations=1, messages=0, memories=1)]
