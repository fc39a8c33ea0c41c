"""One organisation: its database, caches and transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from engram.clock import Clock, IdSource, to_microseconds
from engram.errors import NotFoundError
from engram.model.ids import OrganizationId
from engram.model.status import WorkKind
from engram.storage.codec import ContentCodec
from engram.storage.postings.caches import PostingCache, RowCache
from engram.storage.postings.index import WordIndex
from engram.storage.rows.caches import Latest, MessageCache, PieceCache
from engram.storage.rows.database import Connection, Cursor, Database, RemoteConnection

T = TypeVar("T")


class Settled(NamedTuple):
    """When an organisation has work of a kind next."""

    due_at: int | None
    """None: it has none."""
    lease_until: int | None
    """Before then nobody claims it."""


class WordAppend(NamedTuple):
    """Messages that a transaction added to the word index."""

    revision: int
    """Of the index after it."""
    conversations: Collection[int]


class DueList(Protocol):
    """The due work of all organisations, as far as it concerns one, in another file than its rows.

    It has an entry whenever the organisation's own row of `due` is there, and may have one when it is not.
    """

    def note(self, kind: WorkKind, due_at: int) -> None:
        """Put work into the list, durably; blocks, in the transaction that adds the organisation's row."""
        ...

    async def find(self, kind: WorkKind) -> int | None:
        """Return a token of the entry, which changes whenever work is noted."""
        ...

    async def settle(self, kind: WorkKind, token: int, settled: Settled) -> None:
        """Change or remove an entry, unless work was noted since the token was read."""
        ...


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
    last_embedders: Latest[Any] = field(default_factory=Latest[Any])
    """The `Embedders` that were read last, by which it is guessed what a search will ask for."""
    shared_clock: Callable[[Connection], int] | None = None
    """Returns the time of the database, which all processes share; None if it has no clock of its own."""
    due_list: DueList | None = None
    """None where processes claim work from the rows of organisations themselves."""
    find_moved: Callable[[], Awaitable[Tenant | None]] | None = None
    """Returns the same organisation where it was moved to; None if it was not, or can not be."""

    def now(self) -> int:
        """Return the current time in microseconds."""
        return to_microseconds(self.clock.now())

    def drop_texts(self) -> None:
        """Drop the texts that this process has cached: some of them were erased."""
        self.message_cache.clear()
        self.piece_cache.clear()
        self.words.drop_cached()

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what `work` returns for one snapshot; see `Database.read`."""
        try:
            return await self.database.read(lambda connection: work(Transaction(connection, self)))
        except NotFoundError:
            moved = await self._followed()
            if moved is None:
                raise
        return await moved.read(work)

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Return what `work` returns once its changes are durable; see `Database.write`."""
        appends: list[WordAppend] = []

        def run(connection: Connection) -> T:
            appends.clear()  # Of a transaction that was lost, and is done again.
            return work(Transaction(connection, self, appends))

        try:
            done = await self.database.write(run)
        except NotFoundError:
            moved = await self._followed()
            if moved is None:
                raise
            return await moved.write(work)
        for each in appends:
            self.row_cache.note_append(each.revision, each.conversations)
        return done

    async def _followed(self) -> Tenant | None:
        return None if self.find_moved is None else await self.find_moved()


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction on the rows of one organisation, and of no other."""

    connection: Connection
    tenant: Tenant
    appends: list[WordAppend] = field(default_factory=list[WordAppend])

    def shared_now(self) -> int:
        """Return the time that leases and idempotency keys are measured by, in microseconds."""
        shared_clock = self.tenant.shared_clock
        return self.tenant.now() if shared_clock is None else shared_clock(self.connection)

    def execute(self, statement: str, **values: Any) -> Cursor:
        """Run a statement on this organisation's rows."""
        return self.connection.execute(statement, self._scoped(values))

    def execute_many(self, statement: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run a statement once for each row of values, on this organisation's rows."""
        self.connection.executemany(statement, map(self._scoped, rows))

    def ask_ahead(self, statement: str, **values: Any) -> None:
        """Have a server answer a statement that will be run soon together with the next answer.

        Until it is run, nothing may be written that would change it. A database in a file does nothing.
        """
        if isinstance(self.connection, RemoteConnection):
            self.connection.ask_ahead(statement, self._scoped(values))

    def row_later(self, statement: str, **values: Any) -> Callable[[], Any]:
        """Run a statement; return what returns its row, also after the transaction."""
        cursor = self.execute(statement, **values)
        if isinstance(self.connection, RemoteConnection):
            return cursor.fetchone
        row = cursor.fetchone()
        return lambda: row

    def _scoped(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"organization_id": self.tenant.number, **values}


class TenantStore:
    """Operations on one organisation's rows, each one transaction or a few short ones."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
