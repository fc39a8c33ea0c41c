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
from engram.storage.postgres.connection import complete
from engram.storage.postgres.database import PostgresDatabase
from engram.storage.postgres.logins import apply_migrations, read_version
from engram.storage.postgres.migrate import load_migrations
from engram.storage.postgres.organizations import add_first_rows, has_first_rows, place_of
from engram.storage.postgres.pool import Pool
from engram.storage.postgres.transactions import ControlScope, OrganizationScope, Scope
from engram.storage.postings.block_index import BlockWordIndex
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant
from engram.storage.threads import WorkerThreads

_SQL = load_queries("postgres/move.sql")
_THREADS = 2


class _Endpoint:
    """What source and target share: the pool and the databases of its scopes."""

    def __init__(self, url: str) -> None:
        self._address = complete(url)
        self._pool = Pool(self._address)
        self._threads = WorkerThreads(_THREADS)
        self._control = self.database_of(ControlScope())

    @property
    def control(self) -> PostgresDatabase:
        return self._control

    async def close(self) -> None:
        """Finish pending work and close every connection."""
        await asyncio.to_thread(self._threads.stop)
        await asyncio.to_thread(self._pool.close)

    async def _prepare(self, prepare: Callable[[str], None]) -> None:
        await asyncio.to_thread(prepare, self._address)

    def database_of(self, scope: Scope) -> PostgresDatabase:
        """Return the rows of a scope."""
        return PostgresDatabase(
            scope, pool=self._pool, readers=self._threads, writers=self._threads
        )


class PostgresSource(_Endpoint):
    """The `Source` of a database."""

    can_seal = False

    async def seal(
        self, number: int, organization_id: OrganizationId, *, moved_to: str | None
    ) -> None:
        """Do nothing: the organisation can still be written here."""

    async def open(self) -> None:
        """Check that the database has a store of this version.

        Raises:
            ConflictError: it has no tables of Engram, or older ones.
            StoreNewerError: a newer program created them.
        """
        await self._prepare(_check_version)

    @asynccontextmanager
    async def organization(
        self, number: int, organization_id: OrganizationId
    ) -> AsyncGenerator[PostgresDatabase | None]:
        place = await self.control.read(partial(place_of, organization_id=organization_id))
        async with self._at(place.url) as home:
            has_rows = await home.control.read(partial(has_first_rows, number=number))
            scope = OrganizationScope(number, organization_id)
            yield home.database_of(scope) if has_rows else None

    @asynccontextmanager
    async def _at(self, url: str | None) -> AsyncGenerator[_Endpoint]:
        """Open the home of an organisation; None is this database."""
        if url is None:
            yield self
            return
        home = _Endpoint(url)
        try:
            yield home
        finally:
            await home.close()


class PostgresTarget(_Endpoint):
    """The `Target` of a database."""

    def __init__(self, url: str, *, clock: Clock, ids: IdSource) -> None:
        super().__init__(url)
        self._clock = clock
        self._ids = ids
        self._is_new = False

    @property
    def is_new(self) -> bool:
        return self._is_new

    @property
    def is_sqlite(self) -> bool:
        return False

    async def open(self, *, only_look: bool = False) -> None:
        """Create or migrate the tables; with `only_look`, only read them.

        Raises:
            ConflictError: `only_look`, and the tables are of an older Engram.
        """
        await self._prepare(self._look if only_look else apply_migrations)

    @asynccontextmanager
    async def organization(
        self, number: int, organization_id: OrganizationId
    ) -> AsyncGenerator[Tenant]:
        await self.control.write(partial(add_first_rows, number=number, public_id=organization_id))
        yield Tenant(
            number=number,
            id=organization_id,
            database=self.database_of(OrganizationScope(number, organization_id)),
            words=BlockWordIndex(),
            clock=self._clock,
            ids=self._ids,
        )

    async def skip_numbers(self, tenant: Tenant, numbers: Mapping[str, int]) -> None:
        # Sequences are shared by all organisations, so the role of one of them may not set them.
        del tenant

        def skip(connection: Connection) -> None:
            for table, number in numbers.items():
                skip_numbers(connection, table=table, number=number)

        await self.control.write(skip)

    def _look(self, address: str) -> None:
        self._is_new = not read_version(address)
        if not self._is_new:
            _check_version(address)


def skip_numbers(connection: Connection, *, table: str, number: int) -> None:
    """Have a numbered table assign only numbers above this one; in a transaction on the control tables."""
    connection.execute(_SQL["skip_numbers"], {"table": table, "number": number})


def _check_version(address: str) -> None:
    steps, version = load_migrations(), read_version(address)
    refuse_newer(version, steps)
    if not version:
        raise ConflictError("there is no store in this database")
    if version < len(steps):
        raise ConflictError("the store was written by an older Engram: run `engram upgrade` first")
