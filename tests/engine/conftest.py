"""A store whose engines end with the test."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.engine.processes import PATIENCE_S, engines_of


@pytest.fixture
def home() -> Generator[Path]:
    """Yield the directory of a store whose engines are gone after the test.

    Its path is short, so that its sockets lie in it: those of stores with long paths share one directory
    of this user, which no test may change.
    """
    with tempfile.TemporaryDirectory(prefix="store-", ignore_cleanup_errors=True) as directory:
        yield Path(directory) / "store"
        for engine in engines_of(Path(directory)):
            engine.kill()
            engine.wait(PATIENCE_S)
