"""Move an organisation to another home while processes use it.

The rows are copied from snapshots until few are missing. Then writers wait: the rest is copied, all is
compared, and a seal is committed where the organisation was. The seal decides: before it everybody uses
the old rows, and after it nobody can. Whatever is left to do then, any process can do, or the same
command again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from engram.clock import Clock, IdSource, to_microseconds
from engram.errors import ConflictError, NotFoundError
from engram.model.access import OPERATOR, AuditNote
from engram.model.ids import OrganizationId
from engram.storage.control.store import add_audit
from engram.storage.postgres.connection import (
    PostgresConnection,
    complete,
    connect,
    fetch_value,
    translated_failures,
)
from engram.storage.postgres.hnsw import drop_partition
from engram.storage.postgres.homes import CONTROL, Place, claim_of, read_roles, remove_some
from engram.storage.postgres.logins import apply_migrations
from engram.storage.postgres.organizations import (
    add_first_rows,
    place_of,
    plan_removal,
    read_seal,
    switch,
)
from engram.storage.postgres.pool import Pool
from engram.storage.postgres.row_sync import RowSync, read_tables
from engram.storage.postgres.transactions import (
    ControlScope,
    OrganizationScope,
    RemovalScope,
    Scope,
)
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

CATCH_UP_ROWS = 2_000
"""Rows that a pass may still send when writers have to wait for the next one."""

PASSES_MAX = 8
"""Passes before writers have to wait, however much they write."""

Step = Literal["begun", "copied", "locked", "sealed", "switched", "removed"]
Outcome = Literal["moved", "there already", "given up"]

_SQL = load_queries("postgres/relocation.sql")
_HOMES = load_queries("postgres/homes.sql")


class HomeAccess:
    """A home as one thread uses it that does nothing else."""

    def __init__(self, url: str, *, claim: str | None = None) -> None:
        self.address = complete(url)
        self._claim = claim
        self._pool = Pool(self.address)

    def open(self) -> None:
        """Migrate the database, and check that it is the one it should be.

        Raises:
            ConflictError: it is another.
        """
        apply_migrations(self.address)
        with self.reading() as connection:
            _, found = read_roles(connection)
        if found != self._claim:
            raise ConflictError("this address leads to another database than it should")

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    @contextmanager
    def reading(self, scope: Scope | None = None) -> Generator[PostgresConnection]:
        """Read one snapshot; without a scope, of the control tables."""
        with translated_failures():
            transaction, _ = self._pool.begin((scope or ControlScope()).begin_read)
            try:
                yield transaction
            finally:
                self._pool.give_back(transaction, has_read=True)

    @contextmanager
    def writing(self, scope: Scope | None = None) -> Generator[PostgresConnection]:
        """Write when nobody else does, and commit; without a scope, the control tables."""
        with translated_failures():
            transaction, _ = self._pool.begin((scope or ControlScope()).begin_write)
            try:
                yield transaction
                transaction.commit()
            finally:
                self._pool.give_back(transaction)


class _Relocation(NamedTuple):
    number: int
    home: str | None
    former_number: int
    former_home: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """Moves organisations between the homes of an installation."""

    control: HomeAccess
    clock: Clock
    ids: IdSource
    tell: Callable[[Step], None] = lambda _: None
    advance: Callable[[int], None] = lambda _: None

    def move(self, organization_id: OrganizationId, to: str) -> Outcome:
        """Move an organisation to a home, or finish a move that was interrupted.

        Moving it to where it is gives up a move that was begun.

        Raises:
            NotFoundError: there is no such organisation or home.
            ConflictError: it is being moved to another home.
            StorageError: a home cannot be used.
        """
        home = None if to == CONTROL else to
        with self.control.reading() as connection:
            self._reach(connection, home)
        with self._alone(organization_id):
            return self._move(organization_id, home)

    def _move(self, organization_id: OrganizationId, home: str | None) -> Outcome:
        place = self._follow_seal(organization_id)
        relocation = self._find(organization_id)
        if relocation is not None and relocation.number == place.number:
            self._finish(organization_id, relocation)
            if relocation.home == home:
                return "moved"
            relocation = None
        if place.home == home:
            if relocation is None:
                return "there already"
            self._give_up(organization_id, relocation)
            return "given up"
        if relocation is not None and relocation.home != home:
            raise ConflictError(
                f"{organization_id} is being moved to {relocation.home or CONTROL}: move it there, or"
                f" to {place.home or CONTROL} to give that up"
            )
        self._carry(organization_id, relocation or self._begin(organization_id, place, home))
        return "moved"

    @contextmanager
    def _alone(self, organization_id: OrganizationId) -> Generator[None]:
        """Let no other process move the same organisation meanwhile.

        Raises:
            ConflictError: another one does.
        """
        with translated_failures(), connect(self.control.address) as driver:
            if not fetch_value(driver, _SQL["try_lock"], public_id=organization_id):
                raise ConflictError(f"another process is moving {organization_id}")
            yield

    def _carry(self, organization_id: OrganizationId, relocation: _Relocation) -> None:
        self.tell("begun")
        with (
            self._opened(relocation.former_home) as source,
            self._opened(relocation.home) as target,
        ):
            self._copy(organization_id, relocation, source, target)
            self.tell("copied")
            self._lock_and_seal(organization_id, relocation, source, target)
        self.tell("sealed")
        self._follow_seal(organization_id)
        self.tell("switched")
        self._finish(organization_id, relocation)
        self.tell("removed")

    def _copy(
        self,
        organization_id: OrganizationId,
        relocation: _Relocation,
        source: HomeAccess,
        target: HomeAccess,
    ) -> None:
        """Copy snapshots until few rows are missing."""
        numbers = {source: relocation.former_number, target: relocation.number}
        for place, number in numbers.items():
            with place.writing() as connection:
                add_first_rows(connection, number, public_id=organization_id)
        scope = OrganizationScope(relocation.former_number, organization_id)
        for _ in range(PASSES_MAX):
            with source.reading(scope) as snapshot:
                sync = self._sync(snapshot, organization_id, relocation, target)
                if sync.run() <= CATCH_UP_ROWS:
                    return

    def _lock_and_seal(
        self,
        organization_id: OrganizationId,
        relocation: _Relocation,
        source: HomeAccess,
        target: HomeAccess,
    ) -> None:
        scope = OrganizationScope(relocation.former_number, organization_id)
        copy = OrganizationScope(relocation.number, organization_id)
        with source.writing(scope) as locked:
            sync = self._sync(locked, organization_id, relocation, target)
            sync.run()
            with target.writing() as connection:
                sync.skip_numbers(connection)
            with target.writing(copy) as connection:
                values = {"organization_id": copy.number, "revision": locked.revision}
                connection.execute(_SQL["go_on"], values)
            values = {
                "organization_id": scope.number,
                "home": relocation.home or CONTROL,
                "number": relocation.number,
            }
            locked.execute(_SQL["seal"], values)
            self.tell("locked")

    def _sync(
        self,
        source: Connection,
        organization_id: OrganizationId,
        relocation: _Relocation,
        target: HomeAccess,
    ) -> RowSync:
        copy = OrganizationScope(relocation.number, organization_id)
        return RowSync(
            tables=read_tables(source),
            source=source,
            number=relocation.former_number,
            writing=partial(target.writing, copy),
            copy_number=relocation.number,
            advance=self.advance,
        )

    def _follow_seal(self, organization_id: OrganizationId) -> Place:
        """Return where an organisation is, once the control database says so too."""
        with self.control.reading() as connection:
            place = place_of(connection, organization_id)
        with self._opened(place.home) as home, home.reading() as connection:
            seal = read_seal(connection, place.number)
        if seal is None or seal.moved_to is None:
            return place
        with self.control.writing() as connection:
            switch(connection, organization_id=organization_id, former=place.number, seal=seal)
            return place_of(connection, organization_id)

    def _finish(self, organization_id: OrganizationId, relocation: _Relocation) -> None:
        """Remove the rows where the organisation was, but for their seal."""
        with self._opened(relocation.former_home) as former:
            _remove_rows(former, organization_id, relocation.former_number)
        details = {
            "from": relocation.former_home or CONTROL,
            "to": relocation.home or CONTROL,
        }
        note = AuditNote(
            organization_id=organization_id,
            at=self.clock.now(),
            actor=OPERATOR,
            action="move_organization",
            details=details,
        )
        with self.control.writing() as connection:
            if self._end(connection, organization_id):
                add_audit(connection, note, ids=self.ids)

    def _give_up(self, organization_id: OrganizationId, relocation: _Relocation) -> None:
        """Remove what was copied; at a home that is away, once a process finds it again."""
        with self.control.writing() as connection:
            if relocation.home is None:
                plan_removal(connection, public_id=organization_id, number=relocation.number)
            else:
                values = {
                    "number": relocation.number,
                    "public_id": organization_id,
                    "home": relocation.home,
                }
                connection.execute(_HOMES["add_removal"], values)
            self._end(connection, organization_id)

    def _begin(
        self, organization_id: OrganizationId, place: Place, home: str | None
    ) -> _Relocation:
        values = {
            "public_id": organization_id,
            "home": home,
            "former_number": place.number,
            "former_home": place.home,
            "now": to_microseconds(self.clock.now()),
        }
        with self.control.writing() as connection:
            connection.execute(_HOMES["add_relocation"], values)
        begun = self._find(organization_id)
        if begun is None:
            raise NotFoundError("organization", organization_id)
        return begun

    def _find(self, organization_id: OrganizationId) -> _Relocation | None:
        values = {"public_id": organization_id}
        with self.control.reading() as connection:
            row = connection.execute(_HOMES["get_relocation"], values).fetchone()
        return None if row is None else _Relocation(*row)

    def _end(self, connection: Connection, organization_id: OrganizationId) -> bool:
        ended = connection.execute(_HOMES["end_relocation"], {"public_id": organization_id})
        return ended.rowcount > 0

    @contextmanager
    def _opened(self, home: str | None) -> Generator[HomeAccess]:
        """Open a home for the length of a block."""
        if home is None:
            yield self.control
            return
        with self.control.reading() as connection:
            access = self._reach(connection, home)
        try:
            access.open()
            yield access
        finally:
            access.close()

    def _reach(self, connection: Connection, home: str | None) -> HomeAccess:
        """Return a home of a name.

        Raises:
            NotFoundError: there is none.
        """
        if home is None:
            return self.control
        row = connection.execute(_HOMES["find_url"], {"name": home}).fetchone()
        if row is None:
            raise NotFoundError("home", home)
        url, installation = row
        return HomeAccess(url, claim=claim_of(installation, home))


def _remove_rows(home: HomeAccess, organization_id: OrganizationId, number: int) -> None:
    with home.writing() as connection:
        plan_removal(connection, public_id=organization_id, number=number)
    drop_partition(partial(connect, home.address), number)
    has_more = True
    # Raised when another process has removed them.
    with suppress(NotFoundError):
        while has_more:
            with home.writing(RemovalScope(number)) as connection:
                has_more = remove_some(connection, number=number)
