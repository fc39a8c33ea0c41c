"""Three PostgreSQL servers: one that knows where organisations are, and two that keep them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from engram.model.ids import OrganizationId
from engram.storage.postgres.sharding import shard
from tests.postgres.servers import Server, running_servers, wait_until

_DATABASE = "engram"
_OWNER, _PASSWORD = "owner", "hush"

_ASK_FOR_PASSWORDS = f"""
DO $$
BEGIN
    EXECUTE format(
        'COPY (SELECT ''host all {_OWNER} 127.0.0.1/32 scram-sha-256'' '
        'UNION ALL SELECT ''host all all 127.0.0.1/32 trust'') TO %L',
        current_setting('hba_file'));
    PERFORM pg_reload_conf();
END
$$
"""


@dataclass(frozen=True, slots=True)
class SpreadServers:
    """An installation over several servers."""

    coordinator: Server
    shards: Sequence[Server]

    @property
    def url(self) -> str:
        """The address that Engram is given."""
        return _url_of(self.coordinator)

    @property
    def shard_urls(self) -> list[str]:
        """The addresses that the coordinator is given."""
        return [_url_of(server) for server in self.shards]

    def number_of(self, organization_id: OrganizationId) -> int:
        """Return the number that an organisation's rows have."""
        statement = "SELECT number FROM engram.organization WHERE organization_id = %s"
        ((number,),) = self.coordinator.execute(statement, organization_id, database=_DATABASE)
        return number

    def counts(self, table: str, organization_id: OrganizationId) -> list[int]:
        """Return how many rows of a table each server keeps for an organisation."""
        number = self.number_of(organization_id)
        statement = f"SELECT count(*) FROM engram.{table} WHERE organization_id = %s"  # noqa: S608 a name of ours
        return [self.ask(server, statement, number) for server in self.shards]

    def shard_of(self, organization_id: OrganizationId) -> Server:
        """Return the server that keeps an organisation."""
        return self.shards[self.counts("meta", organization_id).index(1)]

    def ask(self, server: Server, statement: str, *values: object) -> Any:
        """Return the only value of a statement on one of the servers."""
        ((value,),) = server.execute(statement, *values, database=_DATABASE)
        return value


@pytest.fixture(scope="module")
def spread() -> Iterator[SpreadServers]:
    """Yield an installation without organisations; its tests share it."""
    with running_servers() as servers:
        coordinator, *shards = (servers.primary() for _ in range(3))
        for server in (coordinator, *shards):
            _set_up(server)
        grant = f"GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO {_OWNER}"
        coordinator.execute("CREATE EXTENSION postgres_fdw", database=_DATABASE)
        coordinator.execute(grant, database=_DATABASE)
        installation = SpreadServers(coordinator, shards)
        shard(installation.url, installation.shard_urls)
        yield installation


def _set_up(server: Server) -> None:
    """Make a database whose owner is not a superuser and needs a password."""
    server.execute(f"CREATE ROLE {_OWNER} LOGIN CREATEROLE PASSWORD '{_PASSWORD}'")
    server.execute(f"CREATE DATABASE {_DATABASE} OWNER {_OWNER}")
    server.execute("CREATE EXTENSION vector", database=_DATABASE)
    server.execute(_ASK_FOR_PASSWORDS)
    wait_until(lambda: not _is_let_in(server), what=f"{server.name} to ask for passwords")


def _is_let_in(server: Server) -> bool:
    try:
        psycopg.connect(_url_of(server, password="wrong")).close()
    except psycopg.OperationalError:
        return False
    return True


def _url_of(server: Server, *, password: str = _PASSWORD) -> str:
    return f"postgresql://{_OWNER}:{password}@127.0.0.1:{server.port}/{_DATABASE}"
