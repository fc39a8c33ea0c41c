"""Legacy sessions belong to the credential that opened them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import httpx
import pytest
from mcp import Client

from engram import limits
from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.mcp.server import Caller, build_server
from engram.model.access import TOOLSETS, KeyDraft, OrganizationDraft
from engram.model.ids import KeyId
from engram.service.access.admission import TurnBounds, Turns
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.mcp.connecting import RunningServer, bearer
from tests.promises import promise
from tests.serving import serving

PATIENCE_S = 120

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@asynccontextmanager
async def open_session(
    server: RunningServer, key: str
) -> AsyncGenerator[tuple[str, AsyncIterator[str]]]:
    """Yield where to post, and the lines of the stream."""
    async with (
        httpx.AsyncClient(base_url=server.url, headers=bearer(key), timeout=60) as client,
        client.stream("GET", "/sse") as stream,
    ):
        lines = stream.aiter_lines()
        with anyio.fail_after(PATIENCE_S):
            assert await anext(lines) == "event: endpoint"
            data = await anext(lines)
        yield data.removeprefix("data: "), lines


async def post(server: RunningServer, endpoint: str, key: str | None) -> int:
    async with httpx.AsyncClient(base_url=server.url, headers=bearer(key)) as client:
        return (await client.post(endpoint, json=PING)).status_code


async def next_data(lines: AsyncIterator[str]) -> str:
    with anyio.fail_after(PATIENCE_S):
        while not (line := await anext(lines)).startswith("data: "):
            pass
    return line


async def test_the_stream_says_where_to_post_and_answers_there(server: RunningServer) -> None:
    async with open_session(server, server.key) as (endpoint, lines):
        status = await post(server, endpoint, server.key)

        assert endpoint.startswith("/messages/?session_id=")
        assert status == 202
        assert '"id":1' in await next_data(lines)


async def test_a_session_cannot_be_used_with_another_key(server: RunningServer) -> None:
    stranger = await server.new_organization("stranger")
    colleague = await server.new_key("read")

    async with open_session(server, server.key) as (endpoint, _):
        statuses = [await post(server, endpoint, key) for key in (stranger, colleague, None)]

    assert statuses == [404, 404, 401]


@pytest.mark.parametrize("query", ["", "?session_id=x", f"?session_id={'0' * 32}"])
async def test_an_unknown_session_is_an_error(server: RunningServer, query: str) -> None:
    assert await post(server, f"/messages/{query}", server.key) in {400, 404}


@pytest.mark.parametrize(
    ("bound", "status", "code"),
    [
        ("SSE_SESSIONS_MAX", 503, "unavailable"),
        ("SSE_SESSIONS_PER_KEY_MAX", 429, "too_many_sessions"),
        ("SSE_SESSIONS_PER_ORGANIZATION_MAX", 429, "too_many_sessions"),
    ],
)
async def test_open_sessions_are_bounded(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, bound: str, status: int, code: str
) -> None:
    monkeypatch.setattr(limits, bound, 1)

    async with open_session(server, server.key):
        refused = await refusal(server, server.key)
        assert refused is not None
        assert refused.status_code == status
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["code"] == code
    with anyio.fail_after(PATIENCE_S):
        # The server learns in its own time that the client has left.
        while await refusal(server, server.key) is not None:
            pass


async def test_sessions_of_one_organisation_leave_room_for_another(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SSE_SESSIONS_PER_ORGANIZATION_MAX", 2)
    monkeypatch.setattr(limits, "SSE_SESSIONS_PER_KEY_MAX", 1)
    colleague, third = await server.new_key("read"), await server.new_key("read")
    stranger = await server.new_organization("stranger")

    async with open_session(server, server.key), open_session(server, colleague):
        assert await refusal(server, third) is not None
        assert await refusal(server, stranger) is None


async def refusal(server: RunningServer, key: str) -> httpx.Response | None:
    """Return how a new session was refused, None if it was not."""
    async with (
        httpx.AsyncClient(base_url=server.url, headers=bearer(key), timeout=PATIENCE_S) as client,
        client.stream("GET", "/sse") as stream,
    ):
        if stream.status_code == 200:
            return None
        await stream.aread()
        return stream


@promise("revocation")
async def test_a_session_ends_when_its_key_is_revoked_by_another_process(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    key = await server.new_key("read")
    owner = await server.service.access.authenticate(server.key)
    revoked = await server.service.access.authenticate(key)

    async with (
        open_session(server, server.key) as (endpoint, _),
        open_session(server, key) as (
            _,
            lines,
        ),
    ):
        await server.service.access.revoke_key(owner, KeyId(revoked.actor))
        with anyio.fail_after(PATIENCE_S):
            async for _ in lines:
                pass

        assert await post(server, endpoint, server.key) == 202
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_session_ends_when_its_key_expires(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = Settings(home=tmp_path / "server", embedder=NoEmbedder(), rate_limit=0)
    async with (
        serving(create_app(settings, clock=clock)) as url,
        open_service(settings, clock=clock) as service,
    ):
        _, first = await service.operator.create_organization(OrganizationDraft(name="first"))
        draft = KeyDraft(name="k", expires_at=clock.now() + timedelta(hours=1))
        owner = await service.access.authenticate(first.secret)
        brief = await service.access.create_key(owner, draft)
        server = RunningServer(url, service, brief.secret, settings.home)

        async with open_session(server, brief.secret) as (_, lines):
            clock.advance(timedelta(hours=2))
            with anyio.fail_after(PATIENCE_S):
                async for _ in lines:
                    pass


async def test_calls_of_a_session_take_turns_with_other_requests(server: RunningServer) -> None:
    owner = await server.service.access.authenticate(server.key)
    turns = Turns(TurnBounds(alone_max=1, shared_max=1, waiting_max=1))
    server_of = build_server(
        server.service,
        lambda _request: Caller(owner, TOOLSETS),
        gate=lambda principal: turns.turn(principal.organization_id),
    )
    async with Client(server_of) as client:
        async with turns.turn(owner.organization_id):
            waiting = asyncio.create_task(client.call_tool("list_conversations", {}))
            await anyio.wait_all_tasks_blocked()
            refused = await client.call_tool("list_conversations", {})
        answered = await waiting

    assert refused.is_error
    assert not answered.is_error
