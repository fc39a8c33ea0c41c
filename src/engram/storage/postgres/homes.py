"""Homes: the databases that have the rows of organisations, each with a pool and threads of its own.

The control database is the first home, and knows the others. A home is opened and migrated when the
first of its organisations is used, so one that is away concerns its own organisations alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import psycopg

from engram import limits
from engram.errors import (
    ConfigurationError,
    EngramError,
    NotFoundError,
    StoreCorruptError,
    StoreUnavailableError,
)
from engram.storage.bookkeeping.audit import Announce
from engram.storage.postgres import connection as postgres
from engram.storage.postgres.changes import TimelineWatch
from engram.storage.postgres.database import PostgresDatabase, Replica
from engram.storage.postgres.logins import apply_migrations
from engram.storage.postgres.pool import Line, Pool
from engram.storage.postgres.transactions import ControlScope, RemovalScope, Scope
from engram.storage.postgres.vector_index import PostgresVectorIndex
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.threads import WorkerThreads
from engram.vectors.matrix_cache import MatrixCache

CONTROL = "control"
"""What the control database is called where a home has to have a name."""

_SQL = load_queries("postgres/homes.sql")
_ROWS = load_queries("postgres/organizations.sql")

_REMOVED_AT_ONCE = 10_000
"""Rows of a deleted organisation that are removed in one transaction: after a crash the rest is left."""

_SLOW_S = 1.0
_REST_S = 5.0
"""A home that took longer than `_SLOW_S` not to answer is left alone for `_REST_S`: threads that wait
for it are missing to requests that would be refused at once."""

logger = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where the rows of an organisation are."""

    number: int
    """That its rows have there."""
    home: str | None
    """None: in the control database."""
    url: str | None
    installation: str | None
    """The name of the installation, by which a home knows whose it is."""

    @property
    def claim(self) -> str | None:
        """What the home says of itself."""
        return None if self.home is None else claim_of(self.installation, self.home)


def claim_of(installation: str | None, name: str) -> str:
    """Return what a home says of itself: whose it is, and which."""
    return f"{installation} {name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeOptions:
    """What the homes of a process have in common."""

    connections_max: int
    statement_s: float
    announce: Announce | None
    matrices: MatrixCache
    forget: Callable[[], None]
    """Drops every cache of organisations: a server was replaced by its standby."""


