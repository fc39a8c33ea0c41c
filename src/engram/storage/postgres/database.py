"""One scope of a PostgreSQL database: the `Database` of an organisation, or of the control tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from engram.storage.bookkeeping.audited import Announce
from engram.storage.group_commit import Write
from engram.storage.handoff import Ticket
from engram.storage.postgres.failures import translated_failures
from engram.storage.postgres.pool import Pool
from engram.storage.postgres.replica import Replica, UnusableError
from engram.storage.postgres.transactions import OrganizationScope, Scope
from engram.storage.postgres.writes import WriteQueue
from engram.storage.rows.database import Connection
from engram.storage.threads import WorkerThreads

T = TypeVar("T")


class PostgresDatabase:
    """The `Database` of a scope."""

    def __init__(
        self,
        scope: Scope,
        *,
        pool: Pool,
        readers: WorkerThreads,
        writers: WorkerThreads,
        announce: Announce | None = None,
    ) -> None:
        self._scope = scope
        self._announce = announce
        self._pool = pool
        self._readers = readers
        self._writes = WriteQueue(pool, writers, scope)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._readers.run(partial(self._read_translated, work))

    async def write(self, work: Callable[[Connection], T]) -> T:
        ticket: Ticket[T] = Ticket()
        self._writes.submit(Write(work, ticket, self._announce))
        return await ticket.future

    def _read_translated(self, work: Callable[[Connection], T]) -> T:
        with translated_failures():
            return self._read(work)

    def _read(self, work: Callable[[Connection], T]) -> T:
        driver, connection = self._pool.begin(self._scope.begin_read)
        try:
            return work(connection)
        finally:
            self._pool.give_back(driver)


class ReplicatedDatabase(PostgresDatabase):
    """The `Database` of an organisation, read from a replica when that can answer."""

    def __init__(
        self,
        scope: OrganizationScope,
        *,
        pool: Pool,
        replica: Replica,
        readers: WorkerThreads,
        writers: WorkerThreads,
        announce: Announce | None = None,
    ) -> None:
        super().__init__(scope, pool=pool, readers=readers, writers=writers, announce=announce)
        self._organization = scope
        self._replica = replica

    def _read(self, work: Callable[[Connection], T]) -> T:
        with suppress(UnusableError):
            return self._replica.read(self._organization, work)
        return super()._read(work)
