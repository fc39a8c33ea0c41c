"""The store of a PostgreSQL database and its homes, shared by any number of processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from engram import limits
from engram.clock import Clock, IdSource, to_microseconds
from engram.errors import NotFoundError, StorageError
from engram.model.ids import OrganizationId
from engram.model.status import DueWork, Finding, KeysChanged, WorkKind
from engram.storage.bookkeeping.audit import Announce
from engram.storage.control.store import ControlStore
from engram.storage.organization import OrganizationStore
from engram.storage.postgres import connection as postgres
from engram.storage.postgres import transactions
from engram.storage.postgres.changes import Changes, tell_keys
from engram.storage.postgres.database import Replica
from engram.storage.postgres.due import DueClaims
from engram.storage.postgres.homes import Home, HomeOptions, Homes
from engram.storage.postgres.organizations import Organizations
from engram.storage.postgres.pool import Pool
from engram.storage.postgres.transactions import OrganizationScope
from engram.storage.postings.block_index import BlockWordIndex
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.store import OpenOrganizations
from engram.storage.tenant import Tenant
from engram.vectors.matrix_cache import MatrixCache

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
        direct_url: str | None = None,
        staleness_s: float = 0.0,
        announce: Announce | None = None,
        statement_s: float = limits.STATEMENT_S,
        connections_max: int = limits.DATABASE_CONNECTIONS,
        by_server_clock: bool = False,
    ) -> None:
        """Use the database at `url`, where a statement may take `statement_s` seconds.

        With `read_url`, organisations of this database are read from that replica when it is recent
        enough: at most `staleness_s` seconds old, and never older than what this process has written. With
        `direct_url`, `url` is that of a pooler in transaction mode.
        `announce` is called with the audit rows that this process has stored. There are at most
        `connections_max` connections to each home, 4 or more. With `by_server_clock`, leases
        and idempotency keys are measured by the clock of the server, which all processes share, and else
        by `clock`.
        """
        self._shared_clock = postgres.read_clock if by_server_clock else None
        self._clock = clock
        self._ids = ids
        self._matrices = MatrixCache(bytes_max=vector_bytes_max)
        options = HomeOptions(
            connections_max=connections_max,
            statement_s=statement_s,
            announce=announce,
            matrices=self._matrices,
            forget=self._forget,
        )

        def build_replica(primary: Pool) -> Replica | None:
            if read_url is None:
                return None
            reading = Pool(postgres.complete_reading(read_url), statement_s=statement_s)
            return Replica(reading, primary=primary, staleness_s=staleness_s)

        self._home = Home(url, options, direct_url=direct_url, build_replica=build_replica)
        self._homes = Homes(self._home, options)
        self._organizations = Organizations(self._homes)
        self._control = ControlStore(
            self._home.control,
            clock=clock,
            ids=ids,
            removal=self._organizations,
            placing=self._organizations,
            tell_keys=tell_keys,
            reach=transactions.ControlReach(),
        )
        # A pooler hides from its clients that another server has taken over.
        self._changes = Changes(self._home.connect, look=self._home.timeline.look)
        self._opened = OpenOrganizations(self._open_organization)
        self._is_open = False
        self._is_closed = False

    @property
    def control(self) -> ControlStore:
        return self._control

    async def open(self) -> None:
        if self._is_open:
            return
        try:
            await self._home.open()
            await self._remove_leftovers()
        except BaseException:
            # Nobody closes what never opened, and some connections may be open already.
            await self.close()
            raise
        self._is_open = True

    async def organization(self, organization_id: OrganizationId) -> OrganizationStore:
        return (await self._opened.get(organization_id)).store

    async def check(self, *, by_writing: bool) -> None:
        await self._control.ping()
        if by_writing:
            await self._home.control.write(
                lambda connection: connection.execute(_SQL["log_nothing"]).fetchone()
            )

    async def list_homes_away(self) -> Sequence[str]:
        homes = [self._homes.find(place) for place in await self._homes.list_places()]
        answers = await asyncio.gather(*map(_is_away, homes))
        return [
            home.name for home, is_away in zip(homes, answers, strict=True) if is_away and home.name
        ]

    async def claim_due(
        self, kinds: Sequence[WorkKind], *, lease: timedelta, limit: int
    ) -> Sequence[DueWork]:
        claims = DueClaims(kinds, clock=self._read_clock, lease=lease, limit=limit)
        claimed = await claims.at(self._home)
        for place in await self._homes.list_places():
            try:
                claimed += await claims.at(await self._homes.open(place))
            except StorageError:
                # Its organisations cannot be worked on either.
                logger.debug("the home %s cannot be asked for work", place.home, exc_info=True)
        return claimed

    async def changes(self) -> AsyncGenerator[KeysChanged]:
        async for change in self._changes.follow():
            if change.organization_id is not None:
                # A move says so too: it is looked up again.
                self._opened.drop(change.organization_id)
            yield change

    async def check_files(self) -> Sequence[Finding]:
        return ()  # the database looks after its own

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self._changes.close()
        self._homes.close()

    def _forget(self) -> None:
        """Drop every cache of organisations."""
        self._opened.take_all()
        self._matrices.clear()

    def _read_clock(self, connection: Connection) -> int:
        if self._shared_clock is not None:
            return self._shared_clock(connection)
        return to_microseconds(self._clock.now())

    async def _remove_leftovers(self) -> None:
        """Finish deletions that a crash interrupted; if that fails, the store opens nevertheless."""
        try:
            await self._organizations.finish()
        except StorageError:
            logger.warning("rows of deleted organisations are still there", exc_info=True)

    async def _open_organization(self, organization_id: OrganizationId) -> _OpenOrganization:
        home, scope = await self._organizations.find(organization_id)
        tenant = Tenant(
            number=scope.number,
            id=scope.id,
            database=home.database_of(scope),
            words=BlockWordIndex(),
            clock=self._clock,
            ids=self._ids,
            shared_clock=self._shared_clock,
            find_moved=partial(self._find_moved, scope),
        )
        store = OrganizationStore(
            tenant, vectors=home.vectors, revision_of=transactions.revision_of
        )
        await store.prepare()
        return _OpenOrganization(scope, store)

    async def _find_moved(self, scope: OrganizationScope) -> Tenant | None:
        """Return an organisation at the home it was moved to; None if its rows are where they were."""
        if not scope.is_gone:
            return None
        try:
            opened = await self._opened.get(scope.id)
        except NotFoundError:
            return None  # deleted
        return None if opened.scope is scope else opened.store.tenant


@dataclass(frozen=True, slots=True)
class _OpenOrganization:
    scope: OrganizationScope
    store: OrganizationStore

    @property
    def is_gone(self) -> bool:
        return self.scope.is_gone

    def let_go(self) -> None:
        """Do nothing: connections belong to all organisations."""


async def _is_away(home: Home) -> bool:
    try:
        async with asyncio.timeout(limits.HOME_PING_S):
            await home.ping()
    except (StorageError, TimeoutError):
        return True
    return False
