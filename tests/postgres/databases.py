"""An empty PostgreSQL database for each test, on a server of this run.

Tests get the address of a user that owns nothing, as servers should have it; `as_owner` turns it into
that of the superuser, for what servers never do.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engram.storage.postgres.logins import set_up_login
from tests.postgres.servers import Server, running_servers

_TEMPLATE = "engram_template"
LOGIN = "engram_server"
_present: list[str] = []


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """Yield a running server; every test worker has its own, started in a second."""
    with running_servers() as servers:
        server = servers.primary()
        server.execute(f"CREATE DATABASE {_TEMPLATE}")
        set_up_login(server.socket_url(_TEMPLATE), login=LOGIN, with_password=False)
        yield server


@pytest.fixture
def database_url(postgres_server: Server) -> Iterator[str]:
    """Yield the address of a database with empty tables, for a user that owns none of them."""
    name = "engram_test"
    postgres_server.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE} STRATEGY file_copy")
    _present.append(as_login(postgres_server.socket_url(name)))
    yield _present[-1]
    _present.pop()
    postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def present_database() -> str:
    """Return the address of the database of the test that runs now."""
    return _present[-1]


def as_login(url: str) -> str:
    """Return the address of the same database for the user that owns nothing."""
    return url.replace("user=postgres", f"user={LOGIN}")


def as_owner(url: str) -> str:
    """Return the address of the same database for the superuser."""
    return url.replace(f"user={LOGIN}", "user=postgres")
