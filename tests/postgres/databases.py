"""An empty PostgreSQL database for each test, on a server of this run."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from engram.storage.postgres.migrate import load_migrations, migrate
from tests.postgres.servers import Server, running_servers

_TEMPLATE = "engram_template"
_present: list[str] = []


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """Yield a running server; every test worker has its own, started in a second."""
    with running_servers() as servers:
        server = servers.primary()
        server.execute(f"CREATE DATABASE {_TEMPLATE}")
        with psycopg.connect(server.socket_url(_TEMPLATE), autocommit=True) as driver:
            migrate(driver, load_migrations())
        yield server


@pytest.fixture
def database_url(postgres_server: Server) -> Iterator[str]:
    """Yield the address of a database with empty tables."""
    name = "engram_test"
    postgres_server.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE} STRATEGY file_copy")
    _present.append(postgres_server.socket_url(name))
    yield _present[-1]
    _present.pop()
    postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def present_database() -> str:
    """Return the address of the database of the test that runs now."""
    return _present[-1]
