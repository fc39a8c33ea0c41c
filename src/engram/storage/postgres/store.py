"""The store of a PostgreSQL database, shared by any number of processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from engram import limits
from engram.clock import Clock, IdSource
from engram.errors import NotFoundError, StorageError
from engram.model.changes import Change, WorkAdded
from engram.model.ids import OrganizationId
from engram.model.vectors import Tier
from engram.storage.bookkeeping.audit import Announce
from engram.storage.control.store import ControlStore
from engram.storage.organization import OrganizationStore
from engram.storage.postgres import connection as postgres
from engram.storage.postgres import transactions
from engram.storage.postgres.changes import Changes, TimelineWatch, tell_keys
from engram.storage.postgres.connection import Driver, Pool
from engram.storage.postgres.database import PostgresDatabase, Replica
from engram.storage.postgres.logins import apply_migrations
from engram.storage.postgres.transactions import OrganizationScope, RemovalScope, Scope, choose
from engram.storage.postgres.word_index import PostingWordIndex
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.store import OpenOrganizations
from engram.storage.tenant import Tenant, Transaction
from engram.storage.threads import WorkerThreads
from engram.storage.vectors.embedders import Embedders, StoredEmbedder
from engram.storage.vectors.index import ComparedVectors, StoredVectors
from engram.vectors.matrix_cache import MatrixCache, VectorChanges, VectorSource

_SQL = load_queries("postgres/organizations.sql")

logger = logging.getLogger(__name__)


class PostgresStore:
    """The `Store` of a database."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        ids: IdSource,
        vector_bytes_max: int = limits.VECTOR_BYTES_MAX,
        read_url: str | None = None,
        staleness_s: float = 0.0,
        announce: Announce | None = None,
        statement_s: float = limits.STATEMENT_S,
    ) -> None:
        """Use the database at `url`, where a statement may take `statement_s` seconds.

        With `read_url`, organisations are read from that replica when it is recent enough: at most
        `staleness_s` seconds old, and never older than what this process has written. `announce` is
        called with the audit rows that this process has stored.
        """
        self._address = postgres.complete(url)
        self._announce = announce
        self._clock = clock
        self._ids = ids
        self._pool = Pool(
            self._address, look=TimelineWatch(self._forget).look, statement_s=statement_s
        )
        self._replica = None
        if read_url is not None:
            reading = Pool(postgres.complete_reading(read_url), statement_s=statement_s)
            self._replica = Replica(reading, primary=self._pool, staleness_s=staleness_s)
        self._readers = WorkerThreads(limits.READER_THREADS_MAX)
        self._writers = WorkerThreads(limits.WRITER_THREADS_MAX)
        connect = partial(postgres.connect, self._address)
        control = self._database_of(transactions.ControlScope())
        self._vectors = PostgresVectorIndex(
            MatrixCache(bytes_max=vector_bytes_max),
            connect=connect,
            threads=self._readers,
        )
        self._organizations = Organizations(
            control, database_of=self._database_of, drop_index=self._vectors.drop
        )
        self._control = ControlStore(
            control,
            clock=clock,
            ids=ids,
            removal=self._organizations,
            tell_keys=tell_keys,
            reach=transactions.ControlReach(),
        )
        self._changes = Changes(connect)
        self._opened = OpenOrganizations(self._open_organization)
        self._is_open = False
        self._is_closed = False

    @property
    def control(self) -> ControlStore:
        return self._control

    async def open(self) -> None:
        if self._is_open:
            return
        await self._readers.run(partial(apply_migrations, self._address))
        await self._remove_leftovers()
        self._is_open = True

    async def organization(self, organization_id: OrganizationId) -> OrganizationStore:
        return (await self._opened.get(organization_id)).store

    def announce(self, organization_id: OrganizationId) -> None:
        self._changes.announce(organization_id)

    async def changes(self) -> AsyncGenerator[Change]:
        async for change in self._changes.follow():
            if isinstance(change, WorkAdded):
                self._doubt(change.organization_id)
            yield change

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self._changes.close()
        self._writers.stop()
        self._readers.stop()
        self._pool.close()
        if self._replica is not None:
            self._replica.close()

    def _forget(self) -> None:
        """Drop every cache of organisations."""
        self._opened.take_all()
        self._vectors.forget()

    def _doubt(self, organization_id: OrganizationId) -> None:
        """Read nothing older than what another process just wrote."""
        if (opened := self._opened.find(organization_id)) is not None:
            opened.scope.seen.doubt()

    def _database_of(self, scope: Scope) -> PostgresDatabase:
        return PostgresDatabase(
            scope,
            pool=self._pool,
            readers=self._readers,
            writers=self._writers,
            announce=self._announce,
            replica=self._replica,
        )

    async def _remove_leftovers(self) -> None:
        """Finish deletions that a crash interrupted; if that fails, the store opens nevertheless."""
        try:
            await self._organizations.finish()
        except StorageError:
            logger.warning("rows of deleted organisations are still there", exc_info=True)

    async def _open_organization(self, organization_id: OrganizationId) -> _OpenOrganization:
        scope = await self._organizations.find(organization_id)
        tenant = Tenant(
            number=scope.number,
            id=scope.id,
            database=self._database_of(scope),
            words=PostingWordIndex(),
            clock=self._clock,
            ids=self._ids,
        )
        store = OrganizationStore(
            tenant, vectors=self._vectors, revision_of=transactions.revision_of
        )
        await store.prepare()
        return _OpenOrganization(scope, store)


