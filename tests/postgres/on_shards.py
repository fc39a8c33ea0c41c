"""Run tests of PostgreSQL on databases that are spread over two others.

    python -m pytest -p tests.postgres.on_shards tests/storage -k postgres

It takes half an hour, so it is not part of `make test`. Tests that damage rows in a way that shards
refuse fail.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engram.storage.postgres.sharding import shard
from tests.postgres import databases
from tests.postgres.servers import Server, running_servers

_COORDINATOR, *_SHARDS = _NAMES = ("engram_test", "engram_shard_0", "engram_shard_1")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """Yield a running server with the templates of three databases."""
    with running_servers() as servers:
        server = servers.primary()
        for name in _NAMES:
            server.execute(f"CREATE DATABASE {name}")
        shard(server.url(_COORDINATOR), [server.url(name) for name in _SHARDS])
        for name in _NAMES:
            server.execute(f"ALTER DATABASE {name} RENAME TO {name}_template")
        yield server


@pytest.fixture
def database_url(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a database with empty tables, all of them on others."""
    for name in _NAMES:
        postgres_server.execute(f"CREATE DATABASE {name} TEMPLATE {name}_template")
    postgres_server.execute(f"ALTER DATABASE {_COORDINATOR} SET enable_partitionwise_join = on")
    url = postgres_server.socket_url(_COORDINATOR)
    monkeypatch.setattr(databases, "_present", [url])
    yield url
    for name in _NAMES:
        postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Take the places of the fixtures that all tests get theirs from."""
    databases.postgres_server = postgres_server
    databases.database_url = database_url
