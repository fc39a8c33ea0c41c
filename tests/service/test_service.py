"""The use cases as transports find them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pytest

from engram.embedding.choice import NoEmbedder
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service

USE_CASES = [name for name, value in vars(Service).items() if isinstance(value, cached_property)]


@pytest.mark.parametrize("name", USE_CASES)
async def test_a_use_case_is_built_when_it_is_asked_for_and_once(name: str, tmp_path: Path) -> None:
    async with open_service(Settings(home=tmp_path, embedder=NoEmbedder())) as service:
        assert name not in vars(service)

        built = getattr(service, name)

        assert getattr(service, name) is built
        assert vars(service)[name] is built
