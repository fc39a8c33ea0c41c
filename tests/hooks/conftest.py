from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engram.embedding.choice import NoEmbedder
from engram.engine.hooks import Hooks
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.hooks.sessions import Sessions


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "store", embedder=NoEmbedder())


@pytest.fixture
async def service(settings: Settings, clock: FakeClock) -> AsyncIterator[Service]:
    async with open_service(settings, clock=clock) as opened:
        yield opened


@pytest.fixture
def sessions(service: Service, settings: Settings, clock: FakeClock, tmp_path: Path) -> Sessions:
    """Return sessions of Claude Code on an empty store."""
    return Sessions(service, Hooks(service, settings, clock=clock), settings, tmp_path, clock)
