"""Run tests of PostgreSQL on organisations that are at a second home, on a server of its own.

    python -m pytest -p tests.postgres.at_home tests/storage -k postgres

It doubles the databases of each test, so it is not part of `make test`, which runs a part of them
(`test_homes.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engram.clock import SystemClock
from engram.storage.postgres.home_list import add_home
from tests.postgres import databases
from tests.postgres.homes import new_database
from tests.postgres.servers import Server, Servers, running_servers

_NAME, _TEMPLATE = "engram_test", "engram_template"
_AT_HOME = "ALTER TABLE engram.organization ALTER COLUMN home SET DEFAULT 'second'"


@pytest.fixture(scope="session")
def two_servers() -> Iterator[tuple[Server, Server]]:
    """Yield running servers: that of the control database, and that of the home."""
    with running_servers() as servers:
        yield _prepared(servers), _prepared(servers)


def _prepared(servers: Servers) -> Server:
    server = servers.primary()
    new_database(server, _TEMPLATE)
    return server


@pytest.fixture(scope="session")
def postgres_server(two_servers: tuple[Server, Server]) -> Server:
    """Return the server of the control database."""
    return two_servers[0]


@pytest.fixture
def database_url(
    two_servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield the address of a database without organisations, whose new ones are at a home."""
    for server in two_servers:
        server.execute(f"CREATE DATABASE {_NAME} TEMPLATE {_TEMPLATE} STRATEGY file_copy")
    control, home = (databases.as_login(server.socket_url(_NAME)) for server in two_servers)
    add_home(control, "second", home, clock=SystemClock())
    two_servers[0].execute(_AT_HOME, database=_NAME)
    # Where tests look at rows, and damage them.
    monkeypatch.setattr(databases, "_present", [home])
    yield control
    for server in two_servers:
        server.execute(f"DROP DATABASE {_NAME} WITH (FORCE)")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Take the places of the fixtures that all tests get theirs from."""
    databases.postgres_server = postgres_server
    databases.database_url = database_url
