"""Three PostgreSQL servers: one that knows where organisations are, and two that keep them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from engram.model.ids import OrganizationId
from engram.storage.postgres.sharding import shard
from tests.postgres.servers import Server, running_servers

_DATABASE = "engram"


@dataclass(frozen=True, slots=True)
class SpreadServers:
    """An installation over several servers."""

    coordinator: Server
    shards: Sequence[Server]

    @property
    def url(self) -> str:
        """The address that Engram is given."""
        return self.coordinator.url(_DATABASE)

    @property
    def shard_urls(self) -> list[str]:
        """The addresses that the coordinator is given."""
        return [server.url(_DATABASE) for server in self.shards]

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
            server.execute(f"CREATE DATABASE {_DATABASE}")
        installation = SpreadServers(coordinator, shards)
        shard(installation.url, installation.shard_urls)
        yield installation
