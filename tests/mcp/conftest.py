"""A real server on a loopback port, and the SDK's client over every transport and era."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client

from engram.embedding.choice import NoEmbedder
from engram.settings import Settings
from tests.mcp.connecting import (
    TRANSPORTS,
    RunningServer,
    TransportName,
    connect,
    running_server,
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with one organisation."""
    settings = Settings(home=tmp_path / "server", embedder=NoEmbedder(), rate_limit=0)
    async with running_server(settings) as running:
        yield running


@pytest.fixture(params=TRANSPORTS)
async def client(
    request: pytest.FixtureRequest, server: RunningServer, tmp_path: Path
) -> AsyncIterator[Client]:
    """The SDK's client on each transport, in each era it has."""
    transport: TransportName = request.param
    async with connect(transport, server, home=tmp_path / "local") as connected:
        yield connected


@pytest.fixture(params=["http", "http-handshake"])
async def over_http(
    request: pytest.FixtureRequest, server: RunningServer, tmp_path: Path
) -> AsyncIterator[Client]:
    """The SDK's client over HTTP, in both eras."""
    transport: TransportName = request.param
    async with connect(transport, server, home=tmp_path / "local") as connected:
        yield connected
