"""Who may do what: keys, scopes, other tenants, revocation and the operator."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from engram.api.table import OPERATIONS
from engram.clock import format_time
from engram.http.asgi import Application, create_app
from engram.http.openapi import openapi_document
from engram.model.value import replace
from engram.settings import Settings
from tests.fakes import FakeClock
from tests.promises import promise
from tests.rest.calls import (
    ADMIN_TOKEN,
    append,
    connect,
    new_conversation,
    new_key,
    refusal,
    scoped_key,
    stored,
)

UNKNOWN_KEY = "engram_sk_live_" + "A" * 32
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAA"


async def the_same_401(app: Application, authorization: bytes | None) -> httpx.Response:
    headers = {} if authorization is None else {b"Authorization": authorization}
    async with connect(app) as client:
        return await client.get("/api/v1/status", headers=headers)


@promise("one-refusal")
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic dXNlcjpwYXNz",
        b"Bearer x",
        b"Bearer \xff\xfe",
        f"Bearer {UNKNOWN_KEY}".encode(),
        f"Bearer {UNKNOWN_KEY} {UNKNOWN_KEY}".encode(),
        f"Token {UNKNOWN_KEY}".encode(),
        f"Bearer {ADMIN_TOKEN}".encode(),
    ],
)
async def test_a_missing_malformed_or_unknown_key_gets_one_answer(
    app: Application, authorization: bytes | None
) -> None:
    missing = await the_same_401(app, None)

    answer = await the_same_401(app, authorization)

    assert refusal(answer) == (401, "unauthenticated", None)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.content == missing.content


@promise("one-refusal")
async def test_a_revoked_and_an_expired_key_get_that_same_answer(
    app: Application, api: httpx.AsyncClient, clock: FakeClock
) -> None:
    tomorrow = format_time(clock.now() + timedelta(days=1))
    body = {"name": "short", "expires_at": tomorrow}
    expiring = (await api.post("/api/v1/keys", json=body)).json()
    revoked = (await api.post("/api/v1/keys", json={"name": "gone"})).json()
    assert (await the_same_401(app, f"Bearer {revoked['key']}".encode())).status_code == 200

    await api.delete(f"/api/v1/keys/{revoked['id']}")
    clock.advance(timedelta(days=1))

    missing = await the_same_401(app, None)
    for key in (expiring["key"], revoked["key"]):
        answer = await the_same_401(app, f"Bearer {key}".encode())
        assert (answer.status_code, answer.content) == (401, missing.content)


async def test_two_authorization_headers_are_none(app: Application, api: httpx.AsyncClient) -> None:
    key = api.headers["authorization"]
    async with connect(app) as client:
        headers = [("Authorization", key), ("Authorization", key)]
        answer = await client.get("/api/v1/status", headers=headers)

    assert refusal(answer) == (401, "unauthenticated", None)


async def test_the_scheme_is_known_in_any_case(app: Application, api: httpx.AsyncClient) -> None:
    key = api.headers["authorization"].replace("Bearer", "bEARER")
    async with connect(app) as client:
        answer = await client.get("/api/v1/status", headers={"Authorization": key})

    assert answer.status_code == 200


def every_operation() -> list[tuple[str, str]]:
    paths = openapi_document(OPERATIONS)["paths"]
    return [(method, path) for path, methods in paths.items() for method in methods]


@promise("one-refusal")
@pytest.mark.parametrize(
    ("method", "path"),
    [*every_operation(), ("post", "/mcp"), ("get", "/sse"), ("post", "/messages/")],
)
async def test_nothing_is_open_without_a_credential(
    anybody: httpx.AsyncClient, method: str, path: str
) -> None:
    answer = await anybody.request(method, path)

    assert refusal(answer) == (401, "unauthenticated", None)


@pytest.mark.parametrize("path", ["/nowhere", "//api/v1/status", "/API/v1/status", "/mcp/x"])
async def test_a_path_nobody_knows_needs_a_key_too(anybody: httpx.AsyncClient, path: str) -> None:
    assert refusal(await anybody.get(path)) == (401, "unauthenticated", None)


async def test_a_client_that_looks_for_oauth_learns_that_there_is_none(
    anybody: httpx.AsyncClient,
) -> None:
    answer = await anybody.get("/.well-known/oauth-protected-resource/mcp")

    assert answer.status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/api/v1/openapi.json"])
async def test_what_watches_and_describes_is_open(anybody: httpx.AsyncClient, path: str) -> None:
    assert (await anybody.get(path)).status_code == 200


NEEDS: list[tuple[str, str, str, object]] = [
    ("write", "POST", "/api/v1/conversations", {}),
    ("write", "POST", "/api/v1/messages", {"messages": [{"role": "user", "content": "x"}]}),
    ("write", "POST", "/api/v1/conversations/{id}/messages", {"messages": [{"role": "user", "content": "x"}]}),
    ("read", "GET", "/api/v1/conversations", None),
    ("read", "GET", "/api/v1/conversations/{id}", None),
    ("delete", "DELETE", "/api/v1/conversations/{id}", None),
    ("search", "POST", "/api/v1/search", {"query": "x"}),
    ("search", "GET", "/api/v1/search?q=x", None),
    ("read", "GET", "/api/v1/status", None),
    ("read", "GET", "/api/v1/usage", None),
    ("admin", "GET", "/api/v1/audit", None),
    ("admin", "GET", "/api/v1/keys", None),
    ("admin", "POST", "/api/v1/keys", {"name": "k"}),
    ("admin", "DELETE", "/api/v1/keys/key_x", None),
    ("admin", "DELETE", "/api/v1/account", {"organization": "acme"}),
]  # fmt: skip
SCOPES = ("read", "write", "search", "delete", "admin")


@promise("scopes")
@pytest.mark.parametrize(("scope", "method", "path", "body"), NEEDS)
async def test_a_key_without_the_scope_is_refused_and_told_which(
    app: Application, api: httpx.AsyncClient, *, scope: str, method: str, path: str, body: object
) -> None:
    conversation_id = await new_conversation(api)
    key = await scoped_key(api, *(other for other in SCOPES if other != scope))

    async with connect(app, key) as narrow:
        answer = await narrow.request(method, path.replace("{id}", conversation_id), json=body)

    assert refusal(answer) == (403, "insufficient_scope", None)
    assert answer.json()["required"] == scope
    assert await stored(api) == (1, 0)


@promise("scopes")
async def test_deleting_an_account_needs_both_admin_and_delete(
    app: Application, api: httpx.AsyncClient
) -> None:
    async with connect(app, await scoped_key(api, "admin")) as narrow:
        body = {"organization": "acme"}
        answer = await narrow.request("DELETE", "/api/v1/account", json=body)

    assert (refusal(answer)[1], answer.json()["required"]) == ("insufficient_scope", "delete")


THINGS = [
    ("GET", "/api/v1/conversations/{id}", None),
    ("DELETE", "/api/v1/conversations/{id}", None),
    ("POST", "/api/v1/conversations/{id}/messages", {"messages": [{"role": "user", "content": "x"}]}),
    ("POST", "/api/v1/messages", {"messages": [{"role": "user", "content": "x"}], "conversation_id": "{id}"}),
    ("POST", "/api/v1/search", {"query": "x", "conversation_id": "{id}"}),
    ("GET", "/api/v1/search?q=x&conversation_id={id}", None),
    ("DELETE", "/api/v1/keys/{key}", None),
]  # fmt: skip


@promise("apart")
@pytest.mark.parametrize(("method", "path", "body"), THINGS)
async def test_what_is_anothers_does_not_exist(
    api: httpx.AsyncClient,
    stranger: httpx.AsyncClient,
    method: str,
    path: str,
    body: dict[str, object] | None,
) -> None:
    conversation_id = await new_conversation(api)
    await append(api, conversation_id, "x")
    key_id = (await api.get("/api/v1/keys")).json()["keys"][0]["id"]
    theirs = {"{id}": conversation_id, "{key}": key_id}
    nobodys = {"{id}": f"conv_{UNKNOWN_ID}", "{key}": f"key_{UNKNOWN_ID}"}

    async def ask(ids: dict[str, str]) -> httpx.Response:
        address, content = path, body and dict(body)
        for name, value in ids.items():
            address = address.replace(name, value)
            if content and content.get("conversation_id") == name:
                content["conversation_id"] = value
        return await stranger.request(method, address, json=content)

    foreign, unknown = await ask(theirs), await ask(nobodys)

    assert refusal(foreign) == (404, "not_found", None)
    neutral = foreign.text.replace(conversation_id, "ID").replace(key_id, "ID")
    assert neutral == unknown.text.replace(f"conv_{UNKNOWN_ID}", "ID").replace(
        f"key_{UNKNOWN_ID}", "ID"
    )
    assert await stored(api) == (1, 1)


@promise("apart")
async def test_lists_and_searches_show_nothing_of_another_tenant(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    await append(api, await new_conversation(api, title="secret"), "tanuki")

    found = (await stranger.post("/api/v1/search", json={"query": "tanuki"})).json()
    listed = (await stranger.get("/api/v1/conversations")).json()

    assert (found["results"], found["total_candidates"]) == ([], 0)
    assert (listed["conversations"], listed["total"]) == ([], 0)
    assert await stored(stranger) == (0, 0)


@promise("revocation")
async def test_a_revocation_reaches_another_process_within_a_second(
    settings: Settings, clock: FakeClock, api: httpx.AsyncClient
) -> None:
    made = (await api.post("/api/v1/keys", json={"name": "worker"})).json()
    other = create_app(settings, clock=clock)
    async with other.lifespan(), connect(other, made["key"]) as client:
        assert (await client.get("/api/v1/status")).status_code == 200

        await api.delete(f"/api/v1/keys/{made['id']}")
        clock.advance(timedelta(seconds=1))

        assert refusal(await client.get("/api/v1/status")) == (401, "unauthenticated", None)


async def test_a_key_cannot_revoke_itself(api: httpx.AsyncClient) -> None:
    key_id = (await api.get("/api/v1/keys")).json()["keys"][0]["id"]

    assert refusal(await api.delete(f"/api/v1/keys/{key_id}")) == (409, "conflict", None)


@promise("operators")
async def test_the_operators_token_opens_admin_and_nothing_else(
    operator: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    assert (await operator.get("/admin/organizations")).status_code == 200
    assert refusal(await operator.get("/api/v1/status")) == (401, "unauthenticated", None)
    assert refusal(await api.get("/admin/organizations")) == (401, "unauthenticated", None)


@promise("operators")
async def test_without_an_operators_token_admin_is_closed(
    settings: Settings, clock: FakeClock
) -> None:
    closed = create_app(replace(settings, admin_token=None), clock=clock)
    async with closed.lifespan(), connect(closed, "") as client:
        answer = await client.get("/admin/organizations", headers={"Authorization": "Bearer "})

    assert refusal(answer) == (401, "unauthenticated", None)


@promise("rates")
async def test_too_many_requests_are_told_when_to_come_back(
    settings: Settings, clock: FakeClock
) -> None:
    limited = create_app(replace(settings, rate_limit=1.0), clock=clock)
    async with limited.lifespan(), connect(limited, ADMIN_TOKEN) as operator:
        key, other = await new_key(operator), await new_key(operator)
        async with connect(limited, key) as client, connect(limited, other) as bystander:
            answers = [await client.get("/api/v1/conversations/conv_x") for _ in range(3)]
            unharmed = await bystander.get("/api/v1/status")
            clock.advance(timedelta(seconds=1))
            later = await client.get("/api/v1/status")

    assert [answer.status_code for answer in answers] == [404, 404, 429]
    assert refusal(answers[2]) == (429, "rate_limited", None)
    assert [answer.headers["ratelimit-remaining"] for answer in answers] == ["1", "0", "0"]
    assert {answer.headers["ratelimit-limit"] for answer in answers} == {"2"}
    assert (answers[2].headers["retry-after"], answers[2].headers["ratelimit-reset"]) == ("1", "1")
    assert (unharmed.status_code, later.status_code) == (200, 200)


@promise("quotas")
async def test_a_quota_is_warned_of_and_then_enforced(
    app: Application, operator: httpx.AsyncClient
) -> None:
    async with connect(app, await new_key(operator, messages_max=5)) as client:
        conversation_id = await new_conversation(client)

        quiet = await append(client, conversation_id, "1", "2", "3")
        warned = await append(client, conversation_id, "4")
        refused = await append(client, conversation_id, "5", "6")

        assert "engram-quota-warning" not in quiet.headers
        assert "4 of 5 messages" in warned.headers["engram-quota-warning"]
        assert refusal(refused) == (403, "quota_exceeded", None)
        assert (refused.json()["resource"], refused.json()["limit"]) == ("messages", 5)
        assert await stored(client) == (1, 4)
