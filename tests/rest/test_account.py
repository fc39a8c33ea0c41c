"""Keys, status, usage, audit and the end of an account over REST."""

from __future__ import annotations

from datetime import timedelta

import httpx
from dirty_equals import IsPartialDict, IsStr

from engram import limits
from engram.clock import format_time
from engram.http.asgi import Application, create_app
from engram.limits import STORED_ROW_BYTES
from engram.settings import Settings
from tests.fakes import FakeClock
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, append, connect, new_conversation, new_key, refusal


@promise("secrets")
async def test_a_key_shows_its_secret_once(app: Application, api: httpx.AsyncClient) -> None:
    body = {"name": "ci", "scopes": ["read"], "expires_at": "2030-01-01T00:00:00Z"}

    made = await api.post("/api/v1/keys", json=body)

    assert made.status_code == 201
    created = made.json()
    assert created["key"] == IsStr(regex="engram_sk_live_.{32}")
    assert created["key"].startswith(created["prefix"])
    listed = await api.get("/api/v1/keys")
    assert created["key"] not in listed.text
    assert listed.json()["keys"][-1] == IsPartialDict(
        id=created["id"], name="ci", scopes=["read"], expires_at="2030-01-01T00:00:00.000000Z"
    )


async def test_a_key_may_carry_its_toolsets(api: httpx.AsyncClient) -> None:
    own = await api.post("/api/v1/keys", json={"name": "own", "toolsets": ["notes", "memories"]})
    plain = await api.post("/api/v1/keys", json={"name": "plain"})
    unknown = await api.post("/api/v1/keys", json={"name": "odd", "toolsets": ["songs"]})
    none = await api.post("/api/v1/keys", json={"name": "odd", "toolsets": []})

    listed = (await api.get("/api/v1/keys")).json()["keys"]
    assert own.json()["toolsets"] == ["notes", "memories"]
    assert plain.json()["toolsets"] is None
    assert [key["toolsets"] for key in listed[1:]] == [["notes", "memories"], None]
    assert refusal(unknown) == (400, "invalid_request", "toolsets[0]")
    assert refusal(none) == (400, "invalid_request", "toolsets")


async def test_a_revoked_key_stays_in_the_list_with_its_end(
    api: httpx.AsyncClient, clock: FakeClock
) -> None:
    made = (await api.post("/api/v1/keys", json={"name": "gone"})).json()

    revoked = await api.delete(f"/api/v1/keys/{made['id']}")

    assert revoked.json()["revoked_at"] == format_time(clock.now())
    assert (await api.get("/api/v1/keys")).json()["keys"][-1] == revoked.json()


async def test_status_counts_what_is_stored(api: httpx.AsyncClient) -> None:
    await append(api, await new_conversation(api), "tanuki", "ö")

    assert (await api.get("/api/v1/status")).json() == {
        "conversations": 1,
        "messages": 2,
        "memories": 0,
        "documents": 0,
        "content_bytes": 8,
        "chunks": 1,
        "vectors": 0,
        "pending": 0,
        "pending_since": None,
        "embedder": None,
        "degraded": ["words_only"],
        "scrubbed_at": None,
        "faults": 0,
    }


async def test_usage_is_told_beside_the_quota(
    app: Application, operator: httpx.AsyncClient
) -> None:
    async with connect(app, await new_key(operator, messages_max=9, bytes_max=999)) as client:
        await append(client, await new_conversation(client), "abc")

        usage = (await client.get("/api/v1/usage")).json()

    assert usage == {
        "messages": 1,
        "messages_max": 9,
        "content_bytes": 3,
        "stored_bytes": 2 * STORED_ROW_BYTES + len("default{}") + 3,
        "bytes_max": 999,
        "days": [],
    }


async def test_usage_is_told_by_day(settings: Settings, clock: FakeClock) -> None:
    first, second = create_app(settings, clock=clock), create_app(settings, clock=clock)
    async with first.lifespan(), connect(first, ADMIN_TOKEN) as operator:
        key = await new_key(operator)
        async with connect(first, key) as client:
            await append(client, await new_conversation(client), "apples")
            await client.get("/api/v1/search", params={"q": "apples"})

    # What was counted is written down when a server ends.
    async with second.lifespan(), connect(second, key) as client:
        usage = (await client.get("/api/v1/usage", params={"days": 1})).json()
        refused = await client.get("/api/v1/usage", params={"days": 401})

    assert usage["days"] == [
        {
            "day": "2026-05-08",
            "requests": 3,
            "searches": 1,
            "messages": 1,
            "embedded_texts": 0,
            "bytes": usage["stored_bytes"],
        }
    ]
    assert refusal(refused)[:2] == (400, "invalid_request")