class Home:
    """A database with rows of organisations, as this process uses it."""

    def __init__(
        self,
        url: str,
        options: HomeOptions,
        *,
        name: str | None = None,
        claim: str | None = None,
        direct_url: str | None = None,
        build_replica: Callable[[Pool], Replica | None] = lambda _: None,
    ) -> None:
        """Use the database at `url`; without a `name` it is the control database.

        With `direct_url`, `url` is that of a pooler in transaction mode, and what needs a session of its
        own goes past it: migrations, notifications and building indexes.
        """
        self.name = name
        self.address = postgres.complete(url)
        self._direct = self.address if direct_url is None else postgres.complete(direct_url)
        self._options = options
        self._claim = claim
        self._is_open = False
        pool_of = Pool if name is None else RestingPool
        self.timeline = TimelineWatch(options.forget)
        self.pool = pool_of(self.address, look=self.timeline.look, statement_s=options.statement_s)
        self._replica = build_replica(self.pool)
        # A thread uses one connection at a time.
        threads = options.connections_max - limits.DATABASE_CONNECTIONS_APART
        self.readers = WorkerThreads(threads - threads // 2)
        self._writers = WorkerThreads(threads // 2)
        self.connect = partial(postgres.connect, self._direct)
        self.vectors = PostgresVectorIndex(
            options.matrices, connect=self.connect, threads=self.readers
        )
        self.control = self.database_of(ControlScope())
        """Its control tables; those of the control database are everybody's."""

    def database_of(self, scope: Scope) -> PostgresDatabase:
        """Return the rows of a scope."""
        return PostgresDatabase(
            scope,
            pool=self.pool,
            readers=self.readers,
            writers=self._writers,
            announce=self._options.announce,
            replica=self._replica,
        )

    async def open(self) -> None:
        """Migrate the database, and check that it is the one it should be; later calls do nothing.

        Raises:
            StoreUnavailableError: a home that is not the control database cannot be used now.
            StoreCorruptError: its address leads to another database.
        """
        if self._is_open:
            return
        try:
            await self.readers.run(partial(apply_migrations, self._direct))
        except ConfigurationError as exc:
            if self.name is None:
                raise
            logger.exception("the home %s cannot be used", self.name)
            raise StoreUnavailableError from exc
        _, found = await self.control.read(read_roles)
        if found != self._claim:
            raise self._mistaken()
        self._is_open = True

    def _mistaken(self) -> EngramError:
        if self.name is None:
            return ConfigurationError(
                "ENGRAM_DATABASE_URL", "is a home of another database: use the address of that one"
            )
        return StoreCorruptError(f"the address of the home '{self.name}' leads to another database")

    async def ping(self) -> None:
        """Read from the database.

        Raises:
            StorageError: it cannot be used.
        """
        await self.open()
        await self.control.read(read_roles)

    async def remove_rows(self) -> None:
        """Remove the rows of organisations that were deleted or moved away."""
        for number in await self.control.read(_list_removals):
            database = self.database_of(RemovalScope(number))
            await self.vectors.drop(number)
            # Raised when another process has removed them.
            with suppress(NotFoundError):
                while await database.write(partial(remove_some, number=number)):
                    pass

    def close(self) -> None:
        """Finish pending work and close every connection; blocks until then."""
        self._writers.stop()
        self.readers.stop()
        self.pool.close()
        if self._replica is not None:
            self._replica.close()


class RestingPool(Pool):
    """Pool that refuses at once for a while after a server took long not to answer."""

    _rests_until = 0.0

    def _open(self) -> Line:
        began = monotonic()
        if began < self._rests_until:
            raise psycopg.OperationalError("the server did not answer a moment ago")
        try:
            return super()._open()
        except psycopg.OperationalError:
            if monotonic() - began > _SLOW_S:
                self._rests_until = monotonic() + _REST_S
            raise


class Homes:
    """The homes that this process has used."""

    def __init__(self, control: Home, options: HomeOptions) -> None:
        self.control = control
        self._options = options
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Home] = {}

    def find(self, place: Place) -> Home:
        """Return the home of a place."""
        if place.home is None or place.url is None:
            return self.control
        with self._lock:
            key = (place.home, place.url)
            if key not in self._known:
                self._known[key] = Home(
                    place.url, self._options, name=place.home, claim=place.claim
                )
            return self._known[key]

    async def open(self, place: Place) -> Home:
        """Return the home of a place, ready for use.

        Raises:
            StorageError: it cannot be used.
        """
        home = self.find(place)
        if home is not self.control:
            await home.open()
        return home

    async def list_places(self) -> list[Place]:
        """Return where the homes beside the control database are; their numbers mean nothing."""
        return await self.control.control.read(list_places)

    def close(self) -> None:
        """Finish pending work and close every connection; blocks until then."""
        for home in (*self._known.values(), self.control):
            home.close()


def read_roles(connection: Connection) -> tuple[str | None, str | None]:
    """Return the name of the installation of a database, and whose home it is."""
    return connection.execute(_SQL["get_roles"]).fetchone()


def list_places(connection: Connection) -> list[Place]:
    """Return where the homes of an installation are, by name."""
    installation, _ = read_roles(connection)
    return [
        Place(0, name, url, installation)
        for name, url, _ in connection.execute(_SQL["list_homes"]).fetchall()
    ]


def remove_some(connection: Connection, *, number: int) -> bool:
    """Remove some rows of an organisation; return False when none were left."""
    values = {"organization_id": number, "limit": _REMOVED_AT_ONCE}
    for (name,) in connection.execute(_ROWS["tenant_tables"]).fetchall():
        # The seal of one that was moved stays, for processes that know this home alone.
        condition = "AND moved_to IS NULL" if name == "meta" else ""
        statement = _ROWS["delete_some_rows"].replace("/*table*/", name)
        if connection.execute(statement.replace("/*condition*/", condition), values).rowcount:
            return True
    connection.execute(_ROWS["finish_removal"], values)
    return False


def _list_removals(connection: Connection) -> list[Any]:
    return [number for (number,) in connection.execute(_ROWS["list_removals"])]
