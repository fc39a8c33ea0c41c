"""A PostgreSQL database as the source or the target of a move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from engram.clock import Clock, IdSource
from engram.errors import ConflictError
from engram.model.ids import OrganizationId
from engram.storage.migrations import refuse_newer
from engram.storage.moving.ports import Keeping
from engram.storage.postgres.address import complete
from engram.storage.postgres.database import PostgresDatabase
from engram.storage.postgres.logins import bring_forward, read_version
from engram.storage.postgres.migrate import load_migrations
from engram.storage.postgres.pool import Pool
from engram.storage.postgres.transactions import ControlScope, OrganizationScope, Scope, choose
from engram.storage.postgres.word_index import PostingWordIndex
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant
from engram.storage.threads import WorkerThreads

_SQL = load_queries("postgres/moving.sql")
_ORGANIZATIONS = load_queries("postgres/organizations.sql")
_THREADS = 2


class _Databases:
    """The scopes of one database."""

    def __init__(self, url: str) -> None:
        self._address = complete(url)
        self._pool = Pool(self._address)
        self._threads = WorkerThreads(_THREADS)
        self.control = self.of(ControlScope())

    def of(self, scope: Scope) -> PostgresDatabase:
        """Return the database of a scope."""
        return PostgresDatabase(
            scope, pool=self._pool, readers=self._threads, writers=self._threads
        )

    async def open(self, prepare: Callable[[str], None]) -> None:
        """Connect, once `prepare` has seen to the database at this address."""
        await asyncio.to_thread(prepare, self._address)

    async def close(self) -> None:
        """Finish what was begun and close every connection."""
        await asyncio.to_thread(self._threads.stop)
        await asyncio.to_thread(self._pool.close)


class PostgresSource:
    """The `Source` of a database."""

    def __init__(self, url: str) -> None:
        self._databases = _Databases(url)

    @property
    def control(self) -> PostgresDatabase:
        return self._databases.control

    async def open(self) -> None:
        """Connect to a database that is as this program expects it.

        Raises:
            ConflictError: there are no tables of Engram in it, or older ones.
            StoreNewerError: a newer program made them.
        """
        await self._databases.open(_check_version)

    async def close(self) -> None:
        """Close every connection."""
        await self._databases.close()

    @asynccontextmanager
    async def organization(
        self, number: int, organization_id: OrganizationId
    ) -> AsyncGenerator[PostgresDatabase | None]:
        has_rows = await self.control.read(partial(_has_rows, number=number))
        scope = OrganizationScope(number, organization_id)
        yield self._databases.of(scope) if has_rows else None


class PostgresTarget:
    """The `Target` of a database."""

    def __init__(self, url: str, *, clock: Clock, ids: IdSource) -> None:
        self._databases = _Databases(url)
        self._clock = clock
        self._ids = ids
        self._is_new = False

    @property
    def control(self) -> PostgresDatabase:
        return self._databases.control

    @property
    def is_new(self) -> bool:
        return self._is_new

    @property
    def keeping(self) -> Keeping:
        return Keeping(text=False, nul=False)

    async def open(self, *, only_look: bool = False) -> None:
        """Make the tables, or bring them forward; not to `only_look`.

        Raises:
            ConflictError: they would have to be brought forward before one can look.
        """
        await self._databases.open(self._look if only_look else bring_forward)

    async def close(self) -> None:
        """Finish what was begun and close every connection."""
        await self._databases.close()

    @asynccontextmanager
    async def organization(
        self, number: int, organization_id: OrganizationId
    ) -> AsyncGenerator[Tenant]:
        await self.control.write(
            partial(_make_ready, number=number, organization_id=organization_id)
        )
        yield Tenant(
            number=number,
            id=organization_id,
            database=self._databases.of(OrganizationScope(number, organization_id)),
            words=PostingWordIndex(),
            clock=self._clock,
            ids=self._ids,
        )

    def _look(self, address: str) -> None:
        self._is_new = not read_version(address)
        if not self._is_new:
            _check_version(address)

    async def skip_numbers(self, tenant: Tenant, numbers: Mapping[str, int]) -> None:
        # Numbers are of all organisations, so whoever acts for one of them may not set them.
        del tenant
        await self.control.write(partial(_skip_numbers, numbers=numbers))


def _check_version(address: str) -> None:
    steps, version = load_migrations(), read_version(address)
    refuse_newer(version, steps)
    if not version:
        raise ConflictError("there is no store in this database")
    if version < len(steps):
        raise ConflictError("the store was written by an older Engram: run `engram doctor` first")


def _has_rows(connection: Connection, *, number: int) -> bool:
    choose(connection, number)
    values = {"organization_id": number}
    return connection.execute(_ORGANIZATIONS["find_meta"], values).fetchone() is not None


def _make_ready(connection: Connection, *, number: int, organization_id: OrganizationId) -> None:
    """Add the first rows of an organisation, unless they are there."""
    if not _has_rows(connection, number=number):
        values = {"organization_id": number, "public_id": organization_id}
        connection.execute(_ORGANIZATIONS["add_meta"], values)
        connection.execute(_ORGANIZATIONS["add_word_index"], values)


def _skip_numbers(connection: Connection, *, numbers: Mapping[str, int]) -> None:
    for table, number in numbers.items():
        connection.execute(_SQL["skip_numbers"], {"table": table, "number": number})