@promise("audit")
async def test_the_audit_tells_who_did_what_but_never_the_content(
    api: httpx.AsyncClient, clock: FakeClock
) -> None:
    conversation_id = await new_conversation(api, title="hush")
    clock.advance(timedelta(seconds=1))
    await append(api, conversation_id, "a secret")
    clock.advance(timedelta(seconds=1))
    await api.post("/api/v1/keys", json={"name": "ci"})

    audit = await api.get("/api/v1/audit", params={"limit": 3})

    entries = audit.json()["entries"]
    assert [entry["action"] for entry in entries] == [
        "create_key",
        "append_messages",
        "create_conversation",
    ]
    assert entries[1]["subject"] == conversation_id
    assert "secret" not in audit.text
    assert "hush" not in audit.text
    older = await api.get("/api/v1/audit", params={"before": entries[1]["at"], "limit": 1})
    assert older.json()["entries"] == [entries[2]]


async def test_a_deleted_account_leaves_nothing_but_a_receipt(
    app: Application, operator: httpx.AsyncClient, clock: FakeClock
) -> None:
    async with connect(app, await new_key(operator)) as client:
        await append(client, await new_conversation(client), "tanuki")

        for name in ("acm", "ACME", ""):
            wrong = await client.request("DELETE", "/api/v1/account", json={"organization": name})
            assert refusal(wrong) == (400, "invalid_request", "organization")
        unnamed = await client.delete("/api/v1/account")
        assert unnamed.status_code in {400, 415}

        deleted = await client.request("DELETE", "/api/v1/account", json={"organization": "acme"})

        assert deleted.status_code == 200
        refused = await client.get("/api/v1/status")
    assert deleted.json() == {
        "deleted": True,
        "organization_id": IsStr(regex="org_.*"),
        "receipt": IsStr(regex="aud_.*"),
        "deleted_at": format_time(clock.now()),
        "removed": {
            "conversations": 1,
            "messages": 1,
            "memories": 0,
            "documents": 0,
            "content_bytes": 6,
            "keys": 1,
        },
        "files": [IsStr(regex=r"org_.*\.db"), "engram.db"],
        "backups": [],
        "still_held": [],
    }
    assert refused.status_code in {401, 404}
    assert (await operator.get("/admin/organizations")).json()["organizations"] == []


async def test_an_unknown_key_cannot_be_revoked(api: httpx.AsyncClient) -> None:
    assert refusal(await api.delete("/api/v1/keys/key_x")) == (404, "not_found", None)


async def test_a_key_cannot_be_made_after_its_end(api: httpx.AsyncClient, clock: FakeClock) -> None:
    late = {"name": "late", "expires_at": format_time(clock.now())}

    assert refusal(await api.post("/api/v1/keys", json=late)) == (
        400,
        "invalid_request",
        "expires_at",
    )


async def test_a_key_is_rotated_with_an_overlap(
    app: Application, api: httpx.AsyncClient, clock: FakeClock
) -> None:
    old = (await api.post("/api/v1/keys", json={"name": "ci", "scopes": ["read"]})).json()

    rotated = await api.post(f"/api/v1/keys/{old['id']}/rotate", json={"overlap_s": 3600})

    assert rotated.status_code == 201
    assert rotated.json() == IsPartialDict(
        name="ci",
        scopes=["read"],
        key=IsStr(regex="engram_sk_live_.{32}"),
        replaces=old["id"],
        replaced_expires_at=format_time(clock.now() + timedelta(hours=1)),
    )
    clock.advance(timedelta(minutes=59))
    for key in (old["key"], rotated.json()["key"]):
        async with connect(app, key) as client:
            assert (await client.get("/api/v1/status")).status_code == 200
    clock.advance(timedelta(minutes=1))
    async with connect(app, old["key"]) as client:
        assert refusal(await client.get("/api/v1/status")) == (401, "unauthenticated", None)


async def test_a_key_is_rotated_with_a_day_of_overlap_unless_told_otherwise(
    api: httpx.AsyncClient, clock: FakeClock
) -> None:
    old = (await api.post("/api/v1/keys", json={"name": "ci"})).json()
    path = f"/api/v1/keys/{old['id']}/rotate"

    too_long = await api.post(path, json={"overlap_s": limits.KEY_OVERLAP_S_MAX + 1})
    unknown = await api.post("/api/v1/keys/key_x/rotate")
    rotated = await api.post(path)

    assert refusal(too_long)[2] == "overlap_s"
    assert refusal(unknown) == (404, "not_found", None)
    end = format_time(clock.now() + timedelta(days=1))
    assert rotated.json()["replaced_expires_at"] == end
