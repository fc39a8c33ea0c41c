"""A whole installation in one PostgreSQL database, shared by any number of processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Hashable
from dataclasses import dataclass
from functools import partial

from engram import limits
from engram.clock import Clock, IdSource
from engram.errors import StorageError
from engram.model.changes import Change, WorkAdded
from engram.model.ids import OrganizationId
from engram.storage.bookkeeping.audited import Announce
from engram.storage.control.store import ControlStore
from engram.storage.open_organizations import OpenOrganizations
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.address import complete, complete_reading
from engram.storage.postgres.changes import Changes, tell_keys
from engram.storage.postgres.connection import PostgresConnection
from engram.storage.postgres.database import PostgresDatabase, ReplicatedDatabase
from engram.storage.postgres.logins import bring_forward
from engram.storage.postgres.near_index import NearIndex
from engram.storage.postgres.organizations import Organizations
from engram.storage.postgres.pool import Pool, connect
from engram.storage.postgres.replica import Replica
from engram.storage.postgres.timeline import TimelineWatch
from engram.storage.postgres.transactions import (
    ControlReach,
    ControlScope,
    OrganizationScope,
    Scope,
)
from engram.storage.postgres.word_index import PostingWordIndex
from engram.storage.rows.database import Connection
from engram.storage.tenant import Tenant
from engram.storage.threads import WorkerThreads
from engram.vectors.budgeted import BudgetedMatrices

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

        With `read_url`, organisations are read from there when that is allowed: what it shows may
        be `staleness_s` seconds old, and is never older than what this process has written.
        `announce` is told of audit rows that this process has stored.
        """
        self._address = complete(url)
        self._announce = announce
        self._clock = clock
        self._ids = ids
        self._pool = Pool(
            self._address, look=TimelineWatch(self._forget).look, statement_s=statement_s
        )
        self._replica = (
            None
            if read_url is None
            else Replica(
                Pool(complete_reading(read_url), statement_s=statement_s),
                primary=self._pool,
                staleness_s=staleness_s,
            )
        )
        self._readers = WorkerThreads(limits.READER_THREADS_MAX)
        self._writers = WorkerThreads(limits.WRITER_THREADS_MAX)
        control = self._database_of(ControlScope())
        self._vectors = NearIndex(
            BudgetedMatrices(bytes_max=vector_bytes_max),
            connect=partial(connect, self._address),
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
            reach=ControlReach(),
        )
        self._changes = Changes(partial(connect, self._address))
        self._opened = OpenOrganizations(self._open_organization)
        self._is_open = False
        self._is_closed = False

    @property
    def control(self) -> ControlStore:
        return self._control

    async def open(self) -> None:
        if self._is_open:
            return
        await self._readers.run(partial(bring_forward, self._address))
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
        """Remember nothing of organisations any more."""
        self._opened.take_all()
        self._vectors.forget()

    def _doubt(self, organization_id: OrganizationId) -> None:
        """Read what another process wrote, and not what a replica had before."""
        if (opened := self._opened.find(organization_id)) is not None:
            opened.scope.seen.doubt()

    def _database_of(self, scope: Scope) -> PostgresDatabase:
        return PostgresDatabase(
            scope,
            pool=self._pool,
            readers=self._readers,
            writers=self._writers,
            announce=self._announce,
        )

    def _organization_database(self, scope: OrganizationScope) -> PostgresDatabase:
        if self._replica is None:
            return self._database_of(scope)
        return ReplicatedDatabase(
            scope,
            pool=self._pool,
            replica=self._replica,
            readers=self._readers,
            writers=self._writers,
            announce=self._announce,
        )

    async def _remove_leftovers(self) -> None:
        """Finish deletions that a crash cut short; one that fails must not close the store."""
        try:
            await self._organizations.finish()
        except StorageError:
            logger.warning("rows of deleted organisations are still there", exc_info=True)

    async def _open_organization(self, organization_id: OrganizationId) -> _OpenOrganization:
        scope = await self._organizations.find(organization_id)
        tenant = Tenant(
            number=scope.number,
            id=scope.id,
            database=self._organization_database(scope),
            words=PostingWordIndex(),
            clock=self._clock,
            ids=self._ids,
        )
        store = OrganizationStore(tenant, vectors=self._vectors, revision_of=_revision_of)
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


def _revision_of(connection: Connection) -> Hashable:
    if not isinstance(connection, PostgresConnection):
        raise TypeError("a connection of another database")
    return connection.revision
