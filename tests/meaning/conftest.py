"""Where the stores are whose processes are killed."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where an empty store of each backend is."""
    if request.param == "sqlite":
        return str(tmp_path / "store")
    return request.getfixturevalue("database_url")
