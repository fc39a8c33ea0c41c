"""One organisation: its database, caches and transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engram.clock import Clock, IdSource, to_microseconds
from engram.model.ids import OrganizationId
from engram.storage.codec import ContentCodec
from engram.storage.postings.caches import PostingCache, RowCache
from engram.storage.postings.index import WordIndex
from engram.storage.rows.caches import MessageCache, PieceCache
from engram.storage.rows.database import Connection, Cursor, Database

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An organisation, its database, and this process's caches of it."""

    number: int
    id: OrganizationId
    database: Database
    words: WordIndex
    clock: Clock
    ids: IdSource
    codec: ContentCodec = field(default_factory=ContentCodec)
    row_cache: RowCache = field(default_factory=RowCache)
    posting_cache: PostingCache = field(default_factory=PostingCache)
    piece_cache: PieceCache = field(default_factory=PieceCache)
    message_cache: MessageCache = field(default_factory=MessageCache)

    def now(self) -> int:
        """Return the current time in microseconds."""
        return to_microseconds(self.clock.now())

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what `work` returns for one snapshot; see `Database.read`."""
        return await self.database.read(lambda connection: work(Transaction(connection, self)))

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Return what `work` returns once its changes are durable; see `Database.write`."""
        return await self.database.write(lambda connection: work(Transaction(connection, self)))


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction on the rows of one organisation, and of no other."""

    connection: Connection
    tenant: Tenant

    def execute(self, statement: str, **values: Any) -> Cursor:
        """Run a statement on this organisation's rows."""
        return self.connection.execute(statement, self._scoped(values))

    def execute_many(self, statement: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run a statement once for each row of values, on this organisation's rows."""
        self.connection.executemany(statement, map(self._scoped, rows))

    def _scoped(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"organization_id": self.tenant.number, **values}


class TenantStore:
    """Operations on one organisation's rows, each one transaction or a few short ones."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
