"""Denied requests and new addresses over HTTP: what the audit holds after the server has stopped."""

from __future__ import annotations

from typing import Any

import httpx

from engram.http.asgi import create_app
from engram.settings import Settings
from tests.fakes import FakeClock
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, connect, new_key

pytestmark = promise("audit")


async def audit_of(settings: Settings, clock: FakeClock, key: str, action: str) -> list[Any]:
    """Return the rows of an action, as the next server shows them."""
    app = create_app(settings, clock=clock)
    async with app.lifespan(), connect(app, key, peer="10.9.9.9") as client:
        entries = (await client.get("/api/v1/audit", params={"limit": 500})).json()["entries"]
    return [entry for entry in entries if entry["action"] == action]


async def narrow_key(owner: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    return (await owner.post("/api/v1/keys", json={"name": "narrow", **fields})).json()


async def test_denied_requests_are_audited_for_rest_and_mcp_alike(
    settings: Settings, clock: FakeClock
) -> None:
    called = {"name": "create_conversation", "arguments": {"title": "x"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
    app = create_app(settings, clock=clock)
    async with app.lifespan(), connect(app, ADMIN_TOKEN) as operator:
        key = await new_key(operator)
        async with connect(app, key) as owner:
            reader = await narrow_key(owner, scopes=["read"], toolsets=["conversations"])
        async with connect(app, reader["key"]) as client:
            await client.post("/api/v1/conversations", json={})
            await client.post("/mcp", json=message)
            await client.get("/api/v1/notes")

    rows = await audit_of(settings, clock, key, "denied")

    assert {row["actor"] for row in rows} == {reader["id"]}
    assert sorted((row["details"]["reason"], row["details"]["count"]) for row in rows) == [
        ("insufficient_scope", 2),
        ("toolset_denied", 1),
    ]


async def test_the_address_of_a_peer_is_audited_and_no_header_counts(
    settings: Settings, clock: FakeClock
) -> None:
    app = create_app(settings, clock=clock)
    async with app.lifespan(), connect(app, ADMIN_TOKEN) as operator:
        key = await new_key(operator)
        async with connect(app, key, peer="10.0.0.7") as client:
            await client.get("/api/v1/status", headers={"X-Forwarded-For": "6.6.6.6"})

    (row,) = await audit_of(settings, clock, key, "new_address")

    assert row["details"] == {"addresses": ["10.0.0.7"], "count": 1}
