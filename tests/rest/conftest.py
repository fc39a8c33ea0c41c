"""A real application on a real store, and the clients of two organisations and of the operator."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from engram.embedding.choice import NoEmbedder
from engram.http.asgi import Application, create_app
from engram.settings import Settings
from tests.fakes import FakeClock
from tests.rest.calls import ADMIN_TOKEN, connect, new_key


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path / "store", embedder=NoEmbedder(), admin_token=ADMIN_TOKEN, rate_limit=0
    )


@pytest.fixture
async def app(settings: Settings, clock: FakeClock) -> AsyncGenerator[Application]:
    application = create_app(settings, clock=clock)
    async with application.lifespan():
        yield application


@pytest.fixture
async def anybody(app: Application) -> AsyncGenerator[httpx.AsyncClient]:
    """A client without a credential."""
    async with connect(app) as client:
        yield client


@pytest.fixture
async def operator(app: Application) -> AsyncGenerator[httpx.AsyncClient]:
    async with connect(app, ADMIN_TOKEN) as client:
        yield client


@pytest.fixture
async def api(app: Application, operator: httpx.AsyncClient) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of an organisation of its own, with every scope."""
    async with connect(app, await new_key(operator)) as client:
        yield client


@pytest.fixture
async def stranger(
    app: Application, operator: httpx.AsyncClient
) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of another organisation."""
    async with connect(app, await new_key(operator)) as client:
        yield client
