"""Databases of which the storage contract knows nothing: at a second home, and behind a pooler."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from engram.clock import SystemClock
from engram.storage.postgres.home_list import add_home
from tests.postgres import databases
from tests.postgres.homes import new_database
from tests.postgres.pooler import Pooler, running_pooler
from tests.postgres.servers import Server, running_servers

DIRECT_URL = "ENGRAM_TEST_DIRECT_URL"
"""The variable by which processes of a test are told the way past a pooler."""

_NAME, _TEMPLATE = "engram_test", "engram_template"
_AT_HOME = "ALTER TABLE engram.organization ALTER COLUMN home SET DEFAULT 'second'"
_SESSIONS = 6
"""More than the tests of a pooler have: some tests keep several transactions open."""


def direct_url() -> str | None:
    """Return the address past the pooler of the present test; None if it has none."""
    return os.environ.get(DIRECT_URL)  # noqa: TID251 - of the test run


@pytest.fixture(scope="session")
def second_server() -> Iterator[Server]:
    """Yield a running server for the rows of organisations."""
    with running_servers() as servers:
        server = servers.primary()
        new_database(server, _TEMPLATE)
        yield server


@pytest.fixture
def home_url(
    database_url: str,
    postgres_server: Server,
    second_server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """Yield the address of a database without organisations, whose new ones are at a second home."""
    second_server.execute(f"CREATE DATABASE {_NAME} TEMPLATE {_TEMPLATE} STRATEGY file_copy")
    home = databases.as_login(second_server.socket_url(_NAME))
    add_home(database_url, "second", home, clock=SystemClock())
    postgres_server.execute(_AT_HOME, database=_NAME)
    # Where tests look at rows, and damage them.
    monkeypatch.setattr(databases, "_present", [home])
    yield database_url
    second_server.execute(f"DROP DATABASE {_NAME} WITH (FORCE)")


@pytest.fixture(scope="session")
def session_pooler(
    postgres_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pooler]:
    """Yield a pooler in transaction mode in front of the server."""
    directory = tmp_path_factory.mktemp("pooler")
    with running_pooler(postgres_server, directory, sessions=_SESSIONS) as pooler:
        yield pooler


@pytest.fixture
def pooler_url(
    database_url: str, session_pooler: Pooler, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield the address through a pooler of a database without organisations."""
    monkeypatch.setenv(DIRECT_URL, database_url)
    yield session_pooler.url(_NAME)
    session_pooler.drop_sessions(_NAME)
