"""The real models, which `make` installs; a missing one fails the tests that need it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from engram.clock import SystemClock
from engram.embedding.files import ModelFiles
from engram.embedding.port import Embedder
from engram.embedding.tiers import Tiers
from engram.settings import Settings, load_settings
from engram.wiring import build_embedders


@pytest.fixture(scope="session")
def settings() -> Settings:
    """Return the settings with which `make` installed the models."""
    return load_settings({"embedder": "local"})


@pytest.fixture(scope="session")
def files(settings: Settings) -> ModelFiles:
    """Return the directory of the real models."""
    return ModelFiles(settings.model_dir)


@pytest.fixture(scope="session")
def tiers(settings: Settings) -> Iterator[Tiers]:
    """Return the embedders of the default choice."""
    tiers = build_embedders(settings, clock=SystemClock())
    yield tiers
    asyncio.run(tiers.close())


@pytest.fixture
def arctic(tiers: Tiers) -> Embedder:
    """Return the deep embedder."""
    assert tiers.deep is not None
    return tiers.deep


@pytest.fixture
def potion(tiers: Tiers) -> Embedder:
    """Return the instant embedder."""
    assert tiers.instant is not None
    return tiers.instant


@pytest.fixture(params=["arctic", "potion"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    """Return each of the real embedders in turn."""
    return request.getfixturevalue(request.param)
