"""A service in this process on a real store, at a time of the test's choosing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engram.embedding.choice import NoEmbedder
from engram.model.access import Principal
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def service(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Service]:
    settings = Settings(home=tmp_path / "store", embedder=NoEmbedder())
    async with open_service(settings, clock=clock) as opened:
        yield opened


@pytest.fixture
async def principal(service: Service) -> Principal:
    return await service.access.local_principal()
