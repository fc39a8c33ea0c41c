"""Three PostgreSQL servers: one with the control tables, and two that are homes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
import pytest

from engram.clock import RandomIds, SystemClock
from engram.model.access import OrganizationDraft
from engram.model.ids import OrganizationId
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.citus import read_layout
from engram.storage.postgres.home_list import add_home
from engram.storage.postgres.logins import set_up_login
from engram.storage.postgres.relocation import HomeAccess, Mover, Outcome, Step
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.postgres.databases import as_login
from tests.postgres.servers import Server, running_servers
from tests.storage.drafts import ACTOR

_DATABASE = "engram"


@dataclass(frozen=True, slots=True)
class Installation:
    """A control database with two homes, each on a server of its own."""

    control: Server
    homes: Mapping[str, Server]

    @property
    def url(self) -> str:
        """The address that processes are given."""
        return url_for_servers(self.control)

    @property
    def servers(self) -> dict[str, Server]:
        """All servers, by what a move calls them."""
        return {"control": self.control, **self.homes}

    def rows(self, table: str, organization_id: OrganizationId) -> dict[str, int]:
        """Return how many rows of a table are where, of all numbers that an organisation has had."""
        statement = f"""SELECT count(*) FROM engram.{table} WHERE organization_id IN
            (SELECT organization_id FROM engram.meta WHERE public_id = %s)"""  # noqa: S608 a name of ours
        counts = {
            name: ask(server, statement, organization_id) for name, server in self.servers.items()
        }
        return {name: count for name, count in counts.items() if count}


def ask(server: Server, statement: str, *values: object) -> Any:
    """Return the only value of a statement on one of the servers."""
    ((value,),) = server.execute(statement, *values, database=_DATABASE)
    return value


def url_for_servers(server: Server) -> str:
    """Return the address for the user that owns nothing."""
    return as_login(server.socket_url(_DATABASE))


def new_database(server: Server, name: str = _DATABASE) -> str:
    """Make a database with empty tables; return its address for the user that owns nothing."""
    server.execute(f"CREATE DATABASE {name}")
    set_up_login(server.socket_url(name), login="engram_server", with_password=False)
    return as_login(server.socket_url(name))


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """Yield an installation with the homes `one` and `two`; its tests share it."""
    with running_servers() as servers:
        control, one, two = (servers.primary() for _ in range(3))
        for server in (control, one, two):
            new_database(server)
        made = Installation(control, {"one": one, "two": two})
        for name, server in made.homes.items():
            add_home(made.url, name, url_for_servers(server), clock=SystemClock())
        yield made


async def create(store: Store, *, home: str | None = "one") -> OrganizationStore:
    """Return the empty store of a new organisation at a home."""
    draft = OrganizationDraft(name="Acme", home=home)
    created = await store.control.create_organization(draft, actor=ACTOR)
    return await store.organization(created.id)


def move(
    installation: Installation,
    organization_id: OrganizationId,
    to: str,
    *,
    tell: Callable[[Step], None] = lambda _: None,
) -> Outcome:
    """Move an organisation to a home."""
    with closing(HomeAccess(installation.url)) as control:
        mover = Mover(control=control, clock=FakeClock(), ids=RandomIds(), tell=tell)
        return mover.move(organization_id, to)


@cache
def tenant_tables(url: str) -> tuple[str, ...]:
    """Return the tables of organisations."""
    with psycopg.connect(url) as driver:
        return read_layout(driver).tenant
