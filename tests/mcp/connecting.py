"""How the tests start a server and connect to it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.mcp.server import Caller, build_server
from engram.mcp.tools import TOOLS_BY_NAME
from engram.model.access import TOOLSETS, KeyDraft, KeyScope, OrganizationDraft
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.serving import serving

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}

TransportName = Literal[
    "http",
    "http-handshake",
    "sse",
    "stdio",
    "stdio-handshake",
    "engine",
    "engine-handshake",
    "relay",
    "relay-handshake",
]
TRANSPORTS: tuple[TransportName, ...] = get_args(TransportName)
OF_THE_ENGINE = {"EMBEDDER": "none", "ENGINE_IDLE": "1"}
"""Settings with which a bridge finds the server; an engine that it started instead would end soon."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server in this process, a second process's view of its store, and a key for it."""

    url: str
    service: Service
    key: str
    home: Path

    async def new_organization(self, name: str) -> str:
        """Return a key of a new organisation."""
        _, made = await self.service.operator.create_organization(OrganizationDraft(name=name))
        return made.secret

    async def new_key(self, *scopes: KeyScope) -> str:
        """Return another key of the first organisation."""
        principal = await self.service.access.authenticate(self.key)
        made = await self.service.access.create_key(principal, KeyDraft(name="k", scopes=scopes))
        return made.secret


@asynccontextmanager
async def running_server(settings: Settings) -> AsyncGenerator[RunningServer]:
    """Serve the store of `settings`."""
    async with serving(create_app(settings)) as url, open_service(settings) as service:
        _, first = await service.operator.create_organization(OrganizationDraft(name="first"))
        yield RunningServer(url, service, first.secret, settings.home)


@asynccontextmanager
async def connect(
    transport: TransportName, server: RunningServer, *, home: Path
) -> AsyncGenerator[Client]:
    """Yield the SDK's client over `transport`; stdio opens the store of `home`.

    An engine is the server itself, through a bridge.
    """
    match transport:
        case "http":
            connecting = http_client(server.url, server.key)
        case "http-handshake":
            connecting = http_client(server.url, server.key, mode="legacy")
        case "sse":
            connecting = legacy_sse_client(server.url, server.key)
        case "stdio":
            connecting = Client(local_process(home))
        case "stdio-handshake":
            connecting = Client(local_process(home), mode="legacy")
        case "engine":
            connecting = Client(local_process(server.home, **OF_THE_ENGINE))
        case "engine-handshake":
            connecting = Client(local_process(server.home, **OF_THE_ENGINE), mode="legacy")
        case "relay":
            connecting = Client(relay_process(server.url, server.key))
        case "relay-handshake":
            connecting = Client(relay_process(server.url, server.key), mode="legacy")
    async with connecting as client:
        yield client


@asynccontextmanager
async def http_client(
    url: str, key: str | None, *, mode: str = "auto", query: str = ""
) -> AsyncGenerator[Client]:
    """Yield a client of `/mcp`."""
    async with httpx2.AsyncClient(headers=bearer(key), timeout=30) as http:
        transport = streamable_http_client(f"{url}/mcp{query}", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@asynccontextmanager
async def legacy_sse_client(url: str, key: str, *, query: str = "") -> AsyncGenerator[Client]:
    """Yield a client of `/sse`."""
    async with Client(
        sse_client(f"{url}/sse{query}", headers=bearer(key)), mode="legacy"
    ) as client:
        yield client


@asynccontextmanager
async def in_process_client(home: Path) -> AsyncGenerator[Client]:
    """Yield a client of a server in this process, without a transport between them."""
    settings = Settings(home=home, embedder=NoEmbedder())
    async with open_service(settings) as service:
        caller = Caller(await service.access.local_principal(), TOOLSETS)
        async with Client(build_server(service, lambda _request: caller)) as client:
            yield client


def local_process(home: Path, **settings: str) -> StdioServerParameters:
    """Return how to start `engram mcp` on a store of its own."""
    return _engram_mcp({"HOME": str(home), **settings})


def relay_process(url: str, key: str | None, **settings: str) -> StdioServerParameters:
    """Return how to start `engram mcp` as a relay."""
    return _engram_mcp({"URL": url, **({"API_KEY": key} if key else {}), **settings})


def engram_environment(settings: dict[str, str]) -> dict[str, str]:
    """Return an environment with these settings of Engram and no others, by default no engine."""
    own = {f"ENGRAM_{name}": value for name, value in {"ENGINE_IDLE": "0", **settings}.items()}
    # Sockets of stores with long paths lie among temporary files, which are the same for all processes.
    return get_default_environment() | {"TMPDIR": tempfile.gettempdir()} | own


def bearer(key: str | None) -> dict[str, str]:
    """Return the header that carries a key."""
    return {"Authorization": f"Bearer {key}"} if key else {}


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Return the structured answer of a tool that must succeed."""
    if TOOLS_BY_NAME[tool].is_lean:
        arguments["format"] = "full"
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the code and facts of a tool's error; the call must fail."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    facts = (result.meta or {})["engram/error"]
    assert text_of(result).startswith(facts["code"] + ": ")
    return facts


def text_of(result: CallToolResult) -> str:
    """Return the text of a result that has one part."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def _engram_mcp(settings: dict[str, str]) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "engram", "mcp"], env=engram_environment(settings)
    )
