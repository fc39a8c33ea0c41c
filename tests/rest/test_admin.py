"""What the operator does over REST."""

from __future__ import annotations

import httpx
import pytest
from dirty_equals import IsPartialDict, IsStr

from engram.http.asgi import Application
from tests.promises import promise
from tests.rest.calls import append, connect, new_conversation, refusal


async def test_a_new_organisation_comes_with_a_key_that_works(
    app: Application, operator: httpx.AsyncClient
) -> None:
    made = await operator.post("/admin/organizations", json={"name": "acme", "messages_max": 7})

    assert made.status_code == 201
    assert made.json() == {
        "organization_id": IsStr(regex="org_.{21}"),
        "api_key": IsStr(regex="engram_sk_live_.{32}"),
    }
    async with connect(app, made.json()["api_key"]) as client:
        assert (await client.get("/api/v1/usage")).json()["messages_max"] == 7
    listed = (await operator.get("/admin/organizations")).json()["organizations"]
    assert listed == [IsPartialDict(id=made.json()["organization_id"], name="acme", messages_max=7)]


@promise("quotas")
async def test_a_quota_is_changed_and_holds_at_once(
    app: Application, operator: httpx.AsyncClient
) -> None:
    made = (await operator.post("/admin/organizations", json={"name": "acme"})).json()
    path = f"/admin/organizations/{made['organization_id']}"
    async with connect(app, made["api_key"]) as client:
        conversation_id = await new_conversation(client)

        changed = await operator.patch(path, json={"messages_max": 1, "name": "Acme"})
        stored = await append(client, conversation_id, "one")
        refused = await append(client, conversation_id, "two")
        lifted = await operator.patch(path, json={"messages_max": None})
        again = await append(client, conversation_id, "two")

    assert changed.json() == IsPartialDict(name="Acme", messages_max=1, bytes_max=None)
    assert (stored.status_code, again.status_code) == (200, 200)
    assert refusal(refused) == (403, "quota_exceeded", None)
    assert refused.json() == IsPartialDict(resource="messages", limit=1, used=1, needed=1)
    assert lifted.json() == IsPartialDict(name="Acme", messages_max=None)


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, None), ({"bytes_max": -1}, "bytes_max"), ({"name": None}, None), ({"plan": 1}, "plan")],
)
async def test_what_is_no_change_of_an_organisation_is_refused(
    operator: httpx.AsyncClient, api: httpx.AsyncClient, body: dict[str, object], field: str | None
) -> None:
    listed = (await operator.get("/admin/organizations")).json()["organizations"]

    refused = await operator.patch(f"/admin/organizations/{listed[0]['id']}", json=body)

    assert refusal(refused) == (400, "invalid_request", field)
    assert (await operator.get("/admin/organizations")).json()["organizations"] == listed


@promise("operators")
async def test_a_change_needs_the_operators_token_and_an_organisation(
    operator: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    path = "/admin/organizations/org_nobody"

    assert (await api.patch(path, json={"bytes_max": 1})).status_code == 401
    assert refusal(await operator.patch(path, json={"bytes_max": 1})) == (404, "not_found", None)


@promise("quotas")
async def test_little_more_than_the_quota_is_ever_stored(
    app: Application, operator: httpx.AsyncClient
) -> None:
    made = (
        await operator.post("/admin/organizations", json={"name": "a", "bytes_max": 5_000})
    ).json()
    async with connect(app, made["api_key"]) as client:
        conversation_id = await new_conversation(client)
        message = {"role": "user", "content": "x", "metadata": {"much": "m" * 60_000}}
        path = f"/api/v1/conversations/{conversation_id}/messages"

        refused = [
            await client.post(path, json={"messages": [message]}),
            await client.post("/api/v1/conversations", json={"metadata": {"much": "m" * 60_000}}),
            await client.post("/api/v1/documents/uploads", json={"name": "n" * 200}),
        ]
        part = await client.put(
            f"/api/v1/documents/uploads/{refused[2].json()['upload_id']}/parts/0",
            content=b"x" * 100_000,
        )
        usage = (await client.get("/api/v1/usage")).json()

    assert [refusal(answer)[1] for answer in (*refused[:2], part)] == ["quota_exceeded"] * 3
    assert usage["stored_bytes"] <= 5_000


async def test_a_deleted_organisation_is_gone(
    operator: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    listed = (await operator.get("/admin/organizations")).json()["organizations"]
    path = f"/admin/organizations/{listed[0]['id']}"

    assert (await operator.delete(path)).status_code == 204

    assert refusal(await operator.delete(path)) == (404, "not_found", None)
    assert (await operator.get("/admin/organizations")).json()["organizations"] == []


@promise("backfill")
async def test_nothing_is_left_to_compress_in_a_new_store(
    operator: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    await append(api, await new_conversation(api), "x" * 1_000)
    expected = {"status": "done", "processed": 0, "compressed": 0}

    with_body = await operator.post("/admin/backfill/compress", json={"batch_size": 10})
    without = await operator.post("/admin/backfill/compress")

    assert with_body.json() == IsPartialDict(expected)
    assert without.json() == IsPartialDict(expected)


@promise("backfill")
@pytest.mark.parametrize("batch_size", [0, 1_001, "10", None])
async def test_a_batch_outside_its_bounds_is_refused(
    operator: httpx.AsyncClient, batch_size: object
) -> None:
    answer = await operator.post("/admin/backfill/compress", json={"batch_size": batch_size})

    assert refusal(answer) == (400, "invalid_request", "batch_size")


@promise("one-truth")
async def test_a_reindexed_store_is_covered_and_finds_the_same(
    operator: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    await append(api, await new_conversation(api), "tanuki", "river", "tea")
    before = (await api.post("/api/v1/search", json={"query": "tanuki"})).json()

    reindexed = await operator.post("/admin/reindex")

    assert reindexed.json() == {"messages": 3}
    coverage = (await operator.get("/admin/coverage")).json()["organizations"]
    assert coverage == [
        IsPartialDict(
            messages=3,
            messages_indexed=3,
            messages_deep=0,
            messages_instant=0,
            messages_without_vector=3,
        )
    ]
    assert (await api.post("/api/v1/search", json={"query": "tanuki"})).json() == before


async def test_stats_tell_what_each_organisation_holds(
    operator: httpx.AsyncClient, api: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    await append(api, await new_conversation(api), "tanuki")

    stats = (await operator.get("/admin/stats")).json()["organizations"]

    assert [(item["name"], item["messages"]) for item in stats] == [("acme", 1), ("acme", 0)]


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "invalid_request", "name"),
        ({"name": ""}, "invalid_request", "name"),
        ({"name": "n" * 257}, "limit_exceeded", "name"),
        ({"name": "a", "messages_max": -1}, "invalid_request", "messages_max"),
        ({"name": "a", "plan": "pro"}, "invalid_request", "plan"),
    ],
)
async def test_a_wrong_organisation_is_refused_and_not_made(
    operator: httpx.AsyncClient, body: object, code: str, field: str
) -> None:
    answer = await operator.post("/admin/organizations", json=body)

    assert refusal(answer) == (400, code, field)
    assert (await operator.get("/admin/organizations")).json()["organizations"] == []
