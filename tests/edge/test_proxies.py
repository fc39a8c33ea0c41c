"""Engram behind nginx and behind Caddy, with the files that the documentation gives."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import anyio
import httpx
import pytest

from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.settings import Settings
from tests.edge.proxies import NAME, Proxy, ProxyName, running_proxy
from tests.edge.wire import PATIENCE_S, status_of
from tests.mcp.connecting import INITIALIZE
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, new_key
from tests.serving import serving

PIECE = "0123456789 é🦝\x00\r\n".encode() * 50_000
PIECES = 20


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path / "store",
        embedder=NoEmbedder(),
        admin_token=ADMIN_TOKEN,
        allowed_hosts=(NAME,),
        rate_limit=0,
    )


@pytest.fixture(params=get_args(ProxyName))
async def proxied(
    request: pytest.FixtureRequest, settings: Settings, tmp_path: Path
) -> AsyncGenerator[tuple[Proxy, str]]:
    """A proxy and a key for the server behind it."""
    async with serving(create_app(settings)) as url:
        operator = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        async with httpx.AsyncClient(base_url=url, headers=operator) as direct:
            key = await new_key(direct)
        port = httpx.URL(url).port
        assert port is not None
        async with running_proxy(request.param, upstream_port=port, directory=tmp_path) as proxy:
            yield proxy, key


@pytest.fixture
async def client(proxied: tuple[Proxy, str]) -> AsyncGenerator[httpx.AsyncClient]:
    """A client that knows the proxy by its name."""
    proxy, key = proxied

    async def name_the_server(request: httpx.Request) -> None:
        request.extensions["sni_hostname"] = NAME

    async with httpx.AsyncClient(
        base_url=f"https://127.0.0.1:{proxy.port}",
        headers={"Host": NAME, "Authorization": f"Bearer {key}"},
        verify=proxy.trust,
        timeout=PATIENCE_S,
        event_hooks={"request": [name_the_server]},
    ) as opened:
        yield opened


async def test_an_mcp_client_calls_a_tool(client: httpx.AsyncClient) -> None:
    call: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "list_conversations", "arguments": {"format": "full"}},
    }

    started = await client.post("/mcp", json=INITIALIZE)
    called = await client.post("/mcp", json=call)

    assert started.json()["result"]["serverInfo"]["name"] == "engram"
    assert called.json()["result"]["structuredContent"]["total"] == 0


@promise("verbatim")
async def test_a_streamed_upload_comes_back_byte_for_byte(client: httpx.AsyncClient) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(PIECES):
            yield PIECE

    kind = {"Content-Type": "text/plain"}
    made = await client.post("/api/v1/documents", content=body(), headers=kind)
    digest = hashlib.sha256()
    async with client.stream("GET", f"/api/v1/documents/{made.json()['id']}") as download:
        async for chunk in download.aiter_bytes():
            digest.update(chunk)

    assert made.status_code == 201
    assert digest.digest() == hashlib.sha256(PIECE * PIECES).digest()


async def test_events_arrive_as_they_are_sent(client: httpx.AsyncClient) -> None:
    ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    async with client.stream("GET", "/sse") as stream:
        lines = stream.aiter_lines()
        with anyio.fail_after(PATIENCE_S):
            assert await anext(lines) == "event: endpoint"
            endpoint = (await anext(lines)).removeprefix("data: ")
            posted = await client.post(endpoint, json=ping)
            while not (line := await anext(lines)).startswith("data: "):
                pass

    assert posted.status_code == 202
    assert json.loads(line.removeprefix("data: "))["id"] == 7


async def test_a_request_for_another_host_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.get("/healthz", headers={"Host": "evil.example"})

    assert answer.status_code == 421


@pytest.mark.parametrize("path", ["/metrics", "/admin/organizations"])
async def test_the_operators_routes_stay_on_the_machine(
    client: httpx.AsyncClient, path: str
) -> None:
    answer = await client.get(path, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})

    assert answer.status_code == 404


async def test_a_body_above_every_bound_is_refused(proxied: tuple[Proxy, str]) -> None:
    proxy, key = proxied
    head = (
        f"POST /api/v1/messages HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\nContent-Length: 999000000\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", proxy.port, ssl=proxy.trust, server_hostname=NAME
    )
    sending = asyncio.create_task(_send(writer, head.encode()))
    try:
        with anyio.fail_after(PATIENCE_S):
            assert status_of(await reader.readline()) == 413
    finally:
        sending.cancel()
        writer.transport.abort()


async def _send(writer: asyncio.StreamWriter, head: bytes) -> None:
    """Send a body of 200 MB, as far as it is taken."""
    writer.write(head)
    with suppress(ConnectionError):
        for _ in range(3_000):
            writer.write(bytes(65_536))
            await writer.drain()


async def test_http_2_is_offered(proxied: tuple[Proxy, str], tmp_path: Path) -> None:
    proxy, _ = proxied
    offering = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
    offering.set_alpn_protocols(["h2"])

    _, writer = await asyncio.open_connection(
        "127.0.0.1", proxy.port, ssl=offering, server_hostname=NAME
    )
    chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    writer.transport.abort()

    assert chosen == "h2"
