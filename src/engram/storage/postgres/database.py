"""One scope of a PostgreSQL database: the `Database` of an organisation, or of the control tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from engram.storage.group_commit import Write
from engram.storage.handoff import Ticket
from engram.storage.postgres.failures import translated_failures
from engram.storage.postgres.pool import Pool
from engram.storage.postgres.transactions import Scope
from engram.storage.postgres.writes import WriteQueue
from engram.storage.tables.database import Connection
from engram.storage.threads import WorkerThreads

T = TypeVar("T")


class PostgresDatabase:
    """The `Database` of a scope."""

    def __init__(
        self, scope: Scope, *, pool: Pool, readers: WorkerThreads, writers: WorkerThreads
    ) -> None:
        self._scope = scope
        self._pool = pool
        self._readers = readers
        self._writes = WriteQueue(pool, writers, scope)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._readers.run(partial(self._read, work))

    async def write(self, work: Callable[[Connection], T]) -> T:
        ticket: Ticket[T] = Ticket()
        self._writes.submit(Write(work, ticket))
        return await ticket.future

    def _read(self, work: Callable[[Connection], T]) -> T:
        with translated_failures():
            driver, connection = self._pool.begin(self._scope.begin_read)
            try:
                return work(connection)
            finally:
                self._pool.give_back(driver)