@dataclass(frozen=True, slots=True)
class _OpenOrganization:
    scope: OrganizationScope
    store: OrganizationStore

    @property
    def is_gone(self) -> bool:
        return self.scope.is_gone

    def let_go(self) -> None:
        """Do nothing: connections belong to all organisations."""


class PostgresVectorIndex:
    """The `VectorIndex`: an HNSW index of the database for big organisations, memory for others."""

    def __init__(
        self, matrices: MatrixCache, *, connect: Callable[[], Driver], threads: WorkerThreads
    ) -> None:
        self._matrices = matrices
        self._connect = connect
        self._threads = threads

    def current(
        self, tx: Transaction, embedders: Embedders, *, tier: Tier, embedder: StoredEmbedder
    ) -> ComparedVectors:
        source = StoredVectors(tx, embedders, tier=tier, embedder=embedder)
        if embedder.near_upto is None:
            return self._matrices.current((tx.tenant.id, embedder.number), source)
        from engram.storage.postgres.hnsw import HnswVectors  # noqa: PLC0415 brings NumPy

        name = (tx.tenant.id, embedder.number, embedder.near_upto)
        newest = self._matrices.current(name, _Newest(source, embedder.near_upto))
        return HnswVectors(tx, embedder, tier=tier, newest=newest)

    def forget(self) -> None:
        """Drop the vectors in memory."""
        self._matrices.clear()

    async def tend(self, tenant: Tenant) -> int:
        from engram.storage.postgres.hnsw import update_partition  # noqa: PLC0415 brings NumPy

        return await update_partition(tenant, self._connect, self._threads)

    async def drop(self, organization: int) -> None:
        """Remove the partition of an organisation that was deleted."""
        from engram.storage.postgres import hnsw  # noqa: PLC0415 brings NumPy

        await self._threads.run(partial(hnsw.drop_partition, self._connect, organization))


@dataclass(frozen=True, slots=True)
class _Newest:
    """The changes of a source after some `seq`."""

    source: VectorSource
    after: int

    @property
    def dimensions(self) -> int:
        return self.source.dimensions

    def read_since(self, seq: int) -> VectorChanges:
        return self.source.read_since(max(seq, self.after))


class Organizations:
    """The organisations of a database, by the numbers that their rows have."""

    def __init__(
        self,
        control: PostgresDatabase,
        *,
        database_of: Callable[[Scope], PostgresDatabase],
        drop_index: Callable[[int], Awaitable[None]],
    ) -> None:
        self._control = control
        self._drop_index = drop_index
        self._database_of = database_of

    async def find(self, organization_id: OrganizationId) -> OrganizationScope:
        """Return the scope of an organisation, and create its first rows if needed.

        Raises:
            NotFoundError: there is no such organisation.
        """
        number = await self._control.read(partial(_find_ready, public_id=organization_id))
        if number is None:
            number = await self._control.write(partial(_make_ready, public_id=organization_id))
        return OrganizationScope(number, organization_id)

    def begin(self, connection: Connection, organization_id: OrganizationId) -> None:
        """Mark an organisation as deleted, in the transaction that removes it.

        Waits for whoever writes now; later transactions find the mark.
        """
        number = _number_of(connection, organization_id)
        choose(connection, number)
        values = {"organization_id": number, "public_id": organization_id}
        connection.execute(_SQL["mark_deleted"], values)
        connection.execute(_SQL["plan_removal"], values)

    async def finish(self) -> None:
        """Remove the rows of every deleted organisation, also of those that a crash left behind."""
        for number in await self._control.read(_list_removals):
            database = self._database_of(RemovalScope(number))
            await self._drop_index(number)
            # Raised when another process has removed them.
            with suppress(NotFoundError):
                await database.write(partial(_remove, number=number))


def has_first_rows(connection: Connection, number: int) -> bool:
    """Return True if an organisation has its first rows; chooses it for the rest of the transaction."""
    choose(connection, number)
    row = connection.execute(_SQL["find_meta"], {"organization_id": number}).fetchone()
    return row is not None


def add_first_rows(connection: Connection, number: int, *, public_id: OrganizationId) -> None:
    """Add the first rows of an organisation, unless it has them."""
    if not has_first_rows(connection, number):
        values = {"organization_id": number, "public_id": public_id}
        connection.execute(_SQL["add_meta"], values)
        connection.execute(_SQL["add_word_index"], values)


def _find_ready(connection: Connection, *, public_id: OrganizationId) -> int | None:
    """Return the number of an organisation, None if its first rows are missing."""
    number = _number_of(connection, public_id)
    return number if has_first_rows(connection, number) else None


def _make_ready(connection: Connection, *, public_id: OrganizationId) -> int:
    """Add the first rows of an organisation, unless another process was quicker."""
    number = _number_of(connection, public_id)
    add_first_rows(connection, number, public_id=public_id)
    return number


def _number_of(connection: Connection, public_id: OrganizationId) -> int:
    row = connection.execute(_SQL["find_number"], {"public_id": public_id}).fetchone()
    if row is None:
        raise NotFoundError("organization", public_id)
    return row[0]


def _list_removals(connection: Connection) -> list[int]:
    return [number for (number,) in connection.execute(_SQL["list_removals"])]


def _remove(connection: Connection, *, number: int) -> None:
    values = {"organization_id": number}
    for (name,) in connection.execute(_SQL["tenant_tables"]).fetchall():
        connection.execute(_SQL["delete_rows"].replace("/*table*/", name), values)
    connection.execute(_SQL["finish_removal"], values)
