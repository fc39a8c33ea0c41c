"""A store whose engines end with the test."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.engine.processes import PATIENCE_S, engines_of


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    """Yield the directory of a store whose engines are gone after the test."""
    yield tmp_path / "store"
    for engine in engines_of(tmp_path):
        engine.kill()
        engine.wait(PATIENCE_S)
