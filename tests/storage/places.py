"""Where the store of a test is: a directory or a database, told to every process in one word."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.clock import Clock, RandomIds
from engram.storage.postgres.store import PostgresStore
from engram.storage.sqlite.store import SqliteStore
from engram.storage.store import Store
from tests.postgres.further_stores import direct_url

DATABASES = {"postgres": "database_url", "home": "home_url", "pooler": "pooler_url"}
"""The fixtures of the databases that a store may be in."""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where an empty store of each backend is."""
    if request.param == "sqlite":
        return str(tmp_path / "store")
    return request.getfixturevalue(DATABASES[request.param])


def is_database(place: str) -> bool:
    """Say whether a place is the address of a database."""
    return place.startswith("postgresql://")


def store_at(place: str, *, clock: Clock) -> Store:
    """Return the store of a place, not opened yet."""
    if is_database(place):
        return PostgresStore(place, clock=clock, ids=RandomIds(), direct_url=direct_url())
    return SqliteStore(Path(place), clock=clock, ids=RandomIds())
